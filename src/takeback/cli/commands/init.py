"""`takeback init`."""

from __future__ import annotations

import time

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized
from takeback.workspace.opening import begin_anew


@click.command("init", cls=TakebackCommand)
@click.option("--allow-home", is_flag=True, help="Allow a home folder, or a folder above one")
@click.option(
    "--accept-config",
    is_flag=True,
    help="Show the settings in takeback.toml that need your consent, and accept them",
)
@click.option("--fresh", is_flag=True, help="Start a new history if the old one is gone or damaged")
@click.pass_obj
def command(session: CommandContext, allow_home: bool, accept_config: bool, fresh: bool) -> None:
    """Start protecting a folder, with a first checkpoint

    Nothing is written into the folder itself. If the folder is already protected, this takes another checkpoint.
    """
    began = time.monotonic()
    aside = begin_anew(".") if fresh else None
    with session.protect(allow_home=allow_home, accept_config=accept_config) as workspace:
        first = not workspace.history.marks
        checkpoint = workspace.save("takeback init")
        files, size = workspace.upkeep.counted()
    seconds = time.monotonic() - began
    if session.json:
        root = str(workspace.root)
        return session.data({"root": root, "checkpoint": checkpoint.id, "files": files, "bytes": size})
    if aside:
        session.line(f"What was left of the old history is now in {aside}.")
    called = "First checkpoint" if first else "Checkpoint"
    session.line(
        f"Protecting {workspace.root} ({plural(files, 'file')}, {sized(size)}). "
        f"{called} {checkpoint.id} in {seconds:.1f} s; later ones cost only what changed."
    )
    session.line("  let an agent work   takeback run -- COMMAND")
    session.line("  take it back        takeback undo")
