"""The contract of `Journal.compaction`, as a test suite that any implementation can run.

class TestMyCompaction(CompactionContract):
    def open(self, where: Path) -> Journal:
        return MyJournal(where / "journal")
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from takeback.core import compaction, folds, ids
from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.history import History
from takeback.core.record import Record
from takeback.errors import UsageError
from takeback.ports.journal import Journal
from takeback.testing import big, crash
from takeback.testing.of_journal import OfJournal

PLANNED_US = 1_790_000_000_000_000
BIG = 1500
"""So many changes make a record that others are stored against."""
ACTIONS = 300
"""So many make more than one block, and more than one transaction."""


class CompactionContract(OfJournal):
    """Subclass it, with a name that pytest collects."""

    def test_what_is_left_has_its_number_its_time_its_digest_and_its_links(self, journal: Journal) -> None:
        before = fill(journal)
        compacted(journal, [1, *range(3, 400)])
        after = list(journal.read())
        assert [identity(record) for record in after[: len(before)]] == [
            identity(record) for record in before
        ]
        for old, new in zip(before, after, strict=False):
            is_named = old.seq in (1, *range(3, 400))
            assert new.compacted_us == (PLANNED_US if is_named else 0)
            assert new.event == (compaction.reduced(old.event) if is_named else old.event)
            assert journal.get(new.seq) == new and journal.pick([new.seq]) == [new]
        assert History.of(after).breaches == []
        assert [type(record.event) for record in after[len(before) :]] == [
            e.CompactionBegan,
            e.CompactionEnded,
        ]

    def test_the_journal_goes_on(self, journal: Journal) -> None:
        fill(journal)
        compacted(journal, range(1, 200))
        journal.append([e.RunBegan("after")], stream="")
        journal.append([e.CheckpointTaken("one")], stream=ids.WORKSPACE)
        compacted(journal, range(200, 500))
        assert len(journal.compaction.began()) == 2
        assert History.of(journal.read()).breaches == []
        assert list(journal.check()) == [] and list(journal.check(since=100)) == []

    def test_what_is_foreseen_comes_true(self, journal: Journal) -> None:
        fill(journal)
        ranges = compaction.ranges_of(range(1, 301))
        foreseen = journal.compaction.foresee(ranges, PLANNED_US)
        assert foreseen.records == 300 and 0 < foreseen.bytes_after < foreseen.bytes_before
        compacted(journal, range(1, 301))
        again = journal.compaction.foresee(ranges, PLANNED_US)
        assert (again.bytes_before, again.freed) == (foreseen.bytes_after, 0)
        assert again.digests == foreseen.digests

    def test_a_key_is_still_known_and_means_one_thing(self, journal: Journal) -> None:
        events: list[e.Event] = [e.ActionBegan("tool", e.Effect.NONE, arguments={"args": [1]}), changed(7)]
        first = journal.append(events, stream=ids.WORKSPACE, key="k")
        compacted(journal, range(1, 3))
        found = journal.append(events, stream=ids.WORKSPACE, key="k")
        assert [identity(record) for record in found] == [identity(record) for record in first]
        for other in ([events[0]], [*events, events[0]], [e.ActionBegan("other", e.Effect.NONE), events[1]]):
            with pytest.raises(UsageError, match="something else"):
                journal.append(other, stream=ids.WORKSPACE, key="k")

    @pytest.mark.parametrize("point", ["compaction-began", "compaction-replaced", "compaction-ending"])
    def test_cut_short_it_is_sound_and_goes_on(self, journal: Journal, point: str) -> None:
        before = fill(journal)
        with crash.at(point, _fail), pytest.raises(_CutShort):
            compacted(journal, range(1, 600))
        assert list(journal.check()) == []
        assert [identity(r) for r in journal.read()][: len(before)] == [identity(r) for r in before]
        assert History.of(journal.read()).breaches == []
        (began,) = journal.compaction.began()
        assert History.of(journal.read()).compacting == began.seq
        journal.compaction.carry_out(began)
        assert History.of(journal.read()).compacting == 0
        assert all(record.compacted_us for record in journal.pick(range(1, 600)))
        journal.compaction.carry_out(began)  # another process may have been at it, too
        assert History.of(journal.read()).breaches == []

    def test_others_append_and_read_meanwhile(self, journal: Journal) -> None:
        before, errors, stop = fill(journal), list[Exception](), threading.Event()

        def go_on() -> None:
            try:
                while not stop.is_set():
                    journal.append([changed(1)], stream=ids.WORKSPACE)
                    assert [r.digest for r in journal.pick([1, 300])] == [
                        before[0].digest,
                        before[299].digest,
                    ]
            except Exception as error:  # noqa: BLE001  for the other thread
                errors.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        compacted(journal, range(1, 601))
        stop.set()
        thread.join()
        assert errors == []

    @pytest.mark.parametrize("gone", [[3], [3, 4], [4], [3, 4, 5]])
    def test_what_is_stored_against_a_big_record_stays_readable(
        self, journal: Journal, gone: list[int]
    ) -> None:
        big.sweep(journal, BIG)  # the undo is like the action, and its end is like its beginning
        before = list(journal.read())
        compacted(journal, gone)
        after = list(journal.read())
        for old, new in zip(before, after, strict=False):
            assert (new.event == old.event) == (old.seq not in gone)
        big.sweep(journal, BIG)
        later = list(journal.read())[len(after) :]
        assert [len(folds.changes_of(record)) for record in later] == [0, 0, BIG, 0, BIG]
        assert journal.compaction.release() == ""

    def test_it_moves_to_another_store(self, journal: Journal, tmp_path: Path) -> None:
        fill(journal)
        compacted(journal, range(1, 400))
        (tmp_path / "other").mkdir()
        other = self.open(tmp_path / "other")
        other.moving.shut("comes from elsewhere")
        other.moving.adopt(list(journal.moving.rows()))
        other.moving.reopen()
        assert list(other.read()) == list(journal.read())
        assert list(other.check()) == []
        other.close()


class _CutShort(Exception):
    pass


def _fail() -> None:
    raise _CutShort


def changed(n: int) -> e.Event:
    change = Change(Target("files", f"f{n}"), ABSENT, Version(f"b3:{n}", "stamp", ["f", 420, n]))
    return e.DriftSeen((change,), (e.Mark("files", f"b3:{n}", "scan"), e.Mark("git", "none")))


def fill(journal: Journal) -> list[Record]:
    """Write a history of more than one block."""
    for n in range(ACTIONS):
        journal.append(
            [e.ActionBegan(f"tool {n}", e.Effect.RESTORABLE, arguments={"args": ["x" * 100]}), changed(n)],
            stream=ids.WORKSPACE,
        )
    return list(journal.read())


def compacted(journal: Journal, seqs: object) -> None:
    """Compact these records, whatever they are about."""
    ranges = compaction.ranges_of(seqs)  # type: ignore[arg-type]
    foreseen = journal.compaction.foresee(ranges, PLANNED_US)
    event = e.CompactionBegan(ranges[-1][1], ranges, foreseen.digests, PLANNED_US, "ann")
    journal.compaction.carry_out(journal.compaction.begin(event))


def identity(record: Record) -> tuple[object, ...]:
    one = record.envelope
    return one.v, one.seq, one.stream, one.n, one.prev, one.at_us, one.key, record.digest, type(one.event)
