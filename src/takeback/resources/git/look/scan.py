"""The files that make up a repository, except its objects, and which of them must be read again.

Every file is checked by stat (inode, size, times); none is read here. Only logs are skipped by folder: git writes a
log under the lock of its ref, and creating that lock changes the folder of the ref, or the one above it.
"""

from __future__ import annotations

import os
import time
from functools import cached_property
from stat import S_ISDIR

import msgspec

Key = int
"""A hash of inode, size, mtime and ctime, which shows whether a file was touched since it was read."""
Keys = dict[bytes, dict[bytes, Key]]
"""Every file, by its folder and its name there."""

NEVER = 0
RACY_NS = 20_000_000
"""A file written more recently than this may be written again with unchanged times."""

HEAD, REFS, LOGS, INDEX, PACKED, OPERATION, PLAIN = "head", "refs", "logs", "index", "packed", "op", "plain"

OPERATIONS = frozenset({b"rebase-merge", b"rebase-apply", b"sequencer"})
OWN = b".takeback-"
"""The prefix of our own files, which exist only during a rollback."""

_PASSING = frozenset({b"gc.pid", b"fsmonitor--daemon.ipc"})
_STORES = {b"lfs": "files of Git LFS", b"annex": "files of git-annex"}
_AREAS = {b"HEAD": HEAD, b"index": INDEX, b"packed-refs": PACKED}


class RepositoryFile(msgspec.Struct, frozen=True, gc=False):
    """One file, with its purpose. `prefix` is the repository that it belongs to."""

    name: bytes
    area: str
    prefix: bytes


class Trusted(msgspec.Struct, array_like=True):
    """A folder of logs as it was when all of it was checked."""

    key: Key
    folders: list[bytes]


