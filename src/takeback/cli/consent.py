"""Settings that hold only once a human has accepted them: shown, and asked for where there is somebody to ask.

The question is asked once. No event of an agent comes here, and nothing that runs inside of an action is heard.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from takeback.cli.context import CommandContext
from takeback.cli.text import paint, printable
from takeback.errors import RefusedError
from takeback.settings import environment, toml

if TYPE_CHECKING:
    from takeback.settings.loosening import Setting
    from takeback.workspace.trusted_settings import Offer
    from takeback.workspace.workspace import Workspace


def before_opening(root: Path, state: Path, *, accept: bool) -> None:
    """Ask about the settings that came with a folder whose history is not begun: one of them may say where."""
    from takeback.settings.loosening import to_accept
    from takeback.storage.state import acceptance
    from takeback.workspace.opening import accept_unopened

    known = acceptance.read(state)
    asked = [one for one in to_accept(toml.read_config(root)) if one.digest not in known.accepted]
    if accept and (asked or environment.parent_action()):
        _show(asked)
        if not is_terminal() or click.confirm("Accept this?", default=True, err=True):
            accept_unopened(state, asked)
    elif not accept and (fresh := [one for one in asked if one.digest not in known.declined]):
        if not _may_ask() or environment.parent_action():
            return
        _show(fresh)
        if click.confirm("Accept this?", default=False, err=True):
            accept_unopened(state, fresh)
        else:
            _decline(state, [one.digest for one in fresh])


def after_opening(workspace: Workspace, *, accept: bool) -> None:
    """Ask about settings of a workspace that is open."""
    from takeback.storage.state import acceptance

    offer = workspace.parts.trusted.offer()
    digests = [*(one.digest for one in offer.asked), *([offer.digest] if offer.since else [])]
    if accept:
        _refuse_agent(workspace)
        if not digests:
            return
        _show(offer.asked, offer)
        if not is_terminal() or click.confirm("Accept this?", default=True, err=True):
            workspace.parts.trusted.accept_offer(offer)
        return
    if set(digests) <= acceptance.read(workspace.state).declined or not _may_ask():
        return
    if environment.parent_action() or workspace.inside_action():
        return
    _show(offer.asked, offer)
    if click.confirm("Accept this?", default=False, err=True):
        workspace.parts.trusted.accept_offer(offer)
    else:
        _decline(workspace.state, digests)


def _refuse_agent(workspace: Workspace) -> None:
    """An agent cannot accept its own settings. Without a terminal nobody can tell who asks while one is at work."""
    workspace.refuse_inside()
    history = workspace.history
    if not is_terminal() and (history.is_in_session or history.open_actions()):
        raise RefusedError(
            "an agent is at work here, so settings are accepted on a terminal only. Nothing was changed",
            hint="type it on a terminal, or end the agent's session first",
        )


def _show(asked: Sequence[Setting], offer: Offer | None = None) -> None:
    if offer and offer.since:
        click.echo(f"{toml.FILE} was changed by {offer.since}:", err=True)
        # A file of somebody else's must not steer the terminal on which it is judged.
        for line in map(printable, offer.diff):
            colour = {"+": "green", "-": "red"}.get(line[:1])
            click.echo(f"  {paint(line, fg=colour) if colour else line}", err=True)
    if asked:
        click.echo(f"{toml.FILE} has settings that hold only if you accept them:", err=True)
        for one in asked:
            click.echo(f"  {one.does:<10} {printable(str(one))}", err=True)


def _decline(state: Path, digests: Sequence[str]) -> None:
    from takeback.storage.state import acceptance
    from takeback.workspace.trusted_settings import ACCEPT

    acceptance.note(state, declined=digests)
    click.echo(f"Not accepted: the defaults hold in their place. Later: {ACCEPT}", err=True)


def is_terminal() -> bool:
    """Whether somebody can be asked there."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _may_ask() -> bool:
    return is_terminal() and sys.stdout.isatty()


def may_write(session: CommandContext, diff: str, *, yes: bool) -> None:
    """Show a change, and ask on a terminal. Raises RefusedError if the answer is no."""
    if session.json:
        return
    for line in diff.splitlines():
        colour = {"+": "green", "-": "red"}.get(line[:1])
        session.line(paint(line, fg=colour) if colour else line)
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and not click.confirm("Write this?", default=True):
        raise RefusedError("nothing was changed")
