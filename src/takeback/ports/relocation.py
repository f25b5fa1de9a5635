"""The port of a journal that is taken to another place, whole. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

Stored = tuple[int, str, int, str, str, bytes]
"""A record as it is stored: number, stream, place in it, key, digest, and exactly the bytes that the digest names."""


class QueueRow(NamedTuple):
    """What only the queue knows of an intent: no event tells it."""

    id: int
    """The event that deferred it."""
    fence: int
    result: bytes | None
    """JSON: all that the receiver gave."""


class Moving(Protocol):
    """A journal as something that leaves for another place, or comes in from one.

    While it is shut it can be read, and nobody appends, claims an intent or takes a lease, also who has had it open
    since before: they get StoreMoved with the notice, and nothing is changed.
    """

    def shut(self, notice: str, *, at: int | None = None) -> None:
        """Let nobody write here from now on. `notice` says why, after the words `the history of this workspace`.

        `at` is the number of records that the caller has seen; if there are others by now, JournalMoved is raised.
        Raises RunBusy, having changed nothing, while somebody delivers an intent or holds a lease. One that is shut
        already gets the new notice.
        """

    def reopen(self) -> None:
        """Let it be written to again. May be called twice."""

    def notice(self) -> str:
        """Why it is shut; empty where it is not."""

    def rows(self, *, after: int = 0) -> Iterator[Stored]:
        """Every record behind this one, as it is stored, in order, up to what is there now."""

    def adopt(self, rows: Sequence[Stored], queue: Sequence[QueueRow] = (), fence: int = 0) -> None:
        """Take in records of another journal with their numbers, keys and digests; the outbox follows. All or none.

        Only while it is shut. Each must be whole and come next, in the journal and in its stream, else
        CorruptionError is raised. What is there already must be the same, and is passed over; so it may be called
        again after any error. Leases get numbers above `fence` from now on. Durable when this returns.
        """

    def queue(self, *, after: int = 0, limit: int = 1000) -> Sequence[QueueRow]:
        """What only the queue knows, in the order of the intents, from behind `after` on."""

    def fence(self) -> int:
        """The number of the last lease."""
