"""`takeback blame`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.life import show_blame


@click.command("blame", cls=TakebackCommand)
@click.argument("file", type=click.Path())
@click.pass_obj
def command(session: CommandContext, file: str) -> None:
    """Show who wrote each line of a file: which agent, prompt and call, or you

    A line that an undo or a restore brought back belongs to the one who had written it. Lines that were there before
    the first record, and those that came since the last one, count as yours.
    """
    with session.workspace() as workspace:
        show_blame(session, workspace, file)
