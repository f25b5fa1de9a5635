"""Reading single files and targets of a repository, as they are now."""

from __future__ import annotations

import os
import stat

from blake3 import blake3

from takeback.core.change import ABSENT, Version
from takeback.ports.content import Contents
from takeback.resources.git import entry
from takeback.resources.git.format import index_file, place, refs
from takeback.resources.git.format.place import RepositoryLocation
from takeback.resources.git.look import scan

LARGE_BYTES = 16 << 20
NOTES = frozenset({b"COMMIT_EDITMSG", b"TAG_EDITMSG", b"ORIG_HEAD", b"FETCH_HEAD", b"AUTO_MERGE", b"gc.log"})


class Reader:
    """Returns the version of what is at a location."""

    def __init__(self, where: RepositoryLocation, contents: Contents) -> None:
        self.place = where
        self._contents = contents
        self._packed: dict[bytes, tuple[scan.Key, dict[bytes, Version]]] = {}

    def read(self, name: bytes, area: str, prefix: bytes) -> tuple[Version, os.stat_result] | None:
        """Return the content of a file, and its stat when it was read; None if it is gone, or not a file."""
        found = self._read(name, area, prefix)
        if found is None or name != place.LINK:
            return found
        return entry.leading(found[0], self.place.folder), found[1]

    def _read(self, name: bytes, area: str, prefix: bytes) -> tuple[Version, os.stat_result] | None:
        path = self.place.path(name)
        try:
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                return entry.link(os.readlink(path)), info
            if not stat.S_ISREG(info.st_mode):
                return None
            with open(path, "rb") as file:
                info = os.fstat(file.fileno())
                if area == scan.PLAIN and info.st_size > LARGE_BYTES:
                    content = self._contents.put(file.fileno(), info.st_size)
                    return entry.file(info.st_mode & 0o777, content, info.st_size), info
                data = file.read()
                info = os.fstat(file.fileno())
        except (FileNotFoundError, NotADirectoryError):
            return None
        if area == scan.PACKED:
            found = {prefix + ref: entry.ref(value, prefix) for ref, value in refs.packed(data).items()}
            self._packed[prefix] = (scan.key_of(info), found)
            return Version(f"p:{blake3(data).hexdigest()}"), info
        return self._version(name, area, prefix, data, info), info

    def _version(self, name: bytes, area: str, prefix: bytes, data: bytes, info: os.stat_result) -> Version:
        if area in (scan.HEAD, scan.REFS) and (value := refs.loose(data)) is not None:
            return entry.ref(value, prefix)
        mode, size = stat.S_IMODE(info.st_mode) & 0o777, len(data)
        content = self._contents.put_bytes(data)
        if area == scan.LOGS:
            return entry.log(mode, content, size, prefix)
        if area == scan.INDEX:
            hash_name = place.hash_name(os.path.join(self.place.folder, owner(prefix)))
            return entry.index(index_file.digest(data, hash_name), mode, content, size, info.st_mtime_ns)
        if area == scan.PLAIN and name.rpartition(b"/")[2] in NOTES:
            return entry.note(mode, content, size)
        return entry.file(mode, content, size)

    def packed(self, prefix: bytes) -> dict[bytes, Version]:
        """Return the packed refs of a repository; read again only if the file has changed."""
        name = prefix + b"packed-refs"
        try:
            key = scan.key_of(os.lstat(self.place.path(name)))
        except OSError:
            return {}
        known = self._packed.get(prefix)
        if (known is None or known[0] != key) and self.read(name, scan.PACKED, prefix) is None:
            return {}
        return self._packed[prefix][1]

    def target(self, name: bytes, like: Version) -> Version:
        """Return a target as it is now; `like` is any version of it, which says what kind it is."""
        kind = entry.kind_of(like)
        if kind == entry.REF:
            return self.ref(name, entry.prefix_of(like))
        if kind == entry.STASH:
            prefix = name[: -len(b"refs/stash")]
            top, text = self.ref(name, prefix), self._file(prefix + b"logs/refs/stash", scan.LOGS, prefix)
            return entry.stash(entry.value_of(top), text or None) if top or text else ABSENT
        if kind == entry.OPERATION:
            return self._operation(name)
        if kind == entry.LOG:
            return self._file(name, scan.LOGS, entry.prefix_of(like))
        if kind == entry.INDEX:
            return self._file(name, scan.INDEX, name[: -len(b"index")])
        return self._file(name, scan.PLAIN, b"")

    def ref(self, name: bytes, prefix: bytes) -> Version:
        """Return a ref. A loose ref hides a packed one."""
        return self._file(name, scan.REFS, prefix) or self.packed(prefix).get(name, ABSENT)

    def _file(self, name: bytes, area: str, prefix: bytes) -> Version:
        found = self.read(name, area, prefix)
        return found[0] if found else ABSENT

    def _operation(self, name: bytes) -> Version:
        files: dict[bytes, Version] = {}
        folder = self.place.path(name)
        for parent, _, names in os.walk(folder):
            for file in names:
                path = os.path.join(parent, file)
                rest = os.path.relpath(path, folder)
                version = self._file(name + b"/" + rest, scan.PLAIN, b"")
                if entry.kind_of(version) == entry.FILE and not scan.is_passing(file):
                    files[rest] = version
        return entry.operation(files) if files else ABSENT


def owner(prefix: bytes) -> bytes:
    """Return the repository that a worktree belongs to, which has its settings and its objects."""
    head, found, _ = prefix.rpartition(b"worktrees/")
    return head if found and prefix.count(b"/", len(head)) == 2 else prefix
