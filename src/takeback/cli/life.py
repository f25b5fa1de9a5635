"""The life of a file as `takeback log --path` and `takeback blame` show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from takeback.cli.context import CommandContext
from takeback.cli.render.file_life import blame_lines, life_lines, line_data, version_data
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
        session.line(f" … there are earlier versions; `takeback log -n 0 --path {paths[0]}` shows all")
    for line in life_lines(history, versions[::-1], diff):
        session.line(line)
    last = versions[0]
    session.line(f" see one   takeback show {last.action.id}:{last.change.target}")
    session.line(f" who       takeback blame {last.change.target}")
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
