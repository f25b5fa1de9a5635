"""The past as `show`, `log --path` and `blame` show it: a moment, a file at one, and the life of a file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext
from takeback.cli.render.file_life import blame_lines, life_lines, life_ways, line_data, version_data
from takeback.cli.render.runs import mark_lines
from takeback.cli.text import ago, fit, iso
from takeback.workspace.workspace import Workspace


def show_life(session: CommandContext, workspace: Workspace, paths: Sequence[str], limit: int) -> None:
    """Print the versions of files, the latest at the bottom."""
    found = workspace.past.life(paths, limit + 1 if limit else 0)
    versions = found[:limit] if limit else found
    history, diff = workspace.history, workspace.past.compared(version.change for version in versions)
    if session.json:
        entries: list[dict[str, Any]] = [version_data(history, version, diff) for version in versions]
        more = len(found) > len(versions)  # counting them would read them all
        return session.data({"entries": entries, "total": None if more else len(entries), "more": more})
    if not versions:
        return session.line(f"Nothing recorded ever changed {', '.join(paths)}.")
    if len(found) > len(versions):
        session.line(f"… there are earlier versions; `takeback log -n 0 --path {paths[0]}` shows all")
    for line in [*life_lines(history, versions[::-1], diff), *life_ways(history, versions)]:
        session.line(line)
    return None


def show_blame(session: CommandContext, workspace: Workspace, path: str) -> None:
    """Print the lines of a file, each with who wrote it."""
    lines = workspace.past.blame(path)
    if session.json:
        data = [line_data(number, line) for number, line in enumerate(lines, 1)]
        return session.data({"path": path, "lines": data})
    for line in blame_lines(lines):
        session.line(line)
    return None


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
    for line in fit(mark_lines(seen.marks, seen.moment.typed)):
        session.line(line)
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
