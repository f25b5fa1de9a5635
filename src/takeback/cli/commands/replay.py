"""`takeback replay`."""

from __future__ import annotations

from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.text import iso
from takeback.core import ids
from takeback.core.values import view
from takeback.errors import UsageError
from takeback.workspace.describe import ReplayMoment, short


@click.command("replay", cls=TakebackCommand)
@click.argument("run", shell_complete=ids_of("runs"))
@click.option(
    "--to",
    metavar="ID",
    default="",
    shell_complete=ids_of("everything"),
    help="Stop after this step, action, checkpoint or request, or at the event with this number",
)
@click.option("--all", "everything", is_flag=True, help="Show every event, including the minor ones")
@click.pass_obj
def command(session: CommandContext, run: str, to: str, everything: bool) -> None:
    """Show a past run event by event; nothing is executed

    Prints the recorded events in order, with the result of each call, and the memory of the run at the end or at the
    point given by --to.
    """
    if ids.parse(run)[0] != ids.RUN:
        raise UsageError(f"{run} is not a run", hint=f"`takeback show {run}` shows which run it belongs to")
    with session.workspace() as workspace:
        moments = list(workspace.replay(run, to))
    if session.json:
        return session.data({"run": run, "moments": [_data(moment) for moment in moments]})
    for moment in moments:
        if everything or not moment.minor:
            session.line(_line(moment))
    memory = view(moments[-1].memory)
    if memory:
        session.line("memory then")
        for key, value in memory.items():
            session.line(f"  {key} = {short(value)}")


def _line(moment: ReplayMoment) -> str:
    gave = f"  → {short(moment.result)}" if moment.result is not None else ""
    return f"{moment.seq:>5}  {iso(moment.at_us)[11:23]}  {moment.id:<5} {moment.what}{gave}"


def _data(moment: ReplayMoment) -> dict[str, Any]:
    return {
        "event": moment.seq,
        "at": iso(moment.at_us),
        "type": moment.event,
        "id": moment.id,
        "what": moment.what,
        "result": moment.shown,
        "memory": view(moment.memory),
    }
