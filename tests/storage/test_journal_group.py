"""Threads that append to one SQLite journal at once share a commit, and nothing else: no error, no interrupt."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken
from takeback.core.intents import IntentsReleased
from takeback.core.record import Record
from takeback.engine.ledger import Ledger
from takeback.errors import BackendError, JournalMoved, LeaseLost, UsageError
from takeback.storage.journal import group_commit
from takeback.storage.journal.sqlite import session
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system import crash_points

Answer = tuple[Record, ...]
Append = Callable[[], Answer]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path / "journal.db")
    say(journal, "first")
    yield journal
    assert list(journal.check()) == []
    journal.close()


def say(journal: SqliteJournal, text: str, **more: Any) -> Answer:
    return journal.append([CheckpointTaken(text)], stream=ids.WORKSPACE, **more)


def texts(journal: SqliteJournal) -> list[str]:
    return [record.event.message for record in journal.read() if isinstance(record.event, CheckpointTaken)]


@contextmanager
def at(point: str, do: Callable[[int], object]) -> Iterator[Counter[str]]:
    """Do something at each pass of a point, given which pass it is."""
    passes: Counter[str] = Counter()

    def hook(name: str) -> None:
        passes[name] += 1
        if name == point:
            do(passes[name])

    before = crash_points.set_hook(hook)
    try:
        yield passes
    finally:
        crash_points.set_hook(before)


def in_one_group(
    journal: SqliteJournal,
    appends: list[Append],
    leaving: Callable[[], object] = lambda: None,
    leading: Append | None = None,
) -> tuple[list[Future[Answer]], Counter[str]]:
    """Let these stand in line while another append is being committed; `leaving` is done as that ends."""
    is_under_way, may_go_on = threading.Event(), threading.Event()

    def hold(nth: int) -> None:
        if nth == 1:
            is_under_way.set()
            may_go_on.wait(60)
            leaving()

    with ThreadPoolExecutor(len(appends) + 1) as pool, at("journal-anchored", hold) as passes:
        leader = pool.submit(leading or (lambda: say(journal, "leading")))
        assert is_under_way.wait(60)
        found = []
        for place, append in enumerate(appends, 1):
            found.append(pool.submit(append))
            while len(journal._line) < place:
                pass
        may_go_on.set()
        leader.result(20)
        for one in found:
            one.exception(20)
    return found, passes


def test_those_who_come_during_a_commit_share_the_next(journal: SqliteJournal) -> None:
    found, passes = in_one_group(journal, [lambda n=n: say(journal, f"t{n}") for n in range(20)])  # type: ignore[misc]
    assert [one.result()[0].seq for one in found] == list(range(3, 23))
    assert texts(journal) == ["first", "leading", *(f"t{n}" for n in range(20))]
    assert (passes["journal-committed"], passes["disk-sync"]) == (2, 2)


def test_what_needs_no_sync_has_none(journal: SqliteJournal) -> None:
    later: list[Append] = [lambda: say(journal, "a", durable=False), lambda: say(journal, "b", durable=False)]
    _, passes = in_one_group(journal, later)
    assert (passes["journal-committed"], passes["disk-sync"]) == (2, 1)
    assert "b" not in anchored(journal)
    say(journal, "c")
    assert anchored(journal) == ["first", "leading", "a", "b", "c"]


def anchored(journal: SqliteJournal) -> list[str]:
    known, _ = journal.anchor.read()
    return [text for seq, text in enumerate(texts(journal), 1) if seq in known]


def test_each_has_an_answer_or_an_error_of_its_own(journal: SqliteJournal) -> None:
    known = say(journal, "known", key="k")
    wrong: Any = 7
    found, passes = in_one_group(
        journal,
        [
            lambda: say(journal, "good"),
            lambda: say(journal, "moved", expect=1),
            lambda: say(journal, "fenced", fences=[99]),
            lambda: say(journal, "known", key="k"),
            lambda: say(journal, "other", key="k"),
            lambda: say(journal, wrong),
            lambda: say(journal, "new", key="n"),
            lambda: say(journal, "new", key="n"),
            lambda: say(journal, "sees it", expect=5),
        ],
    )
    errors = [type(one.exception()) for one in found]
    none = type(None)
    assert errors == [none, JournalMoved, LeaseLost, none, UsageError, UsageError, none, none, none]
    assert found[3].result() == known
    assert found[6].result() == found[7].result()
    assert texts(journal) == ["first", "known", "leading", "good", "new", "sees it"]
    assert passes["journal-committed"] == 2


def test_one_that_cannot_be_written_is_alone_with_it(journal: SqliteJournal) -> None:
    """Not found before it is written: the outbox cannot follow it."""
    odd = IntentsReleased(("nonsense",))
    found, _ = in_one_group(
        journal,
        [
            lambda: say(journal, "before"),
            lambda: journal.append([odd], stream=ids.WORKSPACE),
            lambda: say(journal, "behind"),
        ],
    )
    assert [type(one.exception()) for one in found] == [type(None), UsageError, type(None)]
    assert texts(journal) == ["first", "leading", "before", "behind"]


@pytest.mark.parametrize("point", ["journal-inside", "journal-committed", "disk-sync", "journal-anchored"])
def test_an_interrupt_is_for_one_thread_alone(point: str, journal: SqliteJournal) -> None:
    appends: list[Append] = [lambda n=n: say(journal, f"t{n}") for n in range(6)]  # type: ignore[misc]

    def interrupt(name: str) -> None:
        if name == point:
            crash_points.set_hook(None)
            raise KeyboardInterrupt

    found, _ = in_one_group(journal, appends, leaving=lambda: crash_points.set_hook(interrupt))
    assert [type(one.exception()) for one in found] == [KeyboardInterrupt] + [type(None)] * 5
    said = [text for text in texts(journal) if text.startswith("t")]
    # The one that was interrupted may be there, or not; nothing is there twice, and what was answered is.
    assert [text for text in said if text != "t0"] == [f"t{n}" for n in range(1, 6)]
    assert said.count("t0") == (0 if point == "journal-inside" else 1)


def test_a_sync_that_fails_is_told_to_all_of_its_group(journal: SqliteJournal) -> None:
    def fail(name: str) -> None:
        if name == "disk-sync":
            crash_points.set_hook(None)
            raise OSError(5, "Input/output error")

    appends: list[Append] = [lambda n=n: say(journal, f"t{n}", key=f"k{n}") for n in range(4)]  # type: ignore[misc]
    found, _ = in_one_group(journal, appends, leaving=lambda: crash_points.set_hook(fail))
    assert [type(one.exception()) for one in found] == [BackendError] * 4
    assert [append()[0].seq for append in appends] == [3, 4, 5, 6], "there, and durable now"
    assert texts(journal) == ["first", "leading", "t0", "t1", "t2", "t3"]


def test_whoever_has_the_connection_does_not_wait_for_who_waits_for_it(journal: SqliteJournal) -> None:
    """As a signal handler would that comes while its thread reads."""
    with ThreadPoolExecutor(1) as pool:

        def reading(_: object) -> Future[object]:
            other: Future[object] = pool.submit(say, journal, "other")
            while not len(journal._line) and not other.done():
                pass
            say(journal, "handler")
            return other

        journal.ask(reading).result(20)
    assert texts(journal) == ["first", "handler", "other"]


def test_the_ledger_keeps_nobody_from_sharing_a_commit(journal: SqliteJournal) -> None:
    """It applies what was appended in the order of the journal, whoever comes back first."""
    ledger = Ledger(journal)
    ledger.refresh()

    def append(text: str) -> Append:
        return lambda: ledger.append([CheckpointTaken(text)], ids.WORKSPACE)

    found, passes = in_one_group(journal, [append(f"t{n}") for n in range(8)], leading=append("leading"))
    assert passes["journal-committed"] == 2
    assert ledger.history.seq == journal.head().count == 10
    assert list(ledger.history.checkpoints) == [f"c{seq}" for seq in range(1, 11)]
    assert not ledger.history.breaches
    assert [one.result()[0].seq for one in found] == list(range(3, 11))


@contextmanager
def interrupted(nth: int) -> Iterator[list[str]]:
    """A signal comes before the nth line that this thread runs in one of these files; tells where that was."""
    files = (group_commit.__file__, session.__file__)
    places: list[str] = []
    count = itertools.count(1)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and next(count) == nth:
            places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield places
    finally:
        sys.settrace(before)


def test_an_interrupt_anywhere_lets_everybody_go_on(journal: SqliteJournal) -> None:
    """Also one that comes while its thread is about to lead, or to hand the lead on."""
    for nth in itertools.count(1):
        with suppress(KeyboardInterrupt), interrupted(nth) as places:
            say(journal, f"interrupted {nth}")
        if not places:
            break
        others = [threading.Thread(target=say, args=(journal, f"{nth} {n}"), daemon=True) for n in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join(60)
        assert not any(other.is_alive() for other in others), places
        say(journal, f"{nth} here")
    assert nth > 10
    found = texts(journal)
    wanted = {f"{one} {who}" for one in range(1, nth) for who in ("0", "1", "here")}
    assert wanted <= set(found) and len(found) == len(set(found))
