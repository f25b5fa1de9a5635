"""The command that starts another one inside a fence, and what it noted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from takeback.core.codec import value_digest
from takeback.engine.sandbox.fence import Denial, Fence, noted
from takeback.system.private_files import private_folder, write_whole

FOLDER = "sandbox"
STARTER = "takeback.engine.sandbox.start"


class Fences:
    """The fences of one workspace, as files in its state: another process starts the command."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def around(self, fence: Fence, log: str, words: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs these words inside a fence. The same fence always has the same file."""
        name = f"{value_digest(msgspec.to_builtins(fence))[:16]}.json"
        path = private_folder(self._folder) / name
        if not path.exists():
            write_whole(path, msgspec.json.encode(fence))
        return (sys.executable, "-I", "-m", STARTER, str(path), log, "--", *words)

    def log(self, action: str) -> str:
        """Return the file for what is denied to an action."""
        return str(self._folder / f"{action}.denied")

    def tidy(self, since_us: int) -> None:
        """Remove what was noted before a time. A fence that is needed again is written again."""
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.stat().st_mtime_ns // 1000 < since_us:
                path.unlink(missing_ok=True)

    def denied(self, action: str) -> list[Denial]:
        """Return what was denied to an action so far."""
        return noted(self.log(action))
