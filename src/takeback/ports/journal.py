"""The port of the journal: append-only, hash-chained events. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import msgspec

from takeback.core.events import Event
from takeback.core.record import Record
from takeback.ports.leases import LeaseStore
from takeback.ports.outbox import Outbox
from takeback.ports.relocation import Moving
from takeback.ports.seats import Seats


class Head(msgspec.Struct, frozen=True):
    """The end of a stream, or of the whole journal: how many records, and the digest of the last."""

    count: int
    digest: str


class Finding(msgspec.Struct, frozen=True):
    """Something that `verify` found wrong. `place` is where, `what` is what, both in words."""

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
        """The intents that its events tell of."""

    @property
    def leases(self) -> LeaseStore:
        """Who may work on what."""

    @property
    def seats(self) -> Seats | None:
        """In which folder the workspace is. None where it is always in the same one: its journal is with it."""

    @property
    def moving(self) -> Moving:
        """Its way to another place, or in from one."""

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
        """The records with a sequence number above `after`, in order, as they stood when this was called.

        Raises CorruptionError at a record that cannot be read or does not match its digest.
        """

    def get(self, seq: int) -> Record | None:
        """One record by its sequence number."""

    def find(self, key: str) -> tuple[Record, ...]:
        """The records that were appended under this key, or none."""

    def head(self, stream: str | None = None) -> Head:
        """The end of one stream, or of the whole journal. Of an unknown stream: no records."""

    def durable_head(self) -> Head:
        """The last record that is known to survive a power cut; of a journal that does not know: no records."""

    def check(self) -> Iterator[Finding]:
        """Read everything and name whatever is not as it was written. Nothing is changed."""

    def sync(self) -> None:
        """Make the anchor as durable as the records: called at checkpoints."""

    def close(self) -> None:
        """Sync and let go. May be called twice."""
