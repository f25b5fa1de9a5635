"""`takeback rehearse`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural
from takeback.core.codec import printable
from takeback.core.plan import BYTES_MAX, parse_plan
from takeback.errors import RollbackIncomplete, UsageError
from takeback.workspace.shadow.rehearsal import FAILURES, Rehearsed, rehearse_command, rehearse_plan

_DASHES = "takeback.dashes"


class RehearseCommand(TakebackCommand):
    """A command line that tells a plan from a command by the dashes before the command."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_DASHES] = "--" in args
        return super().parse_args(ctx, args)


@click.command("rehearse", cls=RehearseCommand)
@click.option(
    "--failure",
    "failures",
    multiple=True,
    type=click.Choice(FAILURES),
    help="Only this kind of failure; may be repeated (default: all of them)",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PLAN | -- COMMAND...")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context, session: CommandContext, failures: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """Let each step of a plan, or a command, fail on a copy, and see whether everything comes back

    For each step and each kind of failure (an error, a timeout, a kill) there is a fresh view: the plan runs up to
    the step, the step fails after it has had its effect, what was done is taken back, and the copy is compared with
    the start. Calls to other systems are only simulated. A command fails at its end, or is stopped halfway.

    Exits with 0 if everything comes back, and with 6 if something would be left.
    """
    chosen = failures or FAILURES

    def tell(step: str, failure: str) -> None:
        if not session.json:
            click.echo(f"rehearsing {printable(step)}: {failure} …", err=True)

    with session.protect() as workspace:
        if ctx.meta[_DASHES]:
            found = rehearse_command(workspace, words, chosen, tell)
        elif len(words) == 1:
            found = rehearse_plan(workspace, parse_plan(_read(words[0]), words[0]), chosen, tell)
        else:
            raise UsageError("name one plan, or put -- before a command; nothing was rehearsed")
    if session.json:
        session.data(_data(found))
    else:
        for line in _lines(found):
            session.line(line)
    ctx.exit(RollbackIncomplete.exit_code if found.wrong else 0)


def _read(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; nothing was rehearsed") from error


def _data(found: Rehearsed) -> dict[str, Any]:
    return {
        "name": found.name,
        "clean": not found.wrong,
        "wrong": list(found.wrong),
        "trials": [{**msgspec.to_builtins(one), "clean": one.is_clean} for one in found.trials],
    }


def _lines(found: Rehearsed) -> list[str]:
    wide = max(len(one.step) for one in found.trials) + 2
    lines = []
    for one in found.trials:
        says = "comes back" if one.is_clean else f"LEAVES {', '.join(one.left)}"
        why = f" ({one.why})" if one.why else ""
        lines.append(printable(f"  {one.step:<{wide}}{one.failure:<9}{one.took_s:>6.2f} s  {says}{why}"))
    count = plural(len(found.trials), "failure")
    if not found.wrong:
        return [*lines, f"All {count} of {found.name!r} come back clean."]
    return [*lines, f"Of {count}, not all come back clean. To be fixed: {', '.join(found.wrong)}"]
