"""`takeback restore`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ALL, PREVIEW, ids_of
from takeback.cli.rollback import answer


@click.command("restore", cls=TakebackCommand)
@click.argument("checkpoint", shell_complete=ids_of("checkpoints"))
@click.option(
    "--path", "paths", metavar="PATH", multiple=True, help="Restore only this file or folder; may be repeated"
)
@PREVIEW
@ALL
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    checkpoint: str,
    paths: tuple[str, ...],
    preview: bool,
    everything: bool,
) -> None:
    """Put the workspace back to a checkpoint, undoing your own edits too

    The current state is saved first: `takeback redo` brings it back. This covers files and SQLite databases; git
    branches and the rows of a PostgreSQL server stay as they are.
    """
    with session.workspace() as workspace:
        with session.progress.during("Restoring"):
            report = workspace.try_restore(checkpoint, paths=paths, preview=preview)
        session.everything = everything
        code = answer(session, workspace.history, report, paths=paths)
    ctx.exit(code)
