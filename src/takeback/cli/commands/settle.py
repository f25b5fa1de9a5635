"""`takeback settle`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.render.history import what
from takeback.errors import UsageError


@click.command("settle", cls=TakebackCommand)
@click.argument("id", shell_complete=ids_of("in_doubt"))
@click.option("--happened", is_flag=True, help="The call happened")
@click.option("--did-not", is_flag=True, help="The call did not happen")
@click.option(
    "--result", metavar="JSON", default="", help="The result of the call; its run continues with it"
)
@click.pass_obj
def command(session: CommandContext, id: str, happened: bool, did_not: bool, result: str) -> None:
    """Record whether a call happened, if Takeback cannot know

    ID is a call to another system that failed or was interrupted, so it is unknown whether it happened. Check that
    system, then record the answer. If the call happened, it is not made again; if it did not happen, there is nothing
    to undo. An agent cannot settle its own call.
    """
    if happened == did_not:
        raise UsageError("use either --happened or --did-not; nothing was changed")
    if result and did_not:
        raise UsageError("a call that did not happen has no result; nothing was changed")
    with session.workspace() as workspace:
        action = workspace.settle(id, happened=happened, result=_value(result))
        said = what(workspace.history, action)
    if session.json:
        return session.data({"action": id, "happened": happened})
    session.line(f"Recorded that {id} {'happened' if happened else 'did not happen'}: {said}")


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError as error:
        raise UsageError(
            f"the result is not JSON: {error}; nothing was changed", hint="as in --result '{\"id\": 7}'"
        ) from error
