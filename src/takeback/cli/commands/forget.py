"""`takeback forget`."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from takeback.cli.consent import is_terminal
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized
from takeback.daemon import control
from takeback.errors import RefusedError, UsageError
from takeback.settings import environment
from takeback.workspace.forgetting import Forgotten, ForgottenPath, named

SHOWN_MAX = 20


@click.command("forget", cls=TakebackCommand)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--workspace", "everything", is_flag=True, help="Remove everything recorded of this workspace")
@click.option("--preview", is_flag=True, help="Only show what would be removed")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, and also remove content that other paths share")
@click.pass_obj
def command(
    session: CommandContext, paths: tuple[str, ...], everything: bool, preview: bool, yes: bool
) -> None:
    """Remove the content of a path from every stored version, or the whole history

    Use this for a secret that was captured. It removes every stored version of PATH, and of everything below it if
    PATH is a folder: files, images of databases, and the arguments and results of calls about it, on this machine and
    in the bucket. If another path has the same content, Takeback asks first; without a terminal, use --yes. Changes
    that need the removed content can no longer be taken back, and `undo` says so before it changes anything.

    The files in the workspace, git's objects, and the names, times and digests in the journal are not touched. While
    a file still has the content, the next capture stores it again: first remove it there, or exclude the path.
    """
    if everything == bool(paths):
        raise UsageError("name either paths or --workspace; nothing was changed")
    if everything:
        return _forget_workspace(session, preview=preview, yes=yes)
    with session.workspace() as workspace:
        found = workspace.forget(*paths, preview=True)
        if not preview and found.paths:
            shared = _may_forget(session, found, yes=yes)
            found = workspace.forget(*paths, shared=shared)
    if session.json:
        return session.data(msgspec.to_builtins(found))
    _show(session, found)
    if found.done:
        freed = f"Freed {sized(found.bytes_freed)}"
        bucket = f", and {sized(found.bucket_bytes_freed)} in the bucket" if found.bucket_bytes_freed else ""
        session.line(f"Forgotten, and recorded that it was. {freed}{bucket}.")


def _may_forget(session: CommandContext, found: Forgotten, *, yes: bool) -> bool:
    """Return whether content of other paths may go too. Raise RefusedError if a human says no."""
    if yes or not is_terminal():
        return yes
    _show(session, found, err=True)
    if not click.confirm("Forget this for good?", default=False, err=True):
        raise RefusedError("nothing was forgotten")
    return True


def _show(session: CommandContext, found: Forgotten, *, err: bool = False) -> None:
    def line(text: str) -> None:
        click.echo(text, err=True) if err else session.line(text)

    if not found.paths:
        return line("No content of that is stored, so there is nothing to forget.")
    if not found.done or err:
        _list(line, "Every stored version of", found.paths)
        _list(line, "The same content in", found.shared)
        if found.calls:
            line(f"What {plural(found.calls, 'call')} that named or quoted it got or returned.")
    if found.needed:
        line(f"Without it, these cannot be sent, taken back or resumed any more: {named(found.needed)}.")
    if found.present:
        line(
            f"The workspace still has it, in {named(found.present)}: the next capture stores it again. "
            "Remove it from the file, or exclude the path in takeback.toml, and forget it again."
        )
    if found.quoted:
        line(
            "What was recorded of other things quotes it or a line of it, and this command does not rewrite it: "
            f"see `takeback show` {named(found.quoted)}."
        )
    if found.conversations:
        line(
            f"Conversations that an agent framework keeps here quote it, and stay: {named(found.conversations)}. "
            "Delete these threads with the framework, if you can do without them."
        )
    if found.has_git:
        line("Git's objects are not covered: if it was committed, rewrite the repository's history as well.")


def _list(line: Any, title: str, paths: tuple[ForgottenPath, ...]) -> None:
    if paths:
        line(f"{title}:")
    for one in paths[:SHOWN_MAX]:
        line(f"  {one.path}   {plural(one.contents, 'content')}")
    if len(paths) > SHOWN_MAX:
        line(f"  … {len(paths) - SHOWN_MAX:,} more; --json lists all")


# The whole workspace


def _forget_workspace(session: CommandContext, *, preview: bool, yes: bool) -> None:
    from takeback.workspace import removal
    from takeback.workspace.locate import directory_of, registry_of_user

    home = environment.state_home()
    if not preview and removal.finish(home):
        session.line("Removed what an interrupted removal had left.")
        if registry_of_user().nearest(directory_of(".")) is None:
            return
    with session.workspace() as workspace:
        found = removal.planned(workspace)
        sizes = workspace.upkeep.sizes()
    stays = [
        *(["its journal in the shared store"] if found.is_shared else []),
        *(["its content in the bucket"] if found.has_bucket else []),
    ]
    if session.json and (preview or yes):
        session.data(
            {
                "root": os.fspath(found.root),
                "folders": [os.fspath(folder) for folder in found.folders],
                "bytes": sizes.total,
                "elsewhere": stays,
                "done": not preview,
            }
        )
    elif not session.json:
        session.line(f"The whole history of {found.root} ({sizes}):")
        for folder in found.folders:
            session.line(f"  {folder}")
        if stays:
            session.line(f"Not removed: {' and '.join(stays)}. docs/STORE.md says how to remove them.")
    if preview:
        return
    if not yes:
        if not is_terminal():
            raise RefusedError("nothing was removed", hint="to remove it without being asked: add --yes")
        if not click.confirm(
            "Remove this for good? Nothing can be taken back afterwards.", default=False, err=True
        ):
            raise RefusedError("nothing was removed")
    # It may have the workspace open, and would write into it.
    control.stop(home)
    removal.remove(found)
    if not session.json:
        session.line("Removed. The files in the workspace are as they were; they are no longer protected.")
