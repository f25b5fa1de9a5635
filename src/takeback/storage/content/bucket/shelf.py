"""Data that is not the content of a record, under its own names beside the packs.

No clean-up touches it.

stored = blake3 of the bytes (32 bytes), the bytes; encrypted as a whole if there is a key
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from blake3 import blake3

from takeback.errors import ContentGone, CorruptionError
from takeback.storage.content.bucket.client import Bucket
from takeback.storage.content.bucket.encryption import Seal

_FOLDER = "shelf"
_PROOF_BYTES = 32


class BucketShelf:
    """Objects that never change once they are written."""

    def __init__(self, bucket: Callable[[], Bucket], seal: Seal) -> None:
        self._bucket = bucket
        self._seal = seal

    def put_new(self, name: str, data: bytes) -> None:
        """Store the bytes, unless the name exists. Durable when this returns."""
        self._bucket().create(
            f"{_FOLDER}/{name}", self._seal.close(blake3(data).digest() + data, name.encode())
        )

    def get(self, name: str) -> bytes:
        """Return the bytes stored under a name. Raise CorruptionError if they are damaged, ContentGone if missing."""
        bucket = self._bucket()
        stored = bucket.read(f"{_FOLDER}/{name}")
        if stored is None:
            raise ContentGone(
                f"{name} is not in {bucket.name}; nothing was changed", hint="see `takeback verify --deep`"
            )
        try:
            opened = self._seal.open(stored, name.encode())
        except ValueError:
            opened = b""
        data = opened[_PROOF_BYTES:]
        if blake3(data).digest() != opened[:_PROOF_BYTES]:
            raise CorruptionError(
                f"{name} in {bucket.name} is damaged; nothing was changed",
                hint="see `takeback verify --deep`",
            )
        return data

    def names(self, under: str) -> Iterable[str]:
        """Return all names that begin with `under`."""
        folder = f"{_FOLDER}/{under}".rpartition("/")[0]
        found = (path.removeprefix(f"{_FOLDER}/") for path in self._bucket().list(folder))
        return [name for name in found if name.startswith(under)]
