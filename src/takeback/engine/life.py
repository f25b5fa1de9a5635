"""Signs of life: a file for each action that its owner touches from time to time."""

from __future__ import annotations

import os
from pathlib import Path


class SignsOfLife:
    """The folder of these files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(self, action_id: str) -> None:
        """Say that the owner of this action lives."""
        path = self._folder / action_id
        try:
            os.utime(path)
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def last_ns(self, action_id: str) -> int:
        """When the owner was last known to live, in nanoseconds; 0 where nobody knows."""
        try:
            return os.stat(self._folder / action_id).st_mtime_ns
        except FileNotFoundError:
            return 0

    def end(self, action_id: str) -> None:
        """The action has a recorded end; its sign of life is not needed any more."""
        try:
            os.unlink(self._folder / action_id)
        except FileNotFoundError:
            return
