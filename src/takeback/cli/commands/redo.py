"""`takeback redo`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ALL, ON_CONFLICT, PREVIEW
from takeback.cli.rollback import answer


@click.command("redo", cls=TakebackCommand)
@PREVIEW
@ON_CONFLICT
@ALL
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context, session: CommandContext, preview: bool, on_conflict: str, everything: bool
) -> None:
    """Bring back what the last undo or restore took back

    The next `redo` reverses the undo or restore before that.
    """
    with session.workspace() as workspace:
        with session.progress.during("Bringing back"):
            report = workspace.try_redo(preview=preview, on_conflict=on_conflict)
        session.everything = everything
        code = answer(session, workspace.history, report)
    ctx.exit(code)
