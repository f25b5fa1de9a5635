"""The contract of the `Journal` port, as a test suite that any implementation can run.

Say how to open yours, and pytest does the rest:

    class TestMyJournal(DurableJournalContract):
        def open(self, where: Path) -> Journal:
            return MyJournal(where / "journal")

`open` is called again with the same folder to see what is still there, and from several processes at once,
which load the file of the subclass by itself. A journal that ends with its object takes `JournalContract`.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken, Event, RunBegan, StepBegan
from takeback.core.record import Record, seal
from takeback.errors import JournalMoved, UsageError
from takeback.ports.journal import Head, Journal
from takeback.testing import big
from takeback.testing.crash import child_environment
from takeback.testing.of_journal import OfJournal

T = TypeVar("T")

WRITERS = 6
EACH = 20
PROCESSES = 3
BIG = 1500
"""So many changes make a record that a journal may want to keep in another form."""


class JournalContract(OfJournal):
    """Subclass it, with a name that pytest collects."""

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        """Not looked at afterwards: tests here close it, too."""
        journal = self.open(tmp_path)
        yield journal
        journal.close()

    # Append

    def test_an_event_comes_back_as_it_was_written(self, journal: Journal) -> None:
        event = RunBegan("tidy", key="k", actor="ann", command=("make", "tidy"))
        (record,) = journal.append([event], stream="")
        assert record.event == event
        assert record.at_us > 0
        assert list(journal.read()) == [record]
        assert journal.get(record.seq) == record

    def test_a_run_is_named_after_its_own_first_event(self, journal: Journal) -> None:
        journal.append([step(1), step(2)], stream=ids.WORKSPACE)
        first, second = journal.append([RunBegan("run"), step(3)], stream="")
        assert (first.seq, first.stream, first.id) == (3, "r3", "r3")
        assert (second.seq, second.stream) == (4, "r3")

    def test_a_stream_without_a_name_begins_with_a_run(self, journal: Journal) -> None:
        with pytest.raises(UsageError):
            journal.append([step(1)], stream="")
        with pytest.raises(UsageError):
            journal.append([], stream="")
        assert journal.head() == Head(0, "")

    def test_the_sequence_has_no_gaps_and_each_stream_is_a_chain(self, journal: Journal) -> None:
        fill(journal, 60)
        assert_sound(journal, 60)

    def test_a_batch_is_written_all_or_none(self, journal: Journal) -> None:
        journal.append([RunBegan("run")], stream="")
        before = journal.head()
        wrong: list[Any] = [7, object(), "\ud800", {1: 2}]
        for message in wrong:
            batch: list[Event] = [step(1), CheckpointTaken(message), step(2)]
            with pytest.raises(UsageError):
                journal.append(batch, stream="r1")
        assert journal.head() == before
        assert_sound(journal, 1)

    def test_whoever_decided_on_an_old_view_is_refused(self, journal: Journal) -> None:
        journal.append([RunBegan("run"), step(1)], stream="", expect=0)
        journal.append([step(2)], stream="r1", expect=2)
        for stale in (0, 2, 4):
            with pytest.raises(JournalMoved):
                journal.append([step(3)], stream="r1", expect=stale)
        assert journal.head().count == 3
        journal.append([step(3)], stream="r1", expect=3)

    def test_what_other_streams_did_is_no_old_view(self, journal: Journal) -> None:
        journal.append([RunBegan("run")], stream="")
        journal.append([step(1)], stream=ids.WORKSPACE)
        journal.append([step(2)], stream="r1", expect=1)
        journal.append([step(3)], stream=ids.WORKSPACE, expect=1)
        assert_sound(journal, 4)

    # Keys

    def test_a_key_writes_once(self, journal: Journal) -> None:
        events: list[Event] = [RunBegan("run"), step(1)]
        first = journal.append(events, stream="", key="k")
        assert journal.append(events, stream="", key="k") == first
        assert journal.append(events, stream="", expect=0, key="k") == first
        assert [record.envelope.key for record in first] == ["k", "k"]
        assert_sound(journal, 2)

    def test_a_used_key_answers_even_where_the_view_is_old(self, journal: Journal) -> None:
        journal.append([RunBegan("run")], stream="")
        first = journal.append([step(1)], stream="r1", expect=1, key="k")
        journal.append([step(2)], stream="r1")
        assert journal.append([step(1)], stream="r1", expect=1, key="k") == first

    def test_a_key_means_one_thing(self, journal: Journal) -> None:
        journal.append([RunBegan("run")], stream="")
        journal.append([step(1), step(2)], stream="r1", key="k")
        others: list[tuple[list[Event], str]] = [
            ([step(1)], "r1"),
            ([step(1), step(3)], "r1"),
            ([step(1), step(2), step(3)], "r1"),
            ([step(1), step(2)], ids.WORKSPACE),
            ([RunBegan("other")], ""),
        ]
        for events, stream in others:
            with pytest.raises(UsageError, match="something else"):
                journal.append(events, stream=stream, key="k")
        assert_sound(journal, 3)

    def test_a_failed_append_does_not_use_its_key_up(self, journal: Journal) -> None:
        with pytest.raises(JournalMoved):
            journal.append([RunBegan("run")], stream="", expect=5, key="k")
        assert journal.find("k") == ()
        journal.append([RunBegan("run")], stream="", expect=0, key="k")

    def test_find_gives_what_a_key_wrote(self, journal: Journal) -> None:
        plain = journal.append([RunBegan("run")], stream="")
        keyed = journal.append([step(1), step(2)], stream="r1", key="k")
        assert journal.find("k") == keyed
        assert journal.find("other") == journal.find("") == ()
        assert plain[0].envelope.key == ""

    # Reading

    def test_read_gives_what_comes_after(self, journal: Journal) -> None:
        fill(journal, 30)
        everything = list(journal.read())
        for after in (-1, 0, 1, 15, 29, 30, 99):
            assert list(journal.read(after=after)) == everything[max(0, after) :]

    def test_read_gives_one_stream(self, journal: Journal) -> None:
        fill(journal, 40)
        everything = list(journal.read())
        for stream in {record.stream for record in everything}:
            for after in (0, 7, 20, 40):
                expected = [r for r in everything if r.stream == stream and r.seq > after]
                assert list(journal.read(after=after, stream=stream)) == expected
        assert list(journal.read(stream="r999")) == []

    def test_read_gives_what_stood_when_it_was_called(self, journal: Journal) -> None:
        journal.append([RunBegan("run"), step(1)], stream="")
        everything, one_stream = journal.read(), journal.read(stream="r1")
        journal.append([step(2)], stream="r1")
        assert [record.seq for record in everything] == [1, 2]
        assert [record.seq for record in one_stream] == [1, 2]

    def test_a_reader_may_append_while_it_reads(self, journal: Journal) -> None:
        fill(journal, 10)
        for record in journal.read():
            journal.append([step(record.seq)], stream=ids.WORKSPACE)
        assert_sound(journal, 20)

    def test_get_gives_one_record_or_none(self, journal: Journal) -> None:
        fill(journal, 5)
        assert [journal.get(record.seq) for record in journal.read()] == list(journal.read())
        assert [journal.get(seq) for seq in (-1, 0, 6)] == [None, None, None]
        third, first = list(journal.read())[2], next(iter(journal.read()))
        assert journal.pick([3, 1, 3, -1, 0, 6, 2**70]) == [first, third] and journal.pick([]) == []

    def test_head_is_the_end(self, journal: Journal) -> None:
        assert journal.head() == journal.head("r1") == Head(0, "")
        fill(journal, 25)
        everything = list(journal.read())
        assert journal.head() == Head(25, everything[-1].digest)
        for stream in {record.stream for record in everything}:
            own = [record for record in everything if record.stream == stream]
            assert journal.head(stream) == Head(len(own), own[-1].digest)

    def test_check_finds_nothing_where_nothing_is_wrong(self, journal: Journal) -> None:
        assert list(journal.check()) == []
        fill(journal, 25)
        assert list(journal.check()) == []

    def test_what_comes_after_a_record_is_checked_by_itself(self, journal: Journal) -> None:
        fill(journal, 40)
        for since in (1, 20, 39, 40):
            seen: list[object] = []

            def shown(_: str, items: Iterable[T], total: int, seen: list[object] = seen) -> Iterator[T]:
                seen.append(total)
                for item in items:
                    seen.append(item)
                    yield item

            assert list(journal.check(since=since, progress=shown)) == []
            assert seen[0] == len(seen) - 1 == 40 - since

    def test_sync_and_close_may_come_twice(self, journal: Journal) -> None:
        journal.sync()
        fill(journal, 3)
        journal.sync()
        journal.sync()
        journal.close()
        journal.close()

    # Records of many changes

    def test_big_records_come_back_as_they_were_written(self, journal: Journal) -> None:
        fill(journal, 5)
        records = big.sweep(journal, BIG)
        fill(journal, 20)
        by_seq = {record.seq: record for record in journal.read()}
        assert [by_seq[record.seq] for record in records] == records
        assert [journal.get(record.seq) for record in reversed(records)] == records[::-1]
        assert list(journal.find(records[1].envelope.key)) == [records[1]]
        assert next(iter(journal.read(after=records[1].seq, stream=ids.WORKSPACE))) == records[2]
        assert_sound(journal, 20)

    def test_a_key_writes_a_big_record_once(self, journal: Journal) -> None:
        events: list[Event] = [CheckpointTaken("small"), big.ended("a1", big.changes(BIG))]
        first = journal.append(events, stream=ids.WORKSPACE, key="k")
        assert journal.append(events, stream=ids.WORKSPACE, key="k") == first
        assert_sound(journal, 2)

    def test_threads_append_big_records_at_once(self, journal: Journal) -> None:
        together(lambda writer: big.sweep(journal, BIG // 2, f"t{writer}"))
        assert_sound(journal, 5 * WRITERS)

    # Many at once

    def test_threads_append_at_once(self, journal: Journal) -> None:
        together(lambda writer: append_own(journal, f"t{writer}"))
        assert_each_once(journal, [f"t{writer}" for writer in range(WRITERS)])

    def test_of_threads_that_expect_the_same_one_wins(self, journal: Journal) -> None:
        journal.append([RunBegan("run")], stream="")
        won: list[int] = []

        def race(writer: int) -> None:
            for turn in range(EACH):
                try:
                    journal.append([step(writer)], stream="r1", expect=turn + 1)
                    won.append(turn)
                except JournalMoved:
                    pass

        together(race)
        assert sorted(won) == sorted(set(won))
        assert_sound(journal, len(won) + 1)

    def test_threads_with_one_key_write_once(self, journal: Journal) -> None:
        answers: list[tuple[Record, ...]] = []
        together(lambda _: answers.append(journal.append([RunBegan("run"), step(1)], stream="", key="k")))
        assert len(answers) == WRITERS
        assert all(answer == answers[0] for answer in answers)
        assert_sound(journal, 2)

    def test_threads_read_while_others_append(self, journal: Journal) -> None:
        def work(writer: int) -> None:
            if writer % 2:
                append_own(journal, f"t{writer}")
            for _ in range(5):
                seen = [record.seq for record in journal.read()]
                assert seen == list(range(1, len(seen) + 1))

        together(work)


class DurableJournalContract(JournalContract):
    """For a journal that outlives its object and is shared by processes: all of that, and this."""

    def test_what_was_appended_is_there_again(self, tmp_path: Path) -> None:
        journal = self.open(tmp_path)
        fill(journal, 20)
        keyed = journal.append([step(1)], stream=ids.WORKSPACE, key="k")
        before = list(journal.read())
        journal.close()
        again = self.open(tmp_path)
        assert list(again.read()) == before
        assert again.append([step(1)], stream=ids.WORKSPACE, key="k") == keyed
        again.append([step(2)], stream=ids.WORKSPACE)
        assert_sound(again, 22)
        again.close()

    def test_big_records_are_there_again(self, tmp_path: Path) -> None:
        journal = self.open(tmp_path)
        records = big.sweep(journal, BIG)
        journal.close()
        again = self.open(tmp_path)
        assert [again.get(record.seq) for record in records] == records
        more = big.sweep(again, BIG)  # which repeats what another process wrote
        assert [again.get(record.seq) for record in more] == more
        assert_sound(again, 10)
        again.close()

    def test_two_views_of_one_journal_agree(self, tmp_path: Path) -> None:
        one, two = self.open(tmp_path), self.open(tmp_path)
        one.append([RunBegan("run")], stream="", expect=0)
        two.append([step(1)], stream="r1", expect=1)
        with pytest.raises(JournalMoved):
            one.append([step(2)], stream="r1", expect=1)
        one.close()
        two.append([step(2)], stream="r1", expect=2)
        assert_sound(two, 3)
        two.close()

    def test_processes_append_at_once(self, tmp_path: Path) -> None:
        names = [f"p{number}" for number in range(PROCESSES)]
        place = f"{inspect.getfile(type(self))}:{type(self).__qualname__}"
        command = [sys.executable, "-m", "takeback.testing.journal_contract", place, str(tmp_path)]
        children = [
            subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True, env=child_environment())
            for name in names
        ]
        for child in children:
            _, said = child.communicate(timeout=60)
            assert child.returncode == 0, said
        journal = self.open(tmp_path)
        assert_each_once(journal, names)
        journal.close()


# What the tests are made of


def step(number: int) -> StepBegan:
    return StepBegan(f"step {number}")


def fill(journal: Journal, count: int) -> None:
    """Append this many events to several streams, in batches of one to three."""
    runs = [ids.WORKSPACE]
    while (left := count - journal.head().count) > 0:
        turn = journal.head().count
        if turn % 5 == 0:
            runs.append(journal.append([RunBegan(f"run {turn}")], stream="")[0].stream)
        else:
            batch = [step(turn + place) for place in range(min(left, turn % 3 + 1))]
            journal.append(batch, stream=runs[turn % len(runs)])


def append_own(journal: Journal, name: str) -> None:
    """What one of several writers does: a run of its own, and a part in the workspace's stream."""
    (began,) = journal.append([RunBegan(name)], stream="", key=name)
    for turn in range(EACH):
        journal.append([StepBegan(f"{name} own {turn}")], stream=began.stream, expect=turn + 1)
        journal.append([StepBegan(f"{name} shared {turn}")], stream=ids.WORKSPACE)


