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
@click.option("--happened", is_flag=True, help="It did happen")
@click.option("--did-not", is_flag=True, help="It did not happen")
@click.option("--result", metavar="JSON", default="", help="What it gave, for a run that goes on with it")
@click.pass_obj
def command(session: CommandContext, id: str, happened: bool, did_not: bool, result: str) -> None:
    """Say whether a call in doubt happened

    ID is a call to another system that failed or was cut short, so that it is unknown whether it happened. Look
    there, then say so. One that happened is not made again; of one that did not there is nothing to take back. An
    agent cannot answer for its own call.
    """
    if happened == did_not:
        raise UsageError("say either --happened or --did-not; nothing was changed")
    if result and did_not:
        raise UsageError("what did not happen has no result; nothing was changed")
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
