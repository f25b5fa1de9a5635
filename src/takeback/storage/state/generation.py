"""The number of clean-ups of the content store so far.

A process that holds a picture of the tree in memory trusts that its content is stored. A clean-up keeps only
recorded content, so every picture from before it must be checked again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from takeback.system import durable


class Generation:
    """A number in its own file. It rises before anything is removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = str(path)

    def __call__(self) -> int:
        if not os.path.exists(self._name):
            return 0
        try:
            return int(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def age_s(self) -> float:
        """Return how long ago the last clean-up was."""
        try:
            return time.time() - os.stat(self._path).st_mtime
        except FileNotFoundError:
            return float("inf")

    def rise(self) -> None:
        """Count a clean-up, durably: a clean-up that began is never forgotten."""
        durable.replace(self._path, str(self() + 1).encode(), temporary=self._path.with_suffix(".new"))
