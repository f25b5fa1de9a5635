"""Which files of a workspace are databases, and which outside of it are looked after too.

Decided by content at each moment: a file that begins as a database does is one, and whatever looks after ordinary
files leaves it alone, with what SQLite keeps beside it. Whoever comes across a file asks here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from takeback.core.codec import digest, path_of, text_of
from takeback.resources.sqlite.image import HEADER_BYTES, SUFFIXES, is_header
from takeback.resources.sqlite.own_files import read_start, write_private
from takeback.system.beneath import folder_of, is_other, look

RULE = "databases are claimed"
_SECTOR_BYTES = 512

Key = tuple[int, ...]


class KnownDatabases:
    """The databases that are known. Paths are relative to the root; those outside of it are absolute."""

    def __init__(self, root: Path, state: Path) -> None:
        self._root = os.path.realpath(os.fsencode(root))
        self._list = state / "databases"
        self._outside: set[bytes] | None = None
        self.inside: dict[bytes, Key] = {}
        """With what was seen of each when it was last asked about."""

    def place(self, path: bytes) -> bytes:
        """Where a database is."""
        return os.path.join(self._root, path)

    def visible(self, path: bytes) -> bytes:
        """The folder in which a database is kept that must leave its place and cannot be thrown away."""
        return os.path.dirname(path) if os.path.isabs(path) else self._root

    def other_names(self, path: bytes, found: os.stat_result) -> tuple[str, ...]:
        """The databases that are the same file as this one."""
        same = [p for p, key in self.inside.items() if key[:2] == (found.st_dev, found.st_ino) and p != path]
        return tuple(map(text_of, sorted(same)))

    # For whoever looks after files

    def claims(self, path: bytes, folder_fd: int, found: os.stat_result) -> bool:
        """Whether this regular file is a database, or one of those that SQLite keeps beside one."""
        if path not in self.inside and not _may_be(found) and not path.endswith(SUFFIXES):
            return False  # nearly all files, so without another thought
        name = os.path.basename(path)
        if self._is_database(path, name, folder_fd, found):
            return True
        for suffix in SUFFIXES:
            if name.endswith(suffix) and len(name) > len(suffix):
                try:
                    beside = os.stat(name[: -len(suffix)], dir_fd=folder_fd, follow_symlinks=False)
                except OSError:
                    return False
                return self._is_database(path[: -len(suffix)], name[: -len(suffix)], folder_fd, beside)
        return False

    def _is_database(self, path: bytes, name: bytes, folder_fd: int, found: os.stat_result) -> bool:
        try:
            is_one = _may_be(found) and is_header(read_start(name, HEADER_BYTES, found, folder_fd))
        except OSError:
            is_one = False
        if is_one:
            self.inside[path] = _key(found)
        else:
            self.inside.pop(path, None)
        return is_one

    def is_database(self, place: bytes) -> bool:
        """Whether there is one at a place, not behind a link."""
        try:
            with folder_of(place) as folder:
                name = os.path.basename(place)
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                return _may_be(found) and is_header(read_start(name, HEADER_BYTES, found, folder))
        except OSError:
            return False

    def is_still(self, path: bytes) -> bool:
        """Whether there is one, told without opening it where it was not touched since it was asked about."""
        place = self.place(path)
        try:
            return _key(look(place)) == self.inside.get(path) or self.is_database(place)
        except OSError:
            return False

    def beside(self, path: bytes) -> Iterator[bytes]:
        """What SQLite keeps beside a database. A folder or a link of that name is none of it."""
        for suffix in SUFFIXES if path in self.inside else ():
            if not is_other(self.place(path + suffix)):
                yield path + suffix

    def again(self) -> Iterator[bytes]:
        """Paths that have to be asked about again, for they are not as they were; and what may be beside them."""
        for path, key in list(self.inside.items()):
            try:
                found = look(self.place(path))
            except OSError:
                found = None
            if found is None or _key(found) != key:
                yield path
                yield from (path + suffix for suffix in SUFFIXES)
            if found is None or not stat.S_ISREG(found.st_mode):
                # Nobody will ask about it as a file.
                self.inside.pop(path, None)

    def holds(self, folder: bytes) -> bool:
        """Whether there are databases in a folder: files come and go beside them, and so its time does."""
        return any(os.path.dirname(path) == folder for path in self.inside)

    def forget(self) -> None:
        """Everything will be come across anew."""
        self.inside.clear()

    def rules(self) -> str:
        """What a picture of the files was made by: it is no good where other files are databases."""
        names = b"\0".join(sorted(self.inside))
        return f"{RULE} {digest(names)}" if names else RULE

    # Outside

    @property
    def outside(self) -> set[bytes]:
        if self._outside is None:
            try:
                self._outside = {path_of(line) for line in self._list.read_text("utf-8").splitlines()}
            except FileNotFoundError:
                self._outside = set()
        return self._outside

    def claimed_outside(self) -> set[bytes]:
        """Paths outside the root that nobody else has to look after."""
        return {path + suffix for path in self.outside for suffix in (b"", *SUFFIXES)}

    def guard(self, path: bytes) -> None:
        """Look after a database outside the root from now on."""
        if path not in self.outside:
            self.outside.add(path)
            lines = "".join(f"{text_of(known)}\n" for known in sorted(self.outside))
            write_private(self._list, lines.encode(), durable=True)


def _may_be(found: os.stat_result) -> bool:
    """Pages of a database are whole sectors, so most files need not be opened to know that they are none."""
    return not found.st_size % _SECTOR_BYTES and found.st_size > 0 and stat.S_ISREG(found.st_mode)


def _key(found: os.stat_result) -> Key:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
