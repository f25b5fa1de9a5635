"""The port of the journal: append-only, hash-chained events. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from takeback.core.events import Event
from takeback.core.record import Record
from takeback.ports.leases import LeaseStore
from takeback.ports.outbox import Outbox
from takeback.ports.progress import Progress, silent
from takeback.ports.relocation import Moving
from takeback.ports.seats import Seats

if TYPE_CHECKING:
    from takeback.ports.compaction import Compaction


class Head(msgspec.Struct, frozen=True):
    """The end of a stream, or of the whole journal: how many records, and the digest of the last."""

    count: int
    digest: str


class Finding(msgspec.Struct, frozen=True):
    """Something that `verify` found wrong, and where; both as text for people."""

    place: str
    what: str
    seq: int = 0


class Journal(Protocol):
    """Append-only events, hash-chained for each stream, in one workspace-wide order.

    A stream is a run, or the workspace itself (`ids.WORKSPACE`). The sequence number of the whole workspace has
    no gaps. Any number of threads and processes may append and read at once.
    """

    @property
    def outbox(self) -> Outbox:
        """The intents that its events describe."""

    @property
    def leases(self) -> LeaseStore:
        """The leases of the workspace."""

    @property
    def seats(self) -> Seats | None:
        """The seats of the workspace. None if it is always in the same folder, because its journal is local."""

    @property
    def moving(self) -> Moving:
        """Moving this journal to another store, or records of another store into it."""

    @property
    def compaction(self) -> Compaction:
        """Compacting its old records in place."""

    def append(
        self,
        events: Sequence[Event],
        *,
        stream: str,
        expect: int | None = None,
        key: str = "",
        durable: bool = True,
        fences: Collection[int] = (),
    ) -> tuple[Record, ...]:
        """Write these events at the end of a stream, all or none, durable when this returns.

        With `durable=False` they survive the end of this process, and a power cut only once a later append has
        been durable; that is much quicker.

        With `stream=""` the first event must be RunBegan: it begins a new stream, named after its own id.
        `expect` is the number of records that the caller has seen in the stream; if others have appended
        since, JournalMoved is raised and nothing is written. `key` makes the append idempotent: a key that
        was used before returns what was written then, and writes nothing. May be called again after any error.
        `fences` are leases that must still be held, else LeaseLost is raised and nothing is written.
        """

    def read(self, *, after: int = 0, stream: str | None = None) -> Iterator[Record]:
        """Return the records with a sequence number above `after`, in order, as they stood when this was called.

        Raises CorruptionError at a record that cannot be read or does not match its digest.
        """

    def get(self, seq: int) -> Record | None:
        """Return one record by its sequence number."""

    def pick(self, seqs: Sequence[int]) -> list[Record]:
        """Return the records with these sequence numbers, those of them that there are, in order."""

    def find(self, key: str) -> tuple[Record, ...]:
        """Return the records that were appended under this key; empty if there are none."""

    def head(self, stream: str | None = None) -> Head:
        """Return the end of one stream, or of the whole journal. An unknown stream has no records."""

    def durable_head(self) -> Head:
        """Return the last record known to survive a power cut; no records if the journal does not know."""

    def check(self, *, since: int = 0, progress: Progress = silent) -> Iterator[Finding]:
        """Read everything and yield what differs from what was written. Changes nothing.

        `since` is the number of a record that an earlier check has read and that the caller knows to be the same.
        Then only what comes after it is read: whether it is whole, in order, in its chains, and as the anchor says.
        """

    def sync(self) -> None:
        """Make the anchor as durable as the records: called at checkpoints."""

    def close(self) -> None:
        """Sync and release all resources. May be called twice."""
