"""The journal together with the history folded from it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress

import msgspec

from takeback.core import ids
from takeback.core.codec import written
from takeback.core.events import (
    ActionBegan,
    ApprovalAsked,
    CompactionEnded,
    Event,
    Outcome,
    RunEnded,
    RunHandedOver,
    RunInterrupted,
    StepBegan,
)
from takeback.core.history import History
from takeback.core.intents import IntentDeferred, IntentsReleased
from takeback.core.record import Record
from takeback.core.redact import redact
from takeback.core.seats import Seat
from takeback.engine.locks.keeper import LeaseKeeper
from takeback.engine.locks.leases import why_lost
from takeback.errors import BackendError, LeaseLost
from takeback.ports.index import KeptIndex
from takeback.ports.journal import Journal
from takeback.ports.progress import Progress, silent
from takeback.system.processes import no_collection

WORDS = ("why", "note", "message")
"""Event fields that hold free text of people or errors."""

GOING_ON = (ActionBegan, StepBegan, IntentDeferred, IntentsReleased)
"""Events that are refused once a run has lost a lock. What the run did before is recorded in any case."""

WAITING = (ApprovalAsked, RunHandedOver, RunInterrupted)
"""Events after which something waits for a human."""

NAMING = ("marks", "changes", "swaps", "full")
"""Event fields that refer to content."""

SHARES_MAX = 5

LEFT_UNINDEXED = 256
"""So many records may be left to the next process to read again."""
UNINDEXED_MAX = 2048
"""So many records may be at hand before the index takes them in."""
AT_HAND_MAX = 8192
"""So many actions may be at hand before those that are over are dropped: they can be read again."""
BATCH = 50_000
"""So many are taken in at once while an index is made anew."""
TOPICS = 8
"""So many topics count as one record: a record with thousands of changes is as long to read as many small ones."""


class Ledger:
    """The journal of a workspace and its up-to-date history."""

    def __init__(
        self,
        journal: Journal,
        share: Callable[[bool], Collection[int]] = lambda _: (),
        index: KeptIndex | None = None,
        progress: Progress = silent,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Open the ledger of `journal`. Without an `index` the whole history is kept at hand.

        `share(lost)` uploads all content so that other machines find it, and returns the fences of the leases
        that protect the upload. `lost` is True if a lease that it returned before was lost. `tell` is called with
        what a human should know of the index.
        """
        self.journal = journal
        self._share = share
        self.history = History(guard=threading.RLock())
        self._index = index
        self._is_begun = index is None
        self._progress = progress
        self._tell = tell
        self.waits: Callable[[], None] = lambda: None
        """Called when something has been recorded that waits for a human."""
        self._fences: dict[str, dict[int, str]] = {}
        self._lock = threading.RLock()  # the steps of a run may be in several threads
        self._seats = journal.seats
        self._keeper = LeaseKeeper(self._seats) if self._seats else None
        self._kept: Seat | None = None
        self._is_here = self._seats is None

    def refresh(self) -> History:
        """Read what other processes appended, and return the history."""
        with self._lock:
            self._begin()
            if (count := self.journal.head().count) > self.history.seq:  # seldom: most others only read
                while ended := self._catch_up(self.history, self._index, count):
                    self._begin_again(ended)
                if self._unindexed >= UNINDEXED_MAX:
                    self._write_index()
            self.history.trim(AT_HAND_MAX)
            return self.history

    def _catch_up(self, history: History, index: KeptIndex | None, count: int) -> int:
        """Read what is new, up to record `count` or beyond.

        Return the number of a record that ends a compaction, if there is one: then stop there.
        What was known before that record may have details that are gone by now. What is read together with it is
        read as it was left.
        """
        begun_at = history.seq
        missing = count - begun_at if index else 0
        with no_collection() if missing >= UNINDEXED_MAX else nullcontext():
            for record in self._read(begun_at, missing) if missing or not index else ():
                if begun_at and isinstance(record.event, CompactionEnded):
                    return record.seq
                history.apply(record)
                if _unindexed(history, index) >= BATCH:
                    _write(history, index)
        return 0

    def _begin_again(self, ended: int) -> None:
        """Read the history again after a compaction. Other threads go on with what was known until that is done."""
        fresh = History(guard=threading.RLock())
        index = self._index.again() if self._index else None
        if index:
            fresh.begin_at(index, index.open(after=ended)[0])
        later = self._catch_up(fresh, index, self.journal.head().count)
        self._index = index  # the former one is not closed: another thread may just be asking it
        self.history.become(fresh)
        if later:
            self._begin_again(later)

    def _read(self, after: int, missing: int) -> Iterable[Record]:
        """Read what a history lacks, with progress where that is much: an index is missing, or was thrown away."""
        records = self.journal.read(after=after)
        return records if missing < BATCH else self._progress("indexing the history", records, missing)

    def _begin(self) -> None:
        if self._index is not None and not self._is_begun:
            standing, notice = self._index.open()
            self.history.begin_at(self._index, standing)
            self._is_begun = True
            if notice:
                self._tell(notice)

    @property
    def _unindexed(self) -> int:
        return _unindexed(self.history, self._index)

    def _write_index(self) -> None:
        _write(self.history, self._index)

    def close(self) -> None:
        """Leave the index to the next process, if bringing it up to date would take that process long."""
        with self._lock:
            if self._unindexed >= LEFT_UNINDEXED:
                self._write_index()
            if self._index:
                self._index.close()

    def append(
        self, events: Sequence[Event], stream: str = ids.WORKSPACE, *, durable: bool = True
    ) -> tuple[Record, ...]:
        """Append events; once this returns they are recorded."""
        events = [_without_secrets(event) for event in events]
        # Without the lock: appends of several threads share a commit.
        records = self._append(events, stream, durable=durable)
        with self._lock:
            self._begin()
            if records[0].seq == self.history.seq + 1:
                for record in records:
                    self.history.apply(record)
                if self._unindexed >= UNINDEXED_MAX:
                    self._write_index()
            elif records[-1].seq > self.history.seq:
                self.refresh()  # in order: others wrote before these, here or elsewhere
            self._keep_seat()
        if any(isinstance(event, WAITING) for event in events):
            self.waits()
        return records

    def _append(self, events: Sequence[Event], stream: str, *, durable: bool) -> tuple[Record, ...]:
        """Append, after uploading the content that the events refer to: a shared journal never refers to content
        that only one machine has.
        """
        fences, naming = self._fences_for(stream, events), any(map(_names_content, events))
        for turn in range(SHARES_MAX if naming else 1):
            shared = self._share(turn > 0) if naming else ()
            try:
                return self.journal.append(events, stream=stream, durable=durable, fences=[*fences, *shared])
            except LeaseLost:
                self.refuse_lost(fences)
                if not shared:
                    raise
        raise BackendError(
            "a clean-up on another machine interfered several times; nothing was recorded",
            hint="try again; all content is safe on this machine",
            retryable=True,
        )

    # The seat, where the journal is shared

    def refuse_elsewhere(self) -> None:
        """Raise SeatLost if the workspace has its seat in another folder.

        Called before this folder is looked at. Checks only once: later the next append detects a move.
        """
        if not self._is_here:
            self.refuse_moved()
            self._is_here = True

    def refuse_moved(self) -> None:
        """Raise SeatLost if the workspace has moved: called before doing what is recorded only afterwards."""
        if self._seats:
            self._seats.refuse_moved()

    def _keep_seat(self) -> None:
        """Start the heartbeat of the seat, so that it stays ours even while nothing is appended."""
        if self._seats and self._keeper and self._kept is None and (mine := self._seats.mine):
            self._keeper.keep(mine.fence, mine.ttl_us)
            self._kept = mine

    def rest(self) -> None:
        """Stop the heartbeat of the seat: this process is finished with the workspace."""
        if self._keeper and self._kept:
            self._keeper.leave(self._kept.fence)
            self._kept = None

    # Leases

    def fenced(self, run: str) -> dict[int, str]:
        """Return the leases that a run holds in this process, by fence. It may continue only while it has them."""
        return self._fences.setdefault(run, {})

    def refuse_lost(self, fences: Mapping[int, str]) -> None:
        """Raise LeaseLost if one of these leases (names by fence) is no longer held."""
        leases = self.journal.leases.all() if fences else ()
        held = {lease.fence for lease in leases}
        if gone := [name for fence, name in fences.items() if fence not in held]:
            raise LeaseLost(
                f"{why_lost(gone[0], leases)}. Nothing more was done",
                hint="what was done before stays; `takeback locks list` shows who has the lock now",
            )

    def _fences_for(self, run: str, events: Sequence[Event]) -> dict[int, str]:
        if not (fences := self._fences.get(run)):
            return {}
        goes_on = any(isinstance(event, GOING_ON) or _is_commit(event) for event in events)
        return dict(fences) if goes_on else {}


