"""Bytes under names of their own, beside the packs: for what is no content of a record. No clean-up looks at them.

stored = blake3 of the bytes (32 bytes), the bytes; sealed as a whole where there is a key
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
    """What was put never changes."""

    def __init__(self, bucket: Callable[[], Bucket], seal: Seal) -> None:
        self._bucket = bucket
        self._seal = seal

    def put_new(self, name: str, data: bytes) -> None:
        """Put them there, unless they are there. Durable when this returns."""
        self._bucket().create(
            f"{_FOLDER}/{name}", self._seal.close(blake3(data).digest() + data, name.encode())
        )

    def get(self, name: str) -> bytes:
        """What was put there, unchanged; raises CorruptionError where it is not."""
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
        """All names that begin so."""
        folder = f"{_FOLDER}/{under}".rpartition("/")[0]
        found = (path.removeprefix(f"{_FOLDER}/") for path in self._bucket().list(folder))
        return [name for name in found if name.startswith(under)]
