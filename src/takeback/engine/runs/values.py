"""Values that actions were given and gave back: a view of them for the log, and all of them in private content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from takeback.core.values import plain, shortened, view
from takeback.errors import CorruptionError
from takeback.ports.content import BlobStore
from takeback.ports.lock import Lock


class KeptValue(msgspec.Struct, frozen=True):
    """A value as an event holds it. `full` names the content with all of it, where `view` leaves something out."""

    view: Any
    full: str = ""


class ValueStore:
    """Keeps values and gives them back."""

    def __init__(self, store: BlobStore, lock: Lock) -> None:
        self._store = store
        self._lock = lock

    @contextmanager
    def keeping(self, value: Any, seen: Any = None) -> Iterator[KeptValue]:
        """Keep a plain value. What is as short and harmless as its view needs no content of its own.

        `seen` is that view, where whoever has the value knows more of it. Content is under the lock until the block
        has recorded it: a clean-up takes away what no event names.
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
        """The same, for whoever holds the lock already."""
        with self.keeping(value, seen) as kept:
            return kept

    def fetch(self, kept: Any, full: str) -> Any:
        """The whole value."""
        if not full:
            return plain(kept)
        try:
            return msgspec.json.decode(self._store.get(bytes.fromhex(full)))
        except (ValueError, msgspec.DecodeError) as error:
            raise CorruptionError(f"the content {full[:12]} is no value: {error}") from error