def _unindexed(history: History, index: KeptIndex | None) -> int:
    """Return how much an index lacks, in records of the usual size."""
    if index is None:
        return 0
    postings = history.postings
    return max(history.seq - postings.position, len(postings.since) // TOPICS)


def _write(history: History, index: KeptIndex | None) -> None:
    if index and index.write(history.unindexed()):
        history.indexed()


def _names_content(event: Event) -> bool:
    return any(getattr(event, word) for word in _fields_of(type(event), NAMING))


def _is_commit(event: Event) -> bool:
    return isinstance(event, RunEnded) and event.outcome is Outcome.DONE


def _as_text(words: str) -> str:
    """Return text that may contain undecodable bytes of a command line as valid Unicode.

    Text that cannot be converted is returned as it is, and the journal refuses it.
    """
    with suppress(UnicodeEncodeError):
        return written(words)
    return words


def _without_secrets(event: Event) -> Event:
    """Return the event with secrets redacted: messages of errors may contain the password of a database."""
    said = {word: text for word in _fields_of(type(event), WORDS) if (text := getattr(event, word))}
    if not said:
        return event
    shown = {word: redact(_as_text(text)) for word, text in said.items()}
    return event if shown == said else msgspec.structs.replace(event, **shown)


@functools.cache
def _fields_of(kind: type, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name in kind.__struct_fields__)  # type: ignore[attr-defined]
