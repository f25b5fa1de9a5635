"""Options that several commands share."""

from __future__ import annotations

import click

PREVIEW = click.option("--preview", is_flag=True, help="Show what would be done and change nothing")
ON_CONFLICT = click.option(
    "--on-conflict",
    type=click.Choice(["stop", "keep", "merge", "overwrite"]),
    default="stop",
    show_default=True,
    help="Where somebody else changed the same file since: stop everything, keep theirs, merge, or overwrite",
)
