"""`takeback diff`."""

from __future__ import annotations

import sys
from itertools import takewhile

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.render.history import telling
from takeback.cli.text import paint, visible
from takeback.workspace.describe import Diff, kind, verb


@click.command("diff", cls=TakebackCommand)
@click.argument("words", nargs=-1, metavar="[FROM [TO]] [PATH]...", shell_complete=ids_of("moments or paths"))
@click.option(
    "--stat", is_flag=True, help="Print one line for each path, with the number of lines added and removed"
)
@click.pass_obj
def command(session: CommandContext, words: tuple[str, ...], stat: bool) -> None:
    """Show what changed

    \b
    takeback diff          since the last action began, up to now
    takeback diff a7       what the action a7 changed; also a step or a run
    takeback diff c3       from the checkpoint c3 up to now
    takeback diff c3 c9    from one checkpoint to another
    takeback diff a4 a7    from before the action a4 to before the action a7
    takeback diff "2h ago" "after a7" -- src    between two moments, below src

    A moment is a checkpoint, "before a4" or "after s7" of an action, a step or a run, a time (14:02, "2h ago",
    "yesterday 18:00", 2026-01-31T14:02), or last-clean. Paths at the end limit the output to these files and folders.
    """
    with session.workspace() as workspace:
        moments = list(takewhile(workspace.past.is_moment, words[:2]))
        start, end = [*moments, "", ""][:2]
        diff = workspace.diff(start, end, words[len(moments) :])
        if session.json:
            return session.data({"changes": diff.data()})
        shown = msgspec.structs.replace(diff, changes=tuple(telling(diff)))
        lines = _stat(shown) if stat else _painted(shown)
        for line in lines:
            session.line(line)
        if not diff:
            session.line("Nothing changed.")


def _stat(diff: Diff) -> list[str]:
    lines = []
    for change in diff:
        counts = diff.stat(change)
        if counts is None and change.before == change.after:
            continue
        if says := diff.tell(change):
            lines.append(f" {verb(change):8} {'':>12}  {says}")
            continue
        amount = kind(change) if counts is None else f"+{counts[0]} -{counts[1]}"
        lines.append(f" {verb(change):8} {amount:>12}  {change.target}")
    return lines


def _painted(diff: Diff) -> list[str]:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    plain = visible if sys.stdout.isatty() else str  # in a pipe the output is a patch
    lines = str(diff).removesuffix("\n").split("\n") if diff else []
    return [paint(plain(line), fg=colours.get(line[:1])) for line in lines]
