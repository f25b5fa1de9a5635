"""The other worktrees of a project that have a history of their own, as text and data."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from takeback.workspace.locate import registry_of_user, worktrees_of


def others(root: Path) -> list[Path]:
    """Return the other worktrees, or the project, of a folder that have a history of their own."""
    registry = registry_of_user()
    return [path for path in worktrees_of(root) if registry.knows(path)]


def worktree_lines(root: Path) -> list[str]:
    """Return where else this project was worked on, and how to see it."""
    lines = []
    for path in others(root):
        shown = shlex.quote(os.path.relpath(path, root))
        if path.is_dir():
            lines.append(f" also in the worktree {shown}: takeback -C {shown} log")
        else:
            lines.append(
                f" also in the worktree {shown}, which is gone; with the folder back: takeback -C {shown} log"
            )
    return lines


def worktree_data(root: Path) -> list[dict[str, Any]]:
    return [{"root": str(path), "exists": path.is_dir()} for path in others(root)]
