"""Files that somebody else looks after, and not as files: a database is one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol


class Claims(Protocol):
    """Whoever looks after some files in another way than as files."""

    def claims(self, path: bytes, folder_fd: int, found: os.stat_result) -> bool:
        """Whether this regular file, in this open folder, is not to be looked after here."""

    def beside(self, path: bytes) -> Iterable[bytes]:
        """Paths that go with one that is claimed."""

    def again(self) -> Iterable[bytes]:
        """Paths that have to be looked at, for the answer may be another one by now."""

    def holds(self, folder: bytes) -> bool:
        """Whether a folder has claimed files in it, so that its time moves without anything to be seen."""

    def forget(self) -> None:
        """Everything is about to be looked at anew."""

    def rules(self) -> str:
        """What the answers depend on."""


class Nobody:
    """Where all files are looked after as files."""

    def claims(self, _path: bytes, _folder_fd: int, _found: os.stat_result) -> bool:
        return False

    def beside(self, _path: bytes) -> Iterable[bytes]:
        return ()

    def again(self) -> Iterable[bytes]:
        return ()

    def holds(self, _folder: bytes) -> bool:
        return False

    def forget(self) -> None:
        """There is nothing to forget."""

    def rules(self) -> str:
        return ""
