"""Showing a moment, and a file as it was at one."""

from __future__ import annotations

import base64

import click
import msgspec

from takeback.cli.context import CommandContext
from takeback.cli.text import ago, iso
from takeback.workspace.workspace import Workspace


def show_moment(session: CommandContext, workspace: Workspace, named: str) -> None:
    """Print what was seen at a moment, and when."""
    seen = workspace.past.seen(workspace.past.moment(named))
    if session.json:
        marks = msgspec.to_builtins(seen.marks)
        data = {
            "kind": "moment",
            "name": seen.moment.name,
            "after": seen.moment.position,
            "seen": iso(seen.at_us),
        }
        return session.data(data | {"marks": marks})
    session.line(f"{seen.moment.name}  as seen {ago(seen.at_us)} (event {seen.moment.position})")
    for mark in seen.marks:
        session.line(f"  {mark.resource}  {mark.state}  proved by {mark.evidence or 'nothing'}")
    session.line(f"  look      takeback diff {seen.moment.typed}")
    session.line(f"  go there  takeback restore {seen.moment.typed} --preview")
    return None


def show_file(session: CommandContext, workspace: Workspace, named: str, path: str) -> None:
    """Write exactly the bytes that a file had, and nothing else."""
    file = workspace.past.file(named, path)
    content = workspace.past.content(file)
    if session.json:
        data = {"moment": file.moment.name, "path": str(file.target), "size": len(content)}
        return session.data(data | {"version": file.version.id} | _as_json(content))
    return click.echo(content, nl=False)


def _as_json(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
