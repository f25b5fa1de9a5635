"""What a repository looks like now: found by looking at each file again, and reading those that differ."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.core.change import ABSENT, Version
from takeback.core.codec import text_of
from takeback.ports import BlobStore, Contents
from takeback.resources.git import entry, manifest, place, scan
from takeback.resources.git.manifest import Manifest, Targets
from takeback.resources.git.place import Place
from takeback.resources.git.reader import Reader

MAGIC = b"takeback git index 1\n"
RACY_NS = 20_000_000
"""What was written less than this ago may be written again without its times telling."""
NEVER = (0, 0, 0, 0, 0)


class Row(msgspec.Struct, array_like=True, gc=False):
    """One file that was read: the key under which it was, and what it said."""

    area: str
    prefix: bytes
    key: scan.Key
    version: Version


class Known(msgspec.Struct, array_like=True):
    """What is known of a repository, kept for the next process."""

    folder: bytes
    linked: bool
    generation: int
    rows: dict[bytes, Row]
    packed: dict[bytes, dict[bytes, Version]]
    """The packed refs of each repository, by its prefix."""
    targets: Targets
    name: bytes
    parts: list[bytes]


class Observer:
    """Knows one repository as it was last looked at."""

    def __init__(
        self, root: Path, cache: Path, blobs: BlobStore, contents: Contents, generation: Callable[[], int]
    ) -> None:
        self._root = os.fsencode(root)
        self._cache = cache
        self._blobs = blobs
        self._generation = generation
        self._known: Known | None = None
        self._saved = True
        self.reader = Reader(place.find(self._root), contents)
        self.stores: list[bytes] = []
        self.stated: list[str] = []
        self.read_files = 0
        """How many files were read so far: for whoever wants to know what a look costs."""

    @property
    def place(self) -> Place:
        return self.reader.place

    @property
    def targets(self) -> Targets:
        return self._known.targets if self._known else {}

    @property
    def state(self) -> bytes:
        return self._known.name if self._known else b""

    def version(self, name: bytes) -> Version:
        return self.targets.get(text_of(name), ABSENT)

    def forget(self) -> None:
        """Believe nothing: the next look reads everything."""
        self._known = None
        self._cache.unlink(missing_ok=True)

    def look(self) -> None:
        """Look at every file, read what differs, and keep it."""
        known = self._known or self._load()
        generation = self._generation()
        self.reader.place = place.find(self._root, known.folder if known else b"")
        if known and (known.generation != generation or known.folder != self.place.folder):
            known = None
        rows, packed, changed = self._rows(known)
        if known and not changed:
            self._known = known
            return
        targets = _compose(rows, packed)
        last = Manifest(known.name, known.parts) if known else None
        stored = manifest.store(targets, known.targets if known else {}, last, self._blobs.put)
        self._blobs.sync()
        self._known = Known(
            self.place.folder, self.place.linked, generation, rows, packed, targets, stored.name, stored.parts
        )
        self._saved = False

    def _rows(self, known: Known | None) -> tuple[dict[bytes, Row], dict[bytes, dict[bytes, Version]], bool]:
        """Every file with what it says; and whether anything is not as it was known."""
        old = known.rows if known else {}
        rows: dict[bytes, Row] = {}
        unread: list[scan.Found] = []
        for found in self._found():
            row = old.get(found.name)
            if row is not None and row.key == found.key:
                rows[found.name] = row
            else:
                unread.append(found)
        packed = {p: known.packed[p] for p in known.packed if p + b"packed-refs" in rows} if known else {}
        changed = len(rows) + len(unread) != len(old)
        # Packed refs last: one that is packed at this moment is in one of the two, whenever that happens.
        for found in sorted(unread, key=lambda f: f.area == scan.PACKED):
            row = self._read(found, packed)
            if row is None:
                changed = changed or found.name in old
                continue
            rows[found.name] = row
            before = old.get(found.name)
            if before is None or not row.version.alike(before.version):
                changed = True
            elif known:
                # As it was, but for its times: they are remembered, and there is nothing to record.
                known.rows[found.name] = row
                self._saved = False
        return rows, packed, changed

    def _found(self) -> list[scan.Found]:
        walk = scan.Scan(self.place.folder)
        found = list(walk.run())
        self.stores, self.stated = walk.stores, walk.stated
        if self.place.linked:
            info = os.lstat(self.place.path(place.LINK))
            found.append(scan.Found(place.LINK, scan.PLAIN, b"", scan.key_of(info)))
        return found

    def _read(self, found: scan.Found, packed: dict[bytes, dict[bytes, Version]]) -> Row | None:
        """What a file says now; None where it is gone, or is no file."""
        self.read_files += 1
        try:
            read = self.reader.read(found.name, found.area, found.prefix)
        except PermissionError:
            self.stated.append(f"{text_of(found.name)}: closed to this user")
            return None
        if read is None:
            return None
        version, key = read
        if found.area == scan.PACKED:
            packed[found.prefix] = self.reader.packed(found.prefix)
        if time.time_ns() - max(key[2], key[3]) < RACY_NS:
            key = NEVER
        return Row(found.area, found.prefix, key, version)

    def changed_at(self, name: bytes) -> int:
        """When a target last changed, as far as the files of it tell."""
        paths = [name, b"packed-refs", b"logs/" + name]
        times = []
        for path in map(self.place.path, paths[: 2 if self.version(name).id[:2] == "r:" else 1]):
            try:
                times.append(os.lstat(path).st_ctime_ns)
            except OSError:
                continue
        path = self.place.path(name)
        while not times and len(path) > len(self.place.folder):
            path = os.path.dirname(path)
            try:
                times.append(os.lstat(path).st_ctime_ns)
            except OSError:
                continue
        return max(times, default=0)

    # The cache

    def _load(self) -> Known | None:
        try:
            data = self._cache.read_bytes()
        except OSError:
            return None
        body = data[len(MAGIC) + 32 :]
        if data[: len(MAGIC)] != MAGIC or blake3(body).digest() != data[len(MAGIC) : len(MAGIC) + 32]:
            return None
        try:
            return msgspec.msgpack.decode(body, type=Known)
        except msgspec.DecodeError:
            return None

    def remember(self) -> None:
        """Keep what is known for the next process. Not synced: the digest tells a torn one."""
        if self._known is None or self._saved:
            return
        body = msgspec.msgpack.encode(self._known)
        temporary = self._cache.with_suffix(f".{os.getpid()}")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as out:
                out.write(MAGIC + blake3(body).digest() + body)
            os.rename(temporary, self._cache)
        except OSError:
            # No room for a cache is no reason to fail: the next look reads everything.
            temporary.unlink(missing_ok=True)
        self._saved = True


def _compose(rows: dict[bytes, Row], packed: dict[bytes, dict[bytes, Version]]) -> Targets:
    """The targets that these files are: packed refs below loose ones, stashes and operations as one each."""
    found: dict[bytes, Version] = {}
    for some in packed.values():
        found.update(some)
    operations: dict[bytes, dict[bytes, Version]] = {}
    for name, row in rows.items():
        if row.area == scan.OPERATION and entry.kind_of(row.version) == entry.FILE:
            folder, _, rest = name[len(row.prefix) :].partition(b"/")
            operations.setdefault(row.prefix + folder, {})[rest] = row.version
        elif row.area not in (scan.PACKED, scan.OPERATION):
            found[name] = row.version
    for name, files in operations.items():
        found[name] = entry.operation(files)
    for prefix in {row.prefix for row in rows.values()}:
        name = prefix + b"refs/stash"
        text = found.pop(prefix + b"logs/refs/stash", None)
        top = found.get(name, ABSENT)
        if top and entry.kind_of(top) == entry.REF:
            found[name] = entry.stash(entry.value_of(top), text)
        elif text is not None:
            found[name] = entry.stash("", text)
    return {text_of(name): version for name, version in found.items()}
