"""`takeback gc`."""

from __future__ import annotations

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized


@click.command("gc", cls=TakebackCommand)
@click.pass_obj
def command(session: CommandContext) -> None:
    """Let go of content that the limits in takeback.toml do not keep

    The journal is never cut. What can no longer be taken back afterwards is named by `undo --preview`.
    """
    with session.workspace() as workspace:
        pruned = workspace.gc()
    if session.json:
        return session.data(msgspec.to_builtins(pruned))
    session.line(
        f"Freed {sized(pruned.freed)}; {sized(pruned.bytes_after)} remain. Kept "
        f"{plural(pruned.marks_kept, 'state')} of the files, let go of {pruned.marks_pruned:,}."
    )
    if pruned.bucket_bytes_freed:
        session.line(f"Freed {sized(pruned.bucket_bytes_freed)} in the bucket.")
