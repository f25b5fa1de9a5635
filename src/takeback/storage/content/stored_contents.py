"""The content of files, by one short name each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blake3 import blake3

from takeback.ports.content import FileId, StoredFile
from takeback.storage.content import file_content
from takeback.storage.content.file_content import Content
from takeback.storage.content.memory import MemoryBlobs
from takeback.storage.content.names import DIGEST_BYTES
from takeback.storage.content.packs.ingest.files import Ingested, ingest
from takeback.storage.content.packs.ingest.parallel import ingest_many
from takeback.storage.content.packs.store import PackStore

_LISTED = b"\x01"
NO_FILE: FileId = (0, 0, 0, 0, 0)


class StoredContents:
    """The `Contents` port over a store of blobs. A name is a digest, plus one byte if it names a list."""

    def __init__(self, store: PackStore | MemoryBlobs) -> None:
        self._store = store

    def put(self, fd: int, size: int) -> bytes:
        return name_of(file_content.put_file(self._store.put, fd, size))

    def name(self, fd: int, size: int) -> bytes:
        return name_of(file_content.put_file(lambda data: blake3(data).digest(), fd, size))

    def put_many(self, files: Iterable[tuple[bytes, int]], root_fd: int) -> Iterator[StoredFile]:
        for found in self._ingested(files, root_fd):
            key = found.after
            if key is not None and found.content is not None and not found.torn and not found.errno:
                id = (key.dev, key.ino, key.size, key.mtime_ns, key.ctime_ns)
                yield StoredFile(found.path, name_of(found.content), id, found.is_plain)
            else:
                yield StoredFile(found.path, b"", NO_FILE, is_plain=False)

    def _ingested(self, files: Iterable[tuple[bytes, int]], root_fd: int) -> Iterator[Ingested]:
        if isinstance(self._store, PackStore):
            return ingest_many(self._store, files, root_fd)
        return ingest((path for path, _ in files), root_fd, self._store.put)

    def put_bytes(self, data: bytes) -> bytes:
        return name_of(file_content.put_bytes(self._store.put, data))

    def write(self, name: bytes, size: int, fd: int, *, sparse: bool) -> None:
        file_content.write_file(self._store.get, content_of(name, size), fd, sparse=sparse)

    def read(self, name: bytes, size: int) -> bytes:
        return b"".join(file_content.read(self._store.get, content_of(name, size)))

    def blobs(self, name: bytes, size: int) -> Iterator[bytes]:
        found: set[bytes] = set()
        file_content.add_names(self._store.get, content_of(name, size), found)
        return iter(found)


def name_of(stored: Content) -> bytes:
    return stored.name + _LISTED if stored.listed else stored.name


def content_of(name: bytes, size: int) -> Content:
    return Content(name[:DIGEST_BYTES], size, listed=len(name) > DIGEST_BYTES)
