"""What a process does that is killed: one command on a workspace."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.resources.sqlite import writing
from takeback.workspace.opening import open_workspace


def command(root: str, home: str, name: str) -> None:
    """Save, undo or redo."""
    with open_workspace(Path(root), home=Path(home), watching=False) as tb:
        getattr(tb, name)()


def move(*paths: str) -> None:
    """Take to a database what leads from one image to another."""
    said = writing.move(*map(os.fsencode, paths))
    assert not said, said
