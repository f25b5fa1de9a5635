"""`takeback approve`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.render.runs import approval_data
from takeback.cli.text import until
from takeback.workspace.describe import call_text


@click.command("approve", cls=TakebackCommand)
@click.argument("id", shell_complete=ids_of("approvals"))
@click.option(
    "--payload",
    metavar="DIGEST",
    default="",
    help="Approve only if the request has exactly this payload",
)
@click.pass_obj
def command(session: CommandContext, id: str, payload: str) -> None:
    """Approve one request, exactly as it was made and once

    The approval is valid for exactly these arguments, until it is used or expires. A command that runs inside an
    action cannot approve anything: an agent must not approve its own requests.
    """
    with session.workspace() as workspace:
        approval = workspace.approve(id, payload=payload)
    if session.json:
        return session.data(approval_data(approval))
    called = call_text(approval.asked.name, approval.asked.arguments)
    session.line(f"Allowed {id}: {called}, once, within {until(approval.asked.expires_us)}.")
