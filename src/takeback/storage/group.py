"""Several appends that go to a store together.

Each is as if it had come alone: it has an answer or an error of its own, and those behind it see what it wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from takeback.core.record import Record
from takeback.errors import TakebackError
from takeback.ports import Head
from takeback.ports_moving import Stored
from takeback.storage.rows import NOTHING, Batch, refuse_lost


class Waiting:
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


class View(NamedTuple):
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
    answers: list[tuple[Waiting, tuple[Record, ...] | TakebackError]]
    view: View
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


def fences_of(group: Iterable[Waiting]) -> set[int]:
    return {fence for waiting in group for fence in waiting.fences}


def streams_of(group: Iterable[Waiting]) -> set[str]:
    return {waiting.batch.stream for waiting in group if waiting.batch.stream}


def keys_of(group: Iterable[Waiting]) -> set[str]:
    return {waiting.batch.key for waiting in group if waiting.batch.key}


def seal(
    group: Iterable[Waiting],
    view: View,
    earlier: Mapping[str, tuple[Record, ...]],
    at_us: int,
    held: Collection[int] = (),
) -> Sealed:
    """Put the events of a group in their places, behind the end that `view` knows.

    `earlier` is what was written under their keys before, as far as anybody looked; `held` are leases that hold.
    """
    rows: list[Stored] = []
    parts: list[int] = []
    answers: list[tuple[Waiting, tuple[Record, ...] | TakebackError]] = []
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
    return Sealed(view.head, rows, parts, answers, View(head, ends), durable, fresh)
