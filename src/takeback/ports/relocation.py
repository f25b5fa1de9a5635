"""The port for moving a whole journal to another store. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

Stored = tuple[int, str, int, str, str, bytes]
"""A record as it is stored: number, stream, place in it, key, digest, and exactly the bytes that the digest names."""


class QueueRow(NamedTuple):
    """What only the outbox knows about an intent: it is in no event."""

    id: int
    """The event that deferred it."""
    fence: int
    result: bytes | None
    """The receiver's whole answer, as JSON."""


class Moving(Protocol):
    """A journal that is moved to another store, or receives the records of another.

    While it is shut it can be read, but not appended to, and no intent can be claimed or lease taken, even by
    processes that already had it open: they get StoreMoved with the notice, and nothing is changed.
    """

    def shut(self, notice: str, *, at: int | None = None) -> None:
        """Refuse all writes from now on. `notice` says why, following the words `the history of this workspace`.

        `at` is the number of records that the caller has seen; if there are more by now, JournalMoved is raised.
        Raise RunBusy, having changed nothing, while an intent is being delivered or a lease is held. A journal that
        is already shut gets the new notice.
        """

    def reopen(self) -> None:
        """Allow writes again. May be called twice."""

    def notice(self) -> str:
        """Return why it is shut; empty if it is not."""

    def rows(self, *, after: int = 0) -> Iterator[Stored]:
        """Yield every record behind `after`, as it is stored, in order, up to the present end."""

    def adopt(self, rows: Sequence[Stored], queue: Sequence[QueueRow] = (), fence: int = 0) -> None:
        """Add records of another journal with their numbers, keys and digests; the outbox follows. All or none.

        Only while it is shut. Each must be intact and come next, in the journal and in its stream, otherwise
        CorruptionError is raised. Records that are already there must be the same, and are skipped, so this may be
        called again after any error. Leases get numbers above `fence` from now on. Durable when this returns.
        """

    def queue(self, *, after: int = 0, limit: int = 1000) -> Sequence[QueueRow]:
        """Return what only the outbox knows, in the order of the intents, starting behind `after`."""

    def fence(self) -> int:
        """Return the number of the last lease."""