def assert_each_once(journal: Journal, names: list[str]) -> None:
    """Check that every writer's events are there once and in order, and nothing else."""
    steps = [record.event.name for record in journal.read() if isinstance(record.event, StepBegan)]
    for name in names:
        for kind in ("own", "shared"):
            prefix = f"{name} {kind} "
            mine = [step.removeprefix(prefix) for step in steps if step.startswith(prefix)]
            assert mine == [str(turn) for turn in range(EACH)]
    assert_sound(journal, len(names) * (1 + 2 * EACH))


def assert_sound(journal: Journal, count: int) -> None:
    """So many records, without a gap, each bound to the one before it in its stream."""
    ends: dict[str, Head] = {}
    records = list(journal.read())
    assert [record.seq for record in records] == list(range(1, count + 1))
    for record in records:
        end = ends.get(record.stream, Head(0, ""))
        assert (record.envelope.n, record.envelope.prev) == (end.count + 1, end.digest)
        assert record.digest == seal(record.envelope)[1]
        ends[record.stream] = Head(record.envelope.n, record.digest)
    assert list(journal.check()) == []


def together(work: Callable[[int], object]) -> None:
    """Let several threads do this at the same moment, and fail if one of them does."""
    start = threading.Barrier(WRITERS)

    def go(writer: int) -> None:
        start.wait()
        work(writer)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(go, range(WRITERS)))


def _main(place: str, where: str, name: str) -> None:
    """Be one of several processes: load the subclass from its file, and append."""
    file, _, qualified = place.rpartition(":")
    spec = util.spec_from_file_location("contract_under_test", file)
    assert spec and spec.loader
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Any = module
    for part in qualified.split("."):
        found = getattr(found, part)
    journal = cast(DurableJournalContract, found()).open(Path(where))
    append_own(journal, name)
    journal.close()


if __name__ == "__main__":
    _main(*sys.argv[1:])
