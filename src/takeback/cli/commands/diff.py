"""`takeback diff`."""

from __future__ import annotations

import sys

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.render.history import telling
from takeback.cli.text import paint, visible
from takeback.core import ids
from takeback.workspace.describe import Diff, kind, verb


@click.command("diff", cls=TakebackCommand)
@click.argument("words", nargs=-1, metavar="[FROM [TO]] [PATH]...", shell_complete=ids_of("moments"))
@click.option("--stat", is_flag=True, help="One line for each path, with lines added and removed")
@click.pass_obj
def command(session: CommandContext, words: tuple[str, ...], stat: bool) -> None:
    """Show what changed

    FROM and TO are checkpoints, or actions: then the moment before each is meant. Without TO it is the present, but
    one action alone shows what it changed. Without anything: what has changed since the last action began.
    """
    moments: list[str] = []
    while len(moments) < 2 and len(moments) < len(words) and ids.is_id(words[len(moments)]):
        moments.append(words[len(moments)])
    start, end = [*moments, "", ""][:2]
    with session.workspace() as workspace:
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
    plain = visible if sys.stdout.isatty() else str  # in a pipe it is a patch
    lines = str(diff).removesuffix("\n").split("\n") if diff else []
    return [paint(plain(line), fg=colours.get(line[:1])) for line in lines]
