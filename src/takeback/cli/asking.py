"""A change of somebody's settings: shown first, and asked for where there is somebody to ask."""

from __future__ import annotations

import sys

import click

from takeback.cli.session import Session, paint
from takeback.errors import RefusedError


def may_write(session: Session, diff: str, *, yes: bool) -> None:
    """Show a change, and ask on a terminal. Raises RefusedError if the answer is no."""
    if session.json:
        return
    for line in diff.splitlines():
        colour = {"+": "green", "-": "red"}.get(line[:1])
        session.line(paint(line, fg=colour) if colour else line)
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and not click.confirm("Write this?", default=True):
        raise RefusedError("nothing was changed")
