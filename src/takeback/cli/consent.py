"""Settings that hold only once a human has accepted them: shown, with a question if there is a terminal.

The question is asked once. Events of agents never ask, and an answer from inside an action does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from takeback.cli.context import CommandContext
from takeback.cli.text import paint
from takeback.core.codec import printable
from takeback.errors import RefusedError
from takeback.settings import environment, toml

if TYPE_CHECKING:
    from takeback.settings.loosening import Setting
    from takeback.workspace.trusted_settings import Offer
    from takeback.workspace.workspace import Workspace

REPEAT_LEAST = 100
"""So many characters of a line are not shown again if the line above ends with them too."""


def before_opening(root: Path, state: Path, *, accept: bool) -> None:
    """Ask about the settings of a folder before its history is begun: one of them may say where to begin it."""
    from takeback.workspace.opening import accept_unopened
    from takeback.workspace.trusted_settings import declined, unaccepted

    asked = unaccepted(root, state)
    if accept and (asked or environment.parent_action()):
        _show(asked)
        if not is_terminal() or click.confirm("Accept this?", default=True, err=True):
            accept_unopened(state, asked)
    elif not accept and (fresh := [one for one in asked if one.digest not in declined(state)]):
        if not _may_ask() or environment.parent_action():
            return
        _show(fresh)
        if click.confirm("Accept this?", default=False, err=True):
            accept_unopened(state, fresh)
        else:
            _decline(state, [one.digest for one in fresh])


def after_opening(workspace: Workspace, *, accept: bool) -> None:
    """Ask about the settings of an open workspace."""
    from takeback.workspace.trusted_settings import declined

    offer = workspace.trusted.offer()
    digests = [*(one.digest for one in offer.asked), *([offer.digest] if offer.since else [])]
    if accept:
        _refuse_agent(workspace)
        if not digests:
            return
        _show(offer.asked, offer)
        if not is_terminal() or click.confirm("Accept this?", default=True, err=True):
            workspace.trusted.accept_offer(offer)
        return
    if set(digests) <= set(declined(workspace.state)) or not _may_ask():
        return
    if environment.parent_action() or workspace.inside_action():
        return
    _show(offer.asked, offer)
    if click.confirm("Accept this?", default=False, err=True):
        workspace.trusted.accept_offer(offer)
    else:
        _decline(workspace.state, digests)


def _refuse_agent(workspace: Workspace) -> None:
    """Raise RefusedError if an agent may be asking. Without a terminal that is unknown while an agent is at work."""
    workspace.refuse_inside()
    history = workspace.history
    if not is_terminal() and (history.is_in_session or history.open_actions()):
        raise RefusedError(
            "an agent is at work here, so settings can only be accepted on a terminal. Nothing was changed",
            hint="run this on a terminal, or end the agent's session first",
        )


def _show(asked: Sequence[Setting], offer: Offer | None = None) -> None:
    if offer and offer.since:
        click.echo(f"{toml.FILE} was changed by {offer.since}:", err=True)
        # The file may be hostile: it must not control the terminal on which it is judged.
        for line in map(printable, offer.diff):
            colour = {"+": "green", "-": "red"}.get(line[:1])
            click.echo(f"  {paint(line, fg=colour) if colour else line}", err=True)
    if asked:
        click.echo(f"{toml.FILE} has settings that hold only if you accept them:", err=True)
        for one in asked:
            click.echo(f"  {one.does:<10} {printable(str(one))}", err=True)


def _decline(state: Path, digests: Sequence[str]) -> None:
    from takeback.workspace.trusted_settings import ACCEPT, decline

    decline(state, digests)
    click.echo(f"Not accepted, so the defaults hold. To accept later: {ACCEPT}", err=True)


def is_terminal() -> bool:
    """Return True if a human can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _may_ask() -> bool:
    return is_terminal() and sys.stdout.isatty()


def without_repeats(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines for people: a long line that ends like the one above is cut there. Hooks differ in their events."""
    above = ""
    for line in lines:
        plain = line.rstrip(",")
        ends = zip(reversed(plain), reversed(above), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
        while same and plain[-same].isalnum():
            same -= 1  # no word is cut
        yield f"{plain[:-same]} … as above" if same > REPEAT_LEAST else line
        above = plain


def may_write(session: CommandContext, diff: str, *, yes: bool) -> None:
    """Show a change, and ask on a terminal. Raise RefusedError if the answer is no."""
    if session.json:
        return
    lines = diff.splitlines()
    for line in without_repeats(lines) if sys.stdout.isatty() else lines:
        colour = {"+": "green", "-": "red"}.get(line[:1])
        session.line(paint(line, fg=colour) if colour else line)
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and not click.confirm("Write this?", default=True):
        raise RefusedError("nothing was changed")
