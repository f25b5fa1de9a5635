"""The present state of a repository: found by checking each file, and reading those that differ."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.core.change import ABSENT, Version
from takeback.core.codec import text_of
from takeback.errors import CorruptionError
from takeback.ports.content import BlobStore, Contents
from takeback.resources.git import entry
from takeback.resources.git.format import place as format_place
from takeback.resources.git.format.place import RepositoryLocation
from takeback.resources.git.look import composing, manifest, scan
from takeback.resources.git.look.composing import GitFileRow, Said
from takeback.resources.git.look.manifest import Manifest, Targets
from takeback.resources.git.look.reader import Reader
from takeback.system import cache_file

MAGIC = b"takeback git index 2\n"


class RepositoryCache(msgspec.Struct, array_like=True):
    """What is known about a repository, kept for the next process. `said` is decoded only if needed."""

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


_decoder = msgspec.msgpack.Decoder(RepositoryCache)


class RepositoryObserver:
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
        """`losses` mirrors the objects of a repository, and returns the names of those that it lost, and how many."""
        self._root = os.fsencode(root)
        self._cache = cache
        self._blobs = blobs
        self._contents = contents
        self._generation = generation
        self._losses = losses
        self._known: RepositoryCache | None = None
        self._said: Said | None = None
        self._targets: Targets | None = None
        self._saved = True
        self.reader = Reader(format_place.find(self._root), contents)
        self.stores: list[bytes] = []
        self.stated: list[str] = []
        self.read_files = 0
        """The number of files read so far, for measuring the cost of a look."""

    @property
    def place(self) -> RepositoryLocation:
        return self.reader.place

    @property
    def targets(self) -> Targets:
        if self._targets is None:
            stores = self._known.stores if self._known else {}
            self._targets = composing.compose(self._what_is_said(), stores)
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
        """Forget everything: the next look reads all files."""
        self._known = self._said = self._targets = None
        self._cache.unlink(missing_ok=True)

    def look(self) -> None:
        """Look at every file, read those that differ, and store the result."""
        if self._known is None:
            self._known, self._said, self._targets = self._load(), None, None
        generation = self._generation()
        self.reader.place = format_place.find(self._root, self._known.folder if self._known else b"")
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
        targets = self.targets
        touched = self._read_again(walk)
        # Objects last: then the objects of every ref that was read exist by now.
        stores = self._look_at_objects(last.stores if last else {})
        name = self._store(targets, touched, stores)
        alternates = any(
            b"alternates" in names for folder, names in walk.keys.items() if folder.endswith(b"objects/info/")
        )
        where = self.place
        self._known = RepositoryCache(
            where.folder,
            where.linked,
            generation,
            walk.keys,
            walk.logs,
            name,
            alternates,
            stores,
            msgspec.Raw(),
        )
        self._saved = False

    def _store(
        self, targets: Targets, touched: list[scan.RepositoryFile], stores: dict[bytes, Version]
    ) -> bytes:
        """Store the present targets, recomposing those with a touched file. Return the name of the manifest."""
        said, last = self._what_is_said(), self._known
        if last is None:
            self._said, self._targets = said, composing.compose(said, stores)
            stored = manifest.store(self._targets, self._blobs.put)
        else:
            moved = [p for p in stores.keys() | last.stores.keys() if stores.get(p) != last.stores.get(p)]
            touched += [scan.RepositoryFile(prefix + b"objects", scan.PLAIN, prefix) for prefix in moved]
            changed = composing.compose_again(targets, said, stores, touched)
            stored = self._store_again(Manifest(last.name, said.parts), changed)
        if last is None or stored.name != last.name:
            self._blobs.sync()
        said.parts = stored.parts
        return stored.name

    def _store_again(self, last: Manifest, changed: Targets) -> Manifest:
        try:
            return manifest.store_again(self.targets, changed, last, self._blobs.get, self._blobs.put)
        except CorruptionError:
            # A part of the last one is gone or torn. Nothing depends on it, because everything is known here.
            return manifest.store(self.targets, self._blobs.put)

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
            walk.add(format_place.LINK, self.place.path(format_place.LINK))
        self.stores, self.stated = walk.stores, walk.stated
        return walk

    def _read_again(self, walk: scan.Scan) -> list[scan.RepositoryFile]:
        """Update the known content: drop what is gone, add what was read again. Return the touched files."""
        said = self._what_is_said()
        touched: list[scan.RepositoryFile] = []
        for name in walk.gone:
            touched += _dropped(said, name)
        # Packed refs last: a ref that is being packed right now is in one of the two at any time.
        for found in sorted(walk.unread, key=lambda f: f.area == scan.PACKED):
            folder, slash, last = found.name.rpartition(b"/")
            read = self._read(found)
            if read is None:
                touched += _dropped(said, found.name)
                walk.keys[folder + slash].pop(last, None)
                continue
            version, info = read
            before = said.rows.get(found.name)
            if before is None or not before.version.alike(version):
                touched.append(found)
                said.rows[found.name] = GitFileRow(found.area, found.prefix, version)
                if found.area == scan.PACKED:
                    touched += _repacked(said, found.prefix, self.reader.packed(found.prefix))
            walk.keys[folder + slash][last] = scan.NEVER if scan.is_young(info) else scan.key_of(info)
        return touched

    def _read(self, found: scan.RepositoryFile) -> tuple[Version, os.stat_result] | None:
        """Return the present content of a file; None if it is gone, or not a file."""
        self.read_files += 1
        try:
            return self.reader.read(found.name, found.area, found.prefix)
        except PermissionError:
            self.stated.append(f".git/{text_of(found.name)}: not readable for this user")
            return None

    def changed_at(self, name: bytes) -> int:
        """Return when a target last changed, as far as its files show."""
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

    def _load(self) -> RepositoryCache | None:
        return cache_file.load(self._cache, MAGIC, _decoder)

    def remember(self) -> None:
        """Save what is known for the next process."""
        if self._known is None or self._saved:
            return
        if self._said is not None:
            self._known.said = msgspec.Raw(msgspec.msgpack.encode(self._said))
        cache_file.save(self._cache, MAGIC, self._known)
        self._saved = True


def _dropped(said: Said, name: bytes) -> list[scan.RepositoryFile]:
    """Forget the content of a file. Return what was touched, including each ref of a packed-refs file."""
    row = said.rows.pop(name, None)
    if row is None:
        return []
    packed = _repacked(said, row.prefix, {}) if row.area == scan.PACKED else []
    return [scan.RepositoryFile(name, row.area, row.prefix), *packed]


def _repacked(said: Said, prefix: bytes, now: dict[bytes, Version]) -> list[scan.RepositoryFile]:
    """Replace the packed refs. Return those that changed."""
    before = said.packed.pop(prefix, {})
    if now:
        said.packed[prefix] = now
    names = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
    return [scan.RepositoryFile(name, scan.REFS, prefix) for name in names]
