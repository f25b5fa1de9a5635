"""The contract of a store for conversations: what agent frameworks keep of their threads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from takeback.core.conversation import Snapshot, Spot, StatePiece, Write


class ThreadToken(NamedTuple):
    """A thread in a store, and how often pieces of it were removed. A token from before a removal is refused."""

    id: int
    epoch: int


class StoredSnapshot(NamedTuple):
    """A snapshot, with its writes in order, and all pieces that both consist of, by name."""

    snapshot: Snapshot
    writes: tuple[Write, ...]
    pieces: Mapping[bytes, StatePiece]


class Conversations(Protocol):
    """A store of conversations. Safe for threads; what a method wrote is durable when it returns.

    A write is whole or did not happen, and doing it again changes nothing.
    """

    def token(self, thread: str) -> ThreadToken:
        """Return the token of a thread, creating the thread if it is new."""

    def put(self, token: ThreadToken, snapshot: Snapshot, pieces: Mapping[bytes, StatePiece]) -> bool:
        """Store a snapshot, in place of one with the same spot. Return False if the token is outdated.

        `pieces` may leave out those that are stored already, since the token was made. With an outdated token nothing
        is stored, and the caller has to give all pieces again.
        """

    def put_writes(
        self,
        token: ThreadToken,
        spot: Spot,
        writes: Sequence[Write],
        pieces: Mapping[bytes, StatePiece],
        *,
        replace: bool,
    ) -> bool:
        """Store writes of a task, as `put` does. A write with a known task and index stays, unless `replace`."""

    def find(self, thread: str, space: str, id: str = "") -> StoredSnapshot | None:
        """Return a snapshot; without an id the newest one. Ids are in the order of their bytes."""

    def spots(
        self, thread: str | None = None, space: str | None = None, id: str = "", before: str = ""
    ) -> Iterator[tuple[Spot, StatePiece]]:
        """Yield the spots of snapshots and what is known about them, newest first; None means every one."""

    def delete(self, thread: str) -> None:
        """Remove a thread with everything in it."""

    def delete_runs(self, runs: Sequence[str]) -> None:
        """Remove what these runs of the framework made, except what other snapshots are made of."""

    def keep_latest(self, thread: str) -> None:
        """Remove all but the newest snapshot of each space, and what these are made of."""

    def delete_after(self, thread: str, id: str) -> None:
        """Remove the snapshots of a thread that are newer than this id, and the writes since then."""

    def copy(self, source: str, target: str) -> None:
        """Copy a thread with everything in it to another one, over what has the same spots there."""

    def threads(self) -> list[str]:
        """Return the names of all threads."""

    def quoting(self, texts: Collection[bytes]) -> list[str]:
        """Return the names of the threads in which anything that is stored contains one of these texts."""

    def close(self) -> None:
        """Close the store. What was stored stays, except in memory."""
