"""The first checkpoint of a folder, which takes a while, so a message says what for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from takeback.cli.context import CommandContext
from takeback.cli.text import plural, sized

if TYPE_CHECKING:
    from takeback.core.entities import Checkpoint
    from takeback.workspace.workspace import Workspace


def first_checkpoint(session: CommandContext, workspace: Workspace, message: str) -> Checkpoint:
    """Take the first checkpoint, and print to standard error how much is protected from now on."""
    began = time.monotonic()
    checkpoint = workspace.save(message)
    files, size = workspace.upkeep.counted()
    if not session.json:
        click.echo(
            f"Protecting {workspace.root} ({plural(files, 'file')}, {sized(size)}): first checkpoint "
            f"{checkpoint.id} in {time.monotonic() - began:.1f} s, later ones cost only what changed",
            err=True,
        )
    return checkpoint
