"""Group commit: several appends that go to a store together.

Each append behaves as if it were alone: it gets its own result or error, and later ones see what it wrote.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from takeback.core.record import Record
from takeback.errors import TakebackError
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import NOTHING, Batch, refuse_lost


class PendingAppend:
    """An append, and its result."""

    __slots__ = ("_bell", "_next", "anywhere", "batch", "durable", "error", "fences", "is_done", "records")

    def __init__(
        self, batch: Batch, *, durable: bool, fences: Collection[int] = (), anywhere: bool = False
    ) -> None:
        """With `anywhere` it may be written from any folder, not only the one that holds the workspace's seat."""
        self.batch = batch
        self.fences = fences
        self.anywhere = anywhere
        self.durable = durable
        self.records: tuple[Record, ...] = ()
        self.error: BaseException | None = None
        self.is_done = False
        self._next: PendingAppend | None = None
        self._bell = threading.Lock()
        self._bell.acquire()

    def wait(self, timeout_s: float) -> bool:
        """Wait to be woken. Return False on timeout."""
        return self._bell.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """Wake the waiting thread: its append is done, or it may lead now."""
        with suppress(RuntimeError):  # it was already woken
            self._bell.release()

    def end(self, answer: tuple[Record, ...] | BaseException) -> None:
        self.settle(answer, None)
        self.wake()

    def settle(self, answer: tuple[Record, ...] | BaseException, then: PendingAppend | None) -> None:
        """Set the result. The thread of this append, once woken, wakes `then` with `wake_next`."""
        self._next = then
        if isinstance(answer, BaseException):
            self.error = answer
        else:
            self.records = answer
        self.is_done = True

    def wake_next(self) -> None:
        """Wake the append that is done with this one, if there is one."""
        if self._next is not None:
            self._next.wake()

    def answer(self) -> tuple[Record, ...]:
        if self.error:
            raise self.error
        return self.records


class JournalHeads(NamedTuple):
    """How far the journal and some of its streams reach. Outdated once another process appends."""

    head: Head
    ends: Mapping[str, Head]

    def knows(self, streams: Collection[str]) -> bool:
        return all(stream in self.ends for stream in streams)


class Sealed(NamedTuple):
    """A sealed group: the rows to write, and the result of each append."""

    seen: Head
    rows: list[Stored]
    parts: list[int]
    answers: list[tuple[PendingAppend, tuple[Record, ...] | TakebackError]]
    view: JournalHeads
    durable: bool
    records: list[Record]
    """The new records, in order."""

    @property
    def has_errors(self) -> bool:
        return any(isinstance(answer, TakebackError) for _, answer in self.answers)

    def tell(self, but: Exception | None = None) -> None:
        """Give each append its result; or `but`, an error that occurred after the events were written.

        Only the first is woken here, and each wakes the next: if all woke at once, each would try again and again to
        get the interpreter while another has it, which costs more than the append itself. A thread that was
        not woken, because the one before it was interrupted, notices by itself after `LOOK_S`.
        """
        first: PendingAppend | None = None
        for waiting, answer in reversed(self.answers):
            if not waiting.is_done:
                waiting.settle(answer if but is None or isinstance(answer, TakebackError) else but, first)
                first = waiting
        if first is not None:
            first.wake()


def fences_of(group: Iterable[PendingAppend]) -> set[int]:
    return {fence for waiting in group for fence in waiting.fences}


def streams_of(group: Iterable[PendingAppend]) -> set[str]:
    return {waiting.batch.stream for waiting in group if waiting.batch.stream}


def keys_of(group: Iterable[PendingAppend]) -> set[str]:
    return {waiting.batch.key for waiting in group if waiting.batch.key}


def seal(
    group: Iterable[PendingAppend],
    view: JournalHeads,
    earlier: Mapping[str, tuple[Record, ...]],
    at_us: int,
    held: Collection[int] = (),
) -> Sealed:
    """Seal the events of a group, behind the end in `view`.

    `earlier` holds what is already recorded under their keys, if the caller looked it up; `held` are the fences of
    leases that are still held.
    """
    rows: list[Stored] = []
    parts: list[int] = []
    answers: list[tuple[PendingAppend, tuple[Record, ...] | TakebackError]] = []
    fresh: list[Record] = []
    ends, known = dict(view.ends), dict(earlier)
    seq, durable = view.head.count, False
    for waiting in group:
        batch = waiting.batch
        try:
            if batch.key in known:
                answers.append((waiting, batch.answer(known[batch.key])))
                durable = durable or waiting.durable  # the earlier writer may not have waited for durability
                continue
            refuse_lost(waiting.fences, held)
            stream = batch.stream_at(seq + 1)
            more, records = batch.seal(seq=seq + 1, head=ends.get(stream, NOTHING), at_us=at_us)
        except TakebackError as error:
            answers.append((waiting, error))
            continue
        rows += more
        parts += range(1, len(more) + 1)
        fresh += records
        answers.append((waiting, records))
        durable = durable or waiting.durable
        seq = records[-1].seq
        ends[stream] = Head(records[-1].envelope.n, records[-1].digest)
        if batch.key:
            known[batch.key] = records
    head = Head(seq, rows[-1][4]) if rows else view.head
    return Sealed(view.head, rows, parts, answers, JournalHeads(head, ends), durable, fresh)


LOOK_S = 0.5
"""A waiting append that was not woken for this long checks whether any thread still leads."""


class Line:
    """The queue of appends in this process that are not committed yet."""

    def __init__(self) -> None:
        self._lead = threading.Lock()
        self._leader = 0
        self._waiting: deque[PendingAppend] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_led_here(self) -> bool:
        """Whether this thread is the leader: then the caller is a signal handler that interrupted it."""
        return self._leader == threading.get_ident() and self._lead.locked()

    def append(self, waiting: PendingAppend, lead: Callable[[], None]) -> tuple[Record, ...]:
        """Queue an append until it is committed, by another thread or by `lead`, which commits the first in line."""
        try:
            self._waiting.append(waiting)
            while not waiting.is_done:
                if not self._lead.locked() or not waiting.wait(LOOK_S):
                    self._lead_on(waiting, lead)
        finally:
            self._leave(waiting)
        return waiting.answer()

    def _lead_on(self, waiting: PendingAppend, lead: Callable[[], None]) -> None:
        me = threading.get_ident()
        with self._lead:
            self._leader = me
            if waiting.is_done:
                return
            if waiting not in self._waiting:
                self._waiting.appendleft(waiting)  # the leader that had taken it was interrupted
            lead()

    def take(self, limit: int) -> list[PendingAppend]:
        """Take the first appends of the queue; for the leader."""
        taken: list[PendingAppend] = []
        with suppress(IndexError):  # one that was interrupted may leave in between
            while self._waiting and len(taken) < limit:
                taken.append(self._waiting.popleft())
        return taken

    def give_back(self, group: Iterable[PendingAppend]) -> None:
        """Put appends that are not done back at the front of the queue."""
        self._waiting.extendleft(reversed([waiting for waiting in group if not waiting.is_done]))

    def _leave(self, waiting: PendingAppend) -> None:
        """Leave the queue, done or given up. Wake the first in it to lead, unless a new append gets there sooner."""
        waiting.wake_next()
        if not waiting.is_done:
            with suppress(ValueError):
                self._waiting.remove(waiting)
        if self._waiting and not self._lead.locked():
            with suppress(IndexError):
                self._waiting[0].wake()
