"""`takeback redo`."""

from __future__ import annotations

import click

from takeback.cli.choices import ON_CONFLICT, PREVIEW
from takeback.cli.reports import print_report, print_stopped
from takeback.cli.session import Session, TakebackCommand
from takeback.errors import ConflictError, RollbackIncomplete


@click.command("redo", cls=TakebackCommand)
@PREVIEW
@ON_CONFLICT
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: Session, preview: bool, on_conflict: str) -> None:
    """Bring back what the last undo or restore took back

    Called again, it brings back the one before.
    """
    with session.workspace() as workspace:
        try:
            report = workspace.redo(preview=preview, on_conflict=on_conflict)
        except ConflictError as error:
            code = print_stopped(session, error, workspace.history)
        except RollbackIncomplete as error:
            code = print_report(session, workspace.history, error.report)
        else:
            code = print_report(session, workspace.history, report)
    ctx.exit(code)
