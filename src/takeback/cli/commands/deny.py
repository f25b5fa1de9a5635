"""`takeback deny`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.render.runs import approval_data
from takeback.workspace.describe import call_text


@click.command("deny", cls=TakebackCommand)
@click.argument("id", shell_complete=ids_of("approvals"))
@click.option("--why", metavar="REASON", default="", help="The reason that the agent gets")
@click.pass_obj
def command(session: CommandContext, id: str, why: str) -> None:
    """Deny one request

    The action does not begin, and the agent gets an error with your reason.
    """
    with session.workspace() as workspace:
        approval = workspace.deny(id, why)
    if session.json:
        return session.data(approval_data(approval))
    session.line(
        f"Refused {id}: {call_text(approval.asked.name, approval.asked.arguments)}. It was not started."
    )
