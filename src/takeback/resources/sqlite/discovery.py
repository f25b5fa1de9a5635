"""Which files of a workspace are databases, and which databases outside it are captured too.

Decided by content at each moment: a file that begins like a database is one. The files resource leaves it alone,
together with the files that SQLite keeps beside it. Code that comes across a file asks here.
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
    """The known databases. Paths are relative to the root; those outside it are absolute."""

    def __init__(self, root: Path, state: Path) -> None:
        self._root = os.path.realpath(os.fsencode(root))
        self._list = state / "databases"
        self._outside: set[bytes] | None = None
        self.inside: dict[bytes, Key] = {}
        """What was seen of each database when it was last asked about."""
        self.wanted: set[bytes] = set()
        """Those that the user's own code names: captured, whatever is in them."""
        self.left_out: set[bytes] = set()
        """Those that are claimed, but not captured."""

    def place(self, path: bytes) -> bytes:
        """Return the absolute path of a database."""
        return os.path.join(self._root, path)

    def visible(self, path: bytes) -> bytes:
        """Return the folder for a database that must leave its place and cannot be deleted."""
        return os.path.dirname(path) if os.path.isabs(path) else self._root

    def other_names(self, path: bytes, found: os.stat_result) -> tuple[str, ...]:
        """Return the databases that are the same file as this one."""
        same = [p for p, key in self.inside.items() if key[:2] == (found.st_dev, found.st_ino) and p != path]
        return tuple(map(text_of, sorted(same)))

    # For the files resource

    def claims(self, path: bytes, folder_fd: int, found: os.stat_result) -> bool:
        """Return True if this regular file is a database, or one that SQLite keeps beside a database."""
        if path not in self.inside and not _may_be(found) and not path.endswith(SUFFIXES):
            return False  # a fast exit for nearly all files
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
        """Return True if there is a database at a path, not behind a link."""
        try:
            with folder_of(place) as folder:
                name = os.path.basename(place)
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                return _may_be(found) and is_header(read_start(name, HEADER_BYTES, found, folder))
        except OSError:
            return False

    def is_still(self, path: bytes) -> bool:
        """Return True if there is a database. It is opened only if it was touched since it was last asked about."""
        place = self.place(path)
        try:
            return _key(look(place)) == self.inside.get(path) or self.is_database(place)
        except OSError:
            return False

    def beside(self, path: bytes) -> Iterator[bytes]:
        """Yield the files that SQLite keeps beside a database.

        A folder or link with such a name is not one of them.
        """
        for suffix in SUFFIXES if path in self.inside else ():
            if not is_other(self.place(path + suffix)):
                yield path + suffix

    def again(self) -> Iterator[bytes]:
        """Yield paths that must be asked about again because they changed, and the files that may be beside them."""
        for path, key in list(self.inside.items()):
            try:
                found = look(self.place(path))
            except OSError:
                found = None
            if found is None or _key(found) != key:
                yield path
                yield from (path + suffix for suffix in SUFFIXES)
            if found is None or not stat.S_ISREG(found.st_mode):
                # The files resource will not ask about it.
                self.inside.pop(path, None)

    def leaves_out(self, path: bytes) -> bool:
        return path in self.left_out

    def holds(self, folder: bytes) -> bool:
        """Return True if a folder contains databases: files beside them come and go, which changes its mtime."""
        return any(os.path.dirname(path) == folder for path in self.inside)

    def forget(self) -> None:
        """Forget everything: all databases will be found again."""
        self.inside.clear()

    def rules(self) -> str:
        """Return the rule under which a picture of the files was made: it is invalid if other files are databases."""
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
        """Return paths outside the root that the files resource need not capture."""
        return {path + suffix for path in self.outside for suffix in (b"", *SUFFIXES)}

    def guard(self, path: bytes) -> None:
        """Capture a database outside the root from now on."""
        if path not in self.outside:
            self.outside.add(path)
            lines = "".join(f"{text_of(known)}\n" for known in sorted(self.outside))
            write_private(self._list, lines.encode(), durable=True)


def _may_be(found: os.stat_result) -> bool:
    """Return False if it cannot be a database: its pages are whole sectors, so most files need not be opened."""
    return not found.st_size % _SECTOR_BYTES and found.st_size > 0 and stat.S_ISREG(found.st_mode)


def _key(found: os.stat_result) -> Key:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
