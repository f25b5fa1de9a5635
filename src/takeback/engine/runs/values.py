"""Arguments and results of actions: a redacted view for the log, and the whole value as private content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from takeback.core.values import plain, shortened, view
from takeback.errors import CorruptionError
from takeback.ports.content import BlobStore
from takeback.ports.lock import Lock


def as_is(value: Any) -> Any:
    """Return the value itself."""
    return value


class Codec(msgspec.Struct, frozen=True):
    """How a thread stores the values of its framework: `encode` returns JSON values, `decode` reads them back."""

    encode: Callable[[Any], Any] = as_is
    decode: Callable[[Any], Any] = as_is

    def plain(self, value: Any, place: str) -> Any:
        """Return a value as it is stored. Raise UsageError if it cannot be."""
        return plain(self.encode(value), place)


class KeptValue(msgspec.Struct, frozen=True):
    """A value as an event holds it. `full` names the blob with all of it, if `view` leaves something out."""

    view: Any
    full: str = ""


class ValueStore:
    """The store of values."""

    def __init__(self, store: BlobStore, lock: Lock) -> None:
        self._store = store
        self._lock = lock

    @contextmanager
    def keeping(self, value: Any, seen: Any = None) -> Iterator[KeptValue]:
        """Store a plain value. A value that equals its view needs no blob.

        `seen` is that view, if the caller knows better what to redact. The lock is held until the block has recorded
        the value, because a clean-up deletes blobs that no event names.
        """
        shown = shortened(view(value) if seen is None else seen)
        if shown == value:
            yield KeptValue(value)
            return
        with self._lock.held():
            name = self._store.put(msgspec.json.encode(value))
            self._store.sync()
            yield KeptValue(shown, name.hex())

    def keep(self, value: Any, seen: Any = None) -> KeptValue:
        """Store a plain value while the caller already holds the lock."""
        with self.keeping(value, seen) as kept:
            return kept

    def fetch(self, kept: Any, full: str) -> Any:
        """Return the whole value."""
        if not full:
            return plain(kept)
        try:
            return msgspec.json.decode(self._store.get(bytes.fromhex(full)))
        except (ValueError, msgspec.DecodeError) as error:
            raise CorruptionError(f"the content {full[:12]} is not a value: {error}") from error
