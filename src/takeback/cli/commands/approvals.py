"""`takeback approvals`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.runs import approval_data, approval_lines


@click.command("approvals", cls=TakebackCommand)
@click.pass_obj
def command(session: CommandContext) -> None:
    """List what waits for your word

    An agent that wants to do what cannot be taken back waits until you allow exactly that, or refuse it.
    """
    with session.workspace() as workspace:
        workspace.recover_if_idle()
        waiting = workspace.approvals()
    if session.json:
        return session.data({"approvals": [approval_data(approval) for approval in waiting]})
    if not waiting:
        return session.line("Nothing waits for your word.")
    for approval in waiting:
        for line in approval_lines(approval):
            session.line(line)
