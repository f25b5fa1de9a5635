"""`takeback diff`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ALL, ids_of
from takeback.cli.pager import page
from takeback.cli.render.history import telling
from takeback.cli.render.listing import fitted
from takeback.cli.text import folded, paint, room, visible
from takeback.core.listing import lines_of, listed
from takeback.workspace.describe import Diff, kind, verb
from takeback.workspace.workspace import Workspace

LINES_MAX = 400
STAT_COLUMNS = 24
"""In front of the name: what was done, and how many lines."""


@click.command("diff", cls=TakebackCommand)
@click.argument("words", nargs=-1, metavar="[FROM [TO]] [PATH]...", shell_complete=ids_of("moments or paths"))
@click.option(
    "--stat", is_flag=True, help="Print one line for each path, with the number of lines added and removed"
)
@click.option(
    "-p", "--patch", is_flag=True, help=f"Print the lines themselves, even if they are more than {LINES_MAX}"
)
@click.option("--no-pager", is_flag=True, help="Do not show long output page by page")
@ALL
@click.pass_obj
def command(
    session: CommandContext,
    words: tuple[str, ...],
    stat: bool,
    patch: bool,
    no_pager: bool,
    everything: bool,
) -> None:
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

    What matters comes first: git, databases, your files; then what is generated. More than 400 lines are printed as
    with --stat. On a terminal, long output is shown by $PAGER.
    """
    with session.workspace() as workspace:
        moments = list(takewhile(workspace.past.is_moment, words[:2]))
        start, end = [*moments, "", ""][:2]
        with session.progress.during("Comparing"):
            diff = workspace.diff(start, end, words[len(moments) :])
        if session.json:
            return session.data({"changes": diff.data()})
        shown = msgspec.structs.replace(diff, changes=tuple(telling(diff)))
        if not diff:
            return session.line("Nothing changed.")
        lines = _lines(workspace, shown, stat=stat, patch=patch, everything=everything)
        page(lines, wanted=not no_pager)


def _lines(workspace: Workspace, diff: Diff, *, stat: bool, patch: bool, everything: bool) -> Iterator[str]:
    """Yield a diff line by line: it may be of very many files."""
    if not stat:
        lines = _painted(diff.lines())
        first = [] if patch else list(islice(lines, LINES_MAX + 1))
        if len(first) <= LINES_MAX:
            yield from first
            yield from lines
            return
    yield from _stat(workspace, diff, everything=everything)
    if not stat:
        yield from folded(
            f"These are more than {LINES_MAX} lines. See them all with --patch, or name a file", ""
        )


def _stat(workspace: Workspace, diff: Diff, *, everything: bool) -> Iterator[str]:
    """Yield a line for each path, or for a whole folder; the content of such a folder is not read."""
    every = {change.target: change for change in diff if change.before != change.after or diff.stat(change)}
    places = workspace.places(every.values())
    most = room() - STAT_COLUMNS
    for line in lines_of((listed(c, places) for c in every.values()), folding=not everything):
        change = every[line.targets[0]]
        did = {verb(every[target]) for target in line.targets}
        counts = None if line.is_folded else diff.stat(change)
        says = "" if line.is_folded else diff.tell(change)
        head = f" {did.pop() if len(did) == 1 else 'changed':8} "
        if says or line.is_folded:
            yield from folded(head + (says or line.said), "", " " * len(head))
            continue
        amount = f"+{counts[0]} -{counts[1]}" if counts else kind(change)
        name = str(change.target)
        yield f"{head}{amount:>12}  {name if everything else fitted(name, most)}"


def _painted(lines: Iterable[str]) -> Iterator[str]:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    plain = visible if sys.stdout.isatty() else str  # in a pipe the output is a patch
    for text in lines:
        for line in text.removesuffix("\n").split("\n"):
            yield paint(plain(line), fg=colours.get(line[:1]))
