"""`takeback restore`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ALL, PREVIEW, ids_of
from takeback.cli.rollback import answer


@click.command("restore", cls=TakebackCommand)
@click.argument("moment", shell_complete=ids_of("moments"))
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
    moment: str,
    paths: tuple[str, ...],
    preview: bool,
    everything: bool,
) -> None:
    """Put the workspace back to a moment, undoing your own edits too

    MOMENT is a checkpoint (c3), "before a4" or "after s7" of an action, a step or a run, a time (14:02, "2h ago",
    "yesterday 18:00", 2026-01-31T14:02), or last-clean, the last checkpoint before the first change that still
    stands.

    The current state is saved first: `takeback redo` brings it back. This covers files and SQLite databases; git
    branches and the rows of a PostgreSQL server stay as they are.
    """
    with session.workspace() as workspace:
        with session.progress.during("Restoring"):
            report = workspace.try_restore(moment, paths=paths, preview=preview)
        session.everything = everything
        code = answer(session, workspace.history, report, paths=paths)
    ctx.exit(code)
