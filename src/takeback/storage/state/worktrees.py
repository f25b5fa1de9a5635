"""Which worktrees of a project have a history of their own, so that it is found from the project, too.

    <home>/worktrees/<state name of the project>.json

Git forgets a worktree when it is removed. What was recorded there is still there, and so is this note of it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from takeback.core.codec import path_of, text_of
from takeback.storage.state.registry import state_name
from takeback.system.private_files import private_folder, write_whole

FORMAT = 1


class KnownWorktrees(msgspec.Struct, frozen=True):
    """The worktrees of one project, by their paths."""

    format: int = FORMAT
    roots: tuple[str, ...] = ()


class Worktrees:
    """The notes about worktrees in one state folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "worktrees"

    def of(self, project: Path) -> list[Path]:
        """Return the worktrees of a project that are, or were, protected. A note that is damaged tells nothing."""
        return [Path(os.fsdecode(path_of(root))) for root in self._read(project).roots]

    def note(self, project: Path, worktree: Path) -> None:
        """Note that this worktree of the project has a history of its own."""
        known, here = self._read(project), text_of(os.fsencode(worktree))
        if here not in known.roots:
            private_folder(self._folder)
            fresh = KnownWorktrees(roots=(*known.roots, here))
            write_whole(self._place(project), msgspec.json.encode(fresh) + b"\n")

    def _read(self, project: Path) -> KnownWorktrees:
        try:
            found = msgspec.json.decode(self._place(project).read_bytes(), type=KnownWorktrees)
        except (OSError, msgspec.DecodeError):
            return KnownWorktrees()
        return found if found.format == FORMAT else KnownWorktrees()

    def _place(self, project: Path) -> Path:
        return self._folder / f"{state_name(project)}.json"
