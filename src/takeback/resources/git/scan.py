"""Which files a repository is made of, apart from its objects, and what each of them is.

Every file is looked at (times, size, inode); none is read here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

Key = tuple[int, int, int, int, int]
"""What tells that a file was not touched since it was read: inode, size, mtime, ctime, mode."""

HEAD, REFS, LOGS, INDEX, PACKED, OPERATION, PLAIN = "head", "refs", "logs", "index", "packed", "op", "plain"

OPERATIONS = frozenset({b"rebase-merge", b"rebase-apply", b"sequencer"})
OWN = b".takeback-"
"""How our own files begin, while a rollback has some there."""

_PASSING = frozenset({b"gc.pid", b"gc.log.lock", b"fsmonitor--daemon", b"fsmonitor--daemon.ipc"})
_STORES = {b"lfs": "files of Git LFS", b"annex": "files of git-annex"}


class Found(msgspec.Struct, frozen=True, gc=False):
    """One file, by what it is for. `prefix` is the repository that it belongs to."""

    name: bytes
    area: str
    prefix: bytes
    key: Key


class Scan:
    """One walk through a repository, its worktrees and its submodules."""

    def __init__(self, folder: bytes) -> None:
        self._folder = folder
        self.stores: list[bytes] = []
        """The repositories that have objects of their own."""
        self.stated: list[str] = []

    def run(self) -> Iterator[Found]:
        yield from self._repository(b"", linked=False)

    def _repository(self, prefix: bytes, *, linked: bool) -> Iterator[Found]:
        entries = self._entries(prefix)
        if any(entry.name == b"reftable" for entry in entries):
            where = f".git/{os.fsdecode(prefix)}".rstrip("/")
            self.stated.append(
                f"refs are kept in tables (reftable), which are not supported: {where} is not covered"
            )
            return
        for entry in entries:
            name = entry.name
            if name == b"objects" and not linked:
                self.stores.append(prefix)
                yield from self._single(prefix, b"objects/info/alternates")
            elif name in (b"refs", b"logs"):
                yield from self._below(prefix + name + b"/", REFS if name == b"refs" else LOGS, prefix)
            elif name == b"worktrees" and not linked:
                for tree in self._entries(prefix + b"worktrees/"):
                    yield from self._repository(prefix + b"worktrees/" + tree.name + b"/", linked=True)
            elif name == b"modules" and not linked:
                yield from self._modules(prefix + b"modules/")
            elif name in OPERATIONS:
                yield from self._below(prefix + name + b"/", OPERATION, prefix)
            elif name in _STORES:
                self.stated.append(f"{os.fsdecode(prefix + name)}: {_STORES[name]} are not kept")
            elif _is_folder(entry):
                yield from self._below(prefix + name + b"/", PLAIN, prefix)
            elif not is_passing(name):
                yield from _looked_at(entry, prefix + name, _area(name), prefix)

    def _modules(self, folder: bytes) -> Iterator[Found]:
        """The repositories of submodules, whose names may have slashes in them."""
        for entry in self._entries(folder):
            name = folder + entry.name + b"/"
            if os.path.lexists(os.path.join(self._folder, name, b"HEAD")):
                yield from self._repository(name, linked=False)
            elif _is_folder(entry):
                yield from self._modules(name)

    def _below(self, folder: bytes, area: str, prefix: bytes) -> Iterator[Found]:
        for entry in self._entries(folder):
            name = entry.name
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode):
                yield from self._below(folder + name + b"/", area, prefix)
            elif not is_passing(name):
                yield Found(folder + name, area, prefix, key_of(found))

    def _single(self, prefix: bytes, name: bytes) -> Iterator[Found]:
        try:
            found = os.lstat(os.path.join(self._folder, prefix + name))
        except OSError:
            return
        yield Found(prefix + name, PLAIN, prefix, key_of(found))

    def _entries(self, folder: bytes) -> list[os.DirEntry[bytes]]:
        try:
            with os.scandir(os.path.join(self._folder, folder)) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError:
            self.stated.append(f"{os.fsdecode(folder)}: closed to this user")
            return []


def key_of(found: os.stat_result) -> Key:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def _looked_at(entry: os.DirEntry[bytes], name: bytes, area: str, prefix: bytes) -> Iterator[Found]:
    try:
        yield Found(name, area, prefix, key_of(entry.stat(follow_symlinks=False)))
    except FileNotFoundError:
        return


def _area(name: bytes) -> str:
    return {b"HEAD": HEAD, b"index": INDEX, b"packed-refs": PACKED}.get(name, PLAIN)


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def is_passing(name: bytes) -> bool:
    """Locks and the like: they are there while something is at work, and mean nothing afterwards."""
    return name.endswith(b".lock") or name.startswith(OWN) or name in _PASSING
