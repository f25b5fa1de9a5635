"""Several appends that go to a store together.

Each is as if it had come alone: it has an answer or an error of its own, and those behind it see what it wrote.
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
    """An append and what became of it."""

    __slots__ = ("_bell", "anywhere", "batch", "durable", "error", "fences", "is_done", "records")

    def __init__(
        self, batch: Batch, *, durable: bool, fences: Collection[int] = (), anywhere: bool = False
    ) -> None:
        """`anywhere` says that it is written for whoever asks, wherever the workspace sits."""
        self.batch = batch
        self.fences = fences
        self.anywhere = anywhere
        self.durable = durable
        self.records: tuple[Record, ...] = ()
        self.error: BaseException | None = None
        self.is_done = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def wait(self, timeout_s: float) -> bool:
        """Until it is woken; False when the time is up."""
        return self._bell.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """It is done, or its thread may lead."""
        with suppress(RuntimeError):  # it was woken already
            self._bell.release()

    def end(self, answer: tuple[Record, ...] | BaseException) -> None:
        if isinstance(answer, BaseException):
            self.error = answer
        else:
            self.records = answer
        self.is_done = True
        self.wake()

    def answer(self) -> tuple[Record, ...]:
        if self.error:
            raise self.error
        return self.records


class JournalHeads(NamedTuple):
    """How far the journal and some of its streams reach. What others append makes it old."""

    head: Head
    ends: Mapping[str, Head]

    def knows(self, streams: Collection[str]) -> bool:
        return all(stream in self.ends for stream in streams)


class Sealed(NamedTuple):
    """A group in its place: the rows to be written, and what each append will be answered."""

    seen: Head
    rows: list[Stored]
    parts: list[int]
    answers: list[tuple[PendingAppend, tuple[Record, ...] | TakebackError]]
    view: JournalHeads
    durable: bool
    records: list[Record]
    """What is new, in order."""

    @property
    def has_errors(self) -> bool:
        return any(isinstance(answer, TakebackError) for _, answer in self.answers)

    def tell(self, but: Exception | None = None) -> None:
        """Give everybody their answer; or this error, which came after they were written."""
        for waiting, answer in self.answers:
            if not waiting.is_done:
                waiting.end(answer if but is None or isinstance(answer, TakebackError) else but)


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
    """Put the events of a group in their places, behind the end that `view` knows.

    `earlier` is what was written under their keys before, as far as anybody looked; `held` are leases that hold.
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
                durable = durable or waiting.durable  # who wrote it then may not have come as far as that
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
"""After so long without a word, whoever waits looks whether anybody leads."""


class Line:
    """The appends of one process that are not committed yet."""

    def __init__(self) -> None:
        self._lead = threading.Lock()
        self._leader = 0
        self._waiting: deque[PendingAppend] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_led_here(self) -> bool:
        """Whether this very thread leads: then this is asked by a signal handler."""
        return self._leader == threading.get_ident() and self._lead.locked()

    def append(self, waiting: PendingAppend, lead: Callable[[], None]) -> tuple[Record, ...]:
        """Stand in line until it is committed: by another thread, or by `lead`, which commits the first in line."""
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
                self._waiting.appendleft(waiting)  # whoever had taken it was interrupted
            lead()

    def take(self, limit: int) -> list[PendingAppend]:
        """The first in line, for whoever leads."""
        taken: list[PendingAppend] = []
        with suppress(IndexError):
            while len(taken) < limit:
                taken.append(self._waiting.popleft())
        return taken

    def give_back(self, group: Iterable[PendingAppend]) -> None:
        """Let those that are not done be the first again."""
        self._waiting.extendleft(reversed([waiting for waiting in group if not waiting.is_done]))

    def _leave(self, waiting: PendingAppend) -> None:
        """Done, or given up. Whoever is first now leads, unless a new one is quicker."""
        if not waiting.is_done:
            with suppress(ValueError):
                self._waiting.remove(waiting)
        if not self._lead.locked():
            with suppress(IndexError):
                self._waiting[0].wake()