class Scan:
    """One walk through a repository, its worktrees and its submodules."""

    def __init__(self, folder: bytes, known: Keys, trusted: dict[bytes, Trusted]) -> None:
        self._folder = folder
        self._known = known
        self._trusted = trusted
        self.keys: Keys = {}
        self.logs: dict[bytes, Trusted] = {}
        self.unread: list[RepositoryFile] = []
        """Files that are new, or differ from what is known."""
        self.stores: list[bytes] = []
        """The repositories with their own objects."""
        self.stated: list[str] = []

    def run(self) -> Scan:
        self._repository(b"", linked=False)
        return self

    @cached_property
    def gone(self) -> list[bytes]:
        """Known files that no longer exist; valid once the walk is over."""
        return [
            folder + name
            for folder, names in self._known.items()
            # A folder without changes is represented by the very same object.
            if (now := self.keys.get(folder, {})) is not names
            for name in names.keys() - now.keys()
        ]

    def add(self, name: bytes, path: bytes) -> None:
        """Check one more file."""
        try:
            found = os.lstat(path)
        except OSError:
            return
        folder, slash, last = name.rpartition(b"/")
        key = key_of(found)
        # A copy: the dict may be the very object that is known.
        self.keys[folder + slash] = {**self.keys.get(folder + slash, {}), last: key}
        if self._known.get(folder + slash, {}).get(last) != key:
            self.unread.append(RepositoryFile(name, PLAIN, b""))

    def _repository(self, prefix: bytes, *, linked: bool) -> None:
        folders = self._below(prefix, "", prefix)
        if b"reftable" in folders:
            where = f".git/{os.fsdecode(prefix)}".rstrip("/")
            self.keys.pop(prefix)
            self.unread = [found for found in self.unread if found.prefix != prefix]
            self.stated.append(f"refs are in reftable format, which is not supported: {where} is not covered")
            return
        if b"objects" in self.keys.get(prefix, {}):
            where = os.fsdecode(prefix + b"objects")
            self.stated.append(f".git/{where}: not a folder, so its objects are not saved")
        # Refs before their logs: then the folders of refs are known.
        for name in sorted(folders, key=lambda name: name == b"logs"):
            folder = prefix + name + b"/"
            if name == b"objects" and not linked:
                self.stores.append(prefix)
                self.add(folder + b"info/alternates", os.path.join(self._folder, folder, b"info/alternates"))
            elif name == b"refs":
                self._tree(folder, REFS, prefix)
            elif name == b"logs":
                self._logs(folder, prefix)
            elif name == b"worktrees" and not linked:
                for tree in self._folders(folder):
                    self._repository(folder + tree + b"/", linked=True)
            elif name == b"modules" and not linked:
                self._modules(folder)
            elif name in _STORES:
                self.stated.append(f".git/{os.fsdecode(prefix + name)}: {_STORES[name]} are not saved")
            elif not name.startswith(OWN):
                self._tree(folder, OPERATION if name in OPERATIONS else PLAIN, prefix)

    def _modules(self, folder: bytes) -> None:
        """Scan the repositories of submodules, whose names may contain slashes."""
        for name in self._folders(folder):
            below = folder + name + b"/"
            if os.path.lexists(os.path.join(self._folder, below, b"HEAD")):
                self._repository(below, linked=False)
            else:
                self._modules(below)

    def _tree(self, folder: bytes, area: str, prefix: bytes) -> None:
        for name in self._below(folder, area, prefix):
            self._tree(folder + name + b"/", area, prefix)

    def _logs(self, folder: bytes, prefix: bytes) -> None:
        key = self._log_key(folder, prefix)
        trusted = self._trusted.get(folder)
        if folder == prefix + b"logs/" or trusted is None or trusted.key != key or key == NEVER:
            trusted = Trusted(key, self._below(folder, LOGS, prefix))
        elif folder in self._known:
            self.keys[folder] = self._known[folder]
        self.logs[folder] = trusted
        for name in trusted.folders:
            self._logs(folder + name + b"/", prefix)

    def _log_key(self, logs: bytes, prefix: bytes) -> Key:
        """Return a key for a folder of logs and the folder of its refs; NEVER while they are young."""
        refs = prefix + logs[len(prefix) + len(b"logs/") :]
        while refs != prefix and refs not in self.keys:
            refs = refs[: refs.rfind(b"/", 0, -1) + 1]
        try:
            of_logs, of_refs = (os.stat(os.path.join(self._folder, folder)) for folder in (logs, refs))
        except FileNotFoundError:
            return NEVER
        if time.time_ns() - max(of_logs.st_mtime_ns, of_refs.st_mtime_ns) < RACY_NS:
            return NEVER
        return hash((of_logs.st_ino, of_logs.st_mtime_ns, of_refs.st_ino, of_refs.st_mtime_ns))

    def _below(self, folder: bytes, area: str, prefix: bytes) -> list[bytes]:
        """Check the files of one folder. Return the folders in it."""
        known = self._known.get(folder, {})
        keys: dict[bytes, Key] = {}
        folders = []
        path = os.path.join(self._folder, folder)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError:
            self.stated.append(f".git/{os.fsdecode(folder)}: not readable for this user")
            return []
        try:
            # There may be thousands of files: take the shortest way, with key_of inlined.
            look = os.stat
            for name in os.listdir(path):
                try:
                    found = look(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if S_ISDIR(found.st_mode):
                    folders.append(name)
                else:
                    keys[name] = hash((found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
        finally:
            os.close(fd)
        if keys == known:
            keys = known
        else:
            for name in [name for name in keys if is_passing(name)]:
                del keys[name]
            for name, key in keys.items():
                if known.get(name) != key:
                    self.unread.append(RepositoryFile(folder + name, area or _AREAS.get(name, PLAIN), prefix))
        self.keys[folder] = keys
        return folders

    def _folders(self, folder: bytes) -> list[bytes]:
        try:
            with os.scandir(os.path.join(self._folder, folder)) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []


def key_of(found: os.stat_result) -> Key:
    return hash((found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


def is_young(found: os.stat_result) -> bool:
    return time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < RACY_NS


def is_passing(name: bytes) -> bool:
    """Return True for locks and the like, which exist only while something runs, and mean nothing afterwards."""
    return name.endswith(b".lock") or name.startswith(OWN) or name in _PASSING
