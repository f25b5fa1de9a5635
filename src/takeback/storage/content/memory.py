"""The content store in memory: the same guarantees except durability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from blake3 import blake3

from takeback.errors import CorruptionError
from takeback.ports.content import Stats, Swept
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.storage.content.names import lost, text_name
from takeback.storage.content.unshared import UnsharedStore


class MemoryBlobs(UnsharedStore):
    """Blobs in a dict. They live as long as their process, which no other process can read."""

    def __init__(self) -> None:
        self._blobs: dict[bytes, bytes] = {}

    def put(self, data: bytes | memoryview, *, packed: bool = True) -> bytes:  # noqa: ARG002  nothing is packed
        digest = blake3(data).digest()
        self.put_named(digest, data)
        return digest

    def put_named(self, digest: bytes, data: bytes | memoryview) -> None:
        self._blobs.setdefault(digest, bytes(data))

    def get(self, digest: bytes) -> bytes:
        data = self._blobs.get(digest)
        if data is None:
            raise lost(digest)
        if blake3(data).digest() != digest:
            raise CorruptionError(f"the content {text_name(digest)} is damaged; nothing was changed")
        return data

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        return ((digest, self.get(digest)) for digest in dict.fromkeys(digests))

    def has(self, digest: bytes) -> bool:
        return digest in self._blobs

    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        return {name for name in names if name not in self._blobs}

    def begin(self) -> None: ...

    def sync(self) -> None: ...

    def size_bytes(self) -> int:
        return sum(map(len, self._blobs.values()))

    def stats(self) -> Stats:
        return Stats(packs=0, blobs=len(self._blobs), bytes=self.size_bytes(), index_bytes=0)

    def check(
        self,
        *,
        deep: bool = False,
        progress: Progress = silent,  # noqa: ARG002  it takes no time
    ) -> Iterator[Finding]:
        for digest, data in list(self._blobs.items()) if deep else ():
            if blake3(data).digest() != digest:
                yield Finding(place="memory", what=f"the content {text_name(digest)} is damaged")

    def sweep(
        self,
        live: AbstractSet[bytes],
        *,
        thorough: bool = False,  # noqa: ARG002  everything dead is removed anyway
        copy_bytes_max: int | None = None,  # noqa: ARG002  nothing is copied
        progress: Progress = silent,  # noqa: ARG002  it takes no time
    ) -> Swept:
        dead = self._blobs.keys() - live
        freed = sum(len(self._blobs.pop(digest)) for digest in dead)
        return Swept(bytes_freed=freed)

    def close(self) -> None: ...
