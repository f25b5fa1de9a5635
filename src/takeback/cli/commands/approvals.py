"""`takeback approvals`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.runs import approval_data, approval_lines


@click.command("approvals", cls=TakebackCommand)
@click.pass_obj
def command(session: CommandContext) -> None:
    """List the requests that wait for your approval

    An agent that wants to do something that cannot be taken back waits until you approve or deny exactly that.
    """
    with session.workspace() as workspace:
        workspace.recover_if_idle()
        waiting = workspace.approvals()
    if session.json:
        return session.data({"approvals": [approval_data(approval) for approval in waiting]})
    if not waiting:
        return session.line("Nothing waits for your approval.")
    for approval in waiting:
        for line in approval_lines(approval):
            session.line(line)
