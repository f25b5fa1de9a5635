"""What a repository looks like now: found by looking at each file again, and reading those that differ."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
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

MAGIC = b"takeback git index 2\n"


class Row(msgspec.Struct, array_like=True, gc=False):
    """What one file says, and what it is for."""

    area: str
    prefix: bytes
    version: Version


class Said(msgspec.Struct, array_like=True):
    """What the files of a repository say, and how that is stored."""

    rows: dict[bytes, Row]
    packed: dict[bytes, dict[bytes, Version]]
    """The packed refs of each repository, by its prefix."""
    parts: list[bytes]


class Known(msgspec.Struct, array_like=True):
    """What is known of a repository, kept for the next process. What it says is read only if it is needed."""

    folder: bytes
    linked: bool
    generation: int
    keys: scan.Keys
    logs: dict[bytes, scan.Trusted]
    name: bytes
    alternates: bool
    stores: dict[bytes, Version]
    """The objects of each repository, by its prefix."""
    said: msgspec.Raw


class Observer:
    """Knows one repository as it was last looked at."""

    def __init__(
        self,
        root: Path,
        cache: Path,
        blobs: BlobStore,
        contents: Contents,
        generation: Callable[[], int],
        losses: Callable[[bytes], tuple[bytes, int]],
    ) -> None:
        """`losses` keeps the objects of a repository; gives the names of those that it lost, and how many."""
        self._root = os.fsencode(root)
        self._cache = cache
        self._blobs = blobs
        self._contents = contents
        self._generation = generation
        self._losses = losses
        self._known: Known | None = None
        self._said: Said | None = None
        self._targets: Targets | None = None
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
        if self._targets is None:
            said = self._what_is_said()
            self._targets = _compose(said.rows, said.packed, self._known.stores if self._known else {})
        return self._targets

    def _what_is_said(self) -> Said:
        if self._said is None:
            raw = self._known.said if self._known else b""
            self._said = msgspec.msgpack.decode(raw, type=Said) if raw else Said({}, {}, [])
        return self._said

    @property
    def state(self) -> bytes:
        return self._known.name if self._known else b""

    @property
    def borrows(self) -> bool:
        """Whether objects of other repositories are used."""
        return self._known is not None and self._known.alternates

    def version(self, name: bytes) -> Version:
        return self.targets.get(text_of(name), ABSENT)

    def forget(self) -> None:
        """Believe nothing: the next look reads everything."""
        self._known = self._said = self._targets = None
        self._cache.unlink(missing_ok=True)

    def look(self) -> None:
        """Look at every file, read what differs, and keep it."""
        if self._known is None:
            self._known, self._said, self._targets = self._load(), None, None
        generation = self._generation()
        self.reader.place = place.find(self._root, self._known.folder if self._known else b"")
        if self._known and (self._known.generation, self._known.folder) != (generation, self.place.folder):
            self.forget()
        walk = self._walk()
        last = self._known
        if last and not walk.unread and not walk.gone:
            stores = self._look_at_objects(last.stores)
            if stores == last.stores:
                self._saved = self._saved and last.logs == walk.logs
                last.logs = walk.logs
                return
        before = self.targets if last else {}
        said = self._read_again(walk)
        # Objects last: those of every ref that was read are there now.
        stores = self._look_at_objects(last.stores if last else {})
        self._said, self._targets = said, _compose(said.rows, said.packed, stores)
        earlier = Manifest(last.name, said.parts) if last else None
        stored = manifest.store(self._targets, before, earlier, self._blobs.put)
        if last is None or stored.name != last.name:
            self._blobs.sync()
        said.parts = stored.parts
        alternates = any(name.endswith("objects/info/alternates") for name in self._targets)
        where = self.place
        self._known = Known(
            where.folder,
            where.linked,
            generation,
            walk.keys,
            walk.logs,
            stored.name,
            alternates,
            stores,
            msgspec.Raw(),
        )
        self._saved = False

    def _look_at_objects(self, known: dict[bytes, Version]) -> dict[bytes, Version]:
        return {prefix: self._objects(prefix, known.get(prefix, ABSENT)) for prefix in self.stores}

    def _objects(self, prefix: bytes, known: Version) -> Version:
        names, count = self._losses(prefix)
        if not names:
            return entry.WHOLE
        version = entry.objects(blake3(names).hexdigest(), count, b"", 0)
        if version == known:
            return known
        return entry.objects(version.id[2:], count, self._contents.put_bytes(names), len(names))

    def _walk(self) -> scan.Scan:
        keys, logs = (self._known.keys, self._known.logs) if self._known else ({}, {})
        walk = scan.Scan(self.place.folder, keys, logs).run()
        if self.place.linked:
            walk.add(place.LINK, self.place.path(place.LINK))
        self.stores, self.stated = walk.stores, walk.stated
        return walk

    def _read_again(self, walk: scan.Scan) -> Said:
        """What is said now: what was known, without what is gone, and with what was read again."""
        known = self._what_is_said()
        rows, packed = dict(known.rows), dict(known.packed)
        for name in walk.gone:
            rows.pop(name, None)
            if name.endswith(b"packed-refs"):
                packed.pop(name[: -len(b"packed-refs")], None)
        # Packed refs last: one that is packed at this moment is in one of the two, whenever that happens.
        for found in sorted(walk.unread, key=lambda f: f.area == scan.PACKED):
            folder, slash, last = found.name.rpartition(b"/")
            read = self._read(found)
            if read is None:
                rows.pop(found.name, None)
                walk.keys[folder + slash].pop(last, None)
                continue
            version, info = read
            before = rows.get(found.name)
            if before is not None and before.version.alike(version):
                version = before.version
            elif found.area == scan.PACKED:
                packed[found.prefix] = self.reader.packed(found.prefix)
            rows[found.name] = Row(found.area, found.prefix, version)
            walk.keys[folder + slash][last] = scan.NEVER if scan.is_young(info) else scan.key_of(info)
        return Said(rows, packed, known.parts)

    def _read(self, found: scan.Found) -> tuple[Version, os.stat_result] | None:
        """What a file says now; None where it is gone, or is no file."""
        self.read_files += 1
        try:
            return self.reader.read(found.name, found.area, found.prefix)
        except PermissionError:
            self.stated.append(f".git/{text_of(found.name)}: closed to this user")
            return None

    def changed_at(self, name: bytes) -> int:
        """When a target last changed, as far as the files of it tell."""
        paths = [name, b"packed-refs", b"logs/" + name]
        times = []
        if entry.kind_of(self.version(name)) == entry.OBJECTS:
            with os.scandir(self.place.path(name)) as folders:
                times = [folder.stat(follow_symlinks=False).st_ctime_ns for folder in folders]
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
        if self._said is not None:
            self._known.said = msgspec.Raw(msgspec.msgpack.encode(self._said))
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


# The same thousands of names come again with each ref that moves.
_text = lru_cache(maxsize=1 << 16)(text_of)


def _compose(
    rows: dict[bytes, Row], packed: dict[bytes, dict[bytes, Version]], stores: dict[bytes, Version]
) -> Targets:
    """The targets that these files are: packed refs below loose ones, stashes and operations as one each."""
    found = {prefix + b"objects": version for prefix, version in stores.items()}
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
    return {_text(name): version for name, version in found.items()}
