"""What a process does that is killed: one command on a workspace."""

from __future__ import annotations

from pathlib import Path

from takeback.opening import open_workspace


def command(root: str, home: str, name: str) -> None:
    """Save, undo or redo."""
    with open_workspace(Path(root), home=Path(home), watching=False) as tb:
        getattr(tb, name)()
