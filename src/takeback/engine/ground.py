"""What the safety rules are read against here: this workspace, this folder, these links."""

from __future__ import annotations

import os
from collections.abc import Mapping

from takeback.core.policy import Ground


def ground_of(root: str | os.PathLike[str], aliases: Mapping[str, str]) -> Ground:
    """The ground under a call made now. A relative path is meant from the current folder, as the tool will."""
    return Ground(os.path.realpath(root), os.getcwd(), dict(aliases), _real)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        # No file can have such a name, so it leads nowhere; its words are judged all the same.
        return path
