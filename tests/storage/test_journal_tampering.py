"""Whatever is done to a journal behind its back, `check` names the place, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.events import CheckpointTaken
from takeback.errors import CorruptionError
from takeback.storage.journal.batch import JournalRow, record_of
from takeback.storage.journal.verify import audit
from tests.storage import journal_tampering as t
from tests.storage.journal_tampering import COUNT, InMemorySubject, SqliteSubject, Subject, Tamper

CHANGED, REPLACED, MOVED, MISSING = "changed since", "replaced", "moved: written as", "missing"
LABELLED, UNREADABLE, CHAIN = "wrongly labelled", "cannot be read", "out of chain"

CASES: dict[str, tuple[Tamper, list[tuple[str, str]]]] = {
    "an edited event": (t.edit_body(40), [("event 40", CHANGED)]),
    "an edited event with its digest": (t.edit_and_digest(40), [("event 40", REPLACED)]),
    "neighbours edited": (
        lambda rows: t.edit_body(41)(t.edit_body(40)(rows)),
        [("events 40 to 41", CHANGED)],
    ),
    "the chain recomputed after an edit": (
        t.edit_and_rechain(41),
        [("event 41", REPLACED), ("after event 41", "29 more rewritten")],
    ),
    "the first event edited and all recomputed": (
        t.edit_and_rechain(2),
        [("event 2", REPLACED), ("after event 2", "24 more rewritten")],
    ),
    "an inserted event": (
        t.insert(51),
        [("event 51", REPLACED), ("events 52 to 101", f"{MOVED} events 51 to 100")],
    ),
    "an inserted event and all recomputed": (
        t.insert_and_rechain(97),
        [("event 97", REPLACED), ("event 99", REPLACED), ("after event 97", "2 more rewritten")],
    ),
    "two contents swapped": (
        t.swap_bodies(10, 20),
        [("event 10", f"{MOVED} event 20"), ("event 20", f"{MOVED} event 10")],
    ),
    "two rows swapped": (
        t.swap_rows(10, 13),
        [("event 10", f"{MOVED} event 13"), ("event 13", f"{MOVED} event 10")],
    ),
    "the first event deleted": (t.delete(1, 1), [("event 1", MISSING)]),
    "the first event deleted and closed up": (
        t.delete_and_renumber(1),
        [("events 1 to 99", f"{MOVED} events 2 to 100"), ("event 1", MISSING)],
    ),
    "some in the middle deleted": (t.delete(50, 54), [("events 50 to 54", MISSING)]),
    "one in the middle deleted and closed up": (
        t.delete_and_renumber(98),
        [("events 98 to 99", f"{MOVED} events 99 to 100"), ("event 98", MISSING)],
    ),
    "the last three cut off": (t.delete(98, 100), [("events 98 to 100", MISSING)]),
    "the whole log emptied": (t.delete(1, 100), [("events 1 to 100", MISSING)]),
    "content that is no event": (t.spoil(33), [("event 33", UNREADABLE)]),
    "another stream in the column": (t.relabel(33, stream="r2"), [("event 33", LABELLED)]),
    "another number in the column": (t.relabel(33, n=99), [("event 33", LABELLED)]),
    "another key in the column": (t.relabel(33, key="mine"), [("event 33", LABELLED)]),
    "another digest in the column": (t.relabel(33, digest="b3:" + "0" * 64), [("event 33", CHANGED)]),
}


@pytest.fixture(params=["memory", "sqlite"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return InMemorySubject() if request.param == "memory" else SqliteSubject(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_check_names_the_place(subject: Subject, case: str) -> None:
    change, expected = CASES[case]
    subject.tamper(change)
    journal = subject.open()
    found = list(journal.check())
    journal.close()
    assert [finding.place for finding in found] == [place for place, _ in expected]
    for finding, (_, what) in zip(found, expected, strict=True):
        assert what in finding.what


LATE = 35


@pytest.mark.parametrize("case", CASES)
def test_a_check_of_the_rest_names_the_same_place(subject: Subject, case: str) -> None:
    """Whatever was done after the record that an earlier check has read."""
    change, expected = CASES[case]
    subject.tamper(change)
    journal = subject.open()
    whole, rest = list(journal.check()), list(journal.check(since=LATE))
    journal.close()
    if all(finding.seq > LATE for finding in whole):
        assert rest == whole
    else:
        assert [place for place, _ in expected] != [] and len(rest) <= len(whole)


# What is right in itself can only be told by the anchor, which reading does not ask.
QUIET = ("with its digest", "recomputed", "cut off", "emptied")


@pytest.mark.parametrize("case", [case for case in CASES if not any(word in case for word in QUIET)])
def test_reading_stops_at_what_is_not_as_written(subject: Subject, case: str) -> None:
    subject.tamper(CASES[case][0])
    journal = subject.open()
    with pytest.raises(CorruptionError, match=r"event \d+"):
        list(journal.read())
    journal.close()


@pytest.mark.parametrize(
    "cut, said",
    [(98, "events 98 to 100 are missing"), (100, "event 100 is missing"), (1, "events 1 to 100 are missing")],
)
def test_nothing_is_appended_to_a_cut_journal(subject: Subject, cut: int, said: str) -> None:
    subject.tamper(t.delete(cut, COUNT))
    journal = subject.open()
    for _ in range(2):
        with pytest.raises(CorruptionError, match=said):
            journal.append([CheckpointTaken()], stream="w")
    assert [record.seq for record in journal.read()] == list(range(1, cut))
    journal.close()


def test_nothing_is_appended_where_the_last_events_were_replaced(tmp_path: Path) -> None:
    subject = SqliteSubject(tmp_path)
    subject.tamper(t.edit_and_rechain(90))
    journal = subject.open()
    with pytest.raises(CorruptionError, match="event 90 is not what was written"):
        journal.append([CheckpointTaken()], stream="w")
    journal.close()


def test_what_is_cut_off_behind_an_open_journal_is_noticed(tmp_path: Path) -> None:
    subject = SqliteSubject(tmp_path)
    journal = subject.open()
    journal.append([CheckpointTaken()], stream="w")
    subject.tamper(t.delete(99, 101))
    with pytest.raises(CorruptionError, match="events 99 to 101 are missing"):
        journal.append([CheckpointTaken()], stream="w")
    journal.close()


def test_without_an_anchor_the_chain_still_tells() -> None:
    subject = InMemorySubject()
    rows = subject.open().rows
    for change in (t.edit_body(40), t.edit_and_digest(41), t.delete(50, 50), t.insert(60), t.swap_rows(3, 4)):
        assert list(audit(change(rows), {}))
    (finding,) = audit(t.edit_and_digest(41)(rows), {})
    assert (finding.place, finding.what.partition(":")[0]) == ("event 43", CHAIN)


def test_a_row_that_is_there_twice_is_named() -> None:
    subject = InMemorySubject()
    subject.tamper(lambda rows: [*rows[:50], rows[49], *rows[50:]])
    (finding,) = subject.open().check()
    assert (finding.place, finding.what) == ("event 50", "stored twice")


ROWS = InMemorySubject().open().rows
ANCHORED = {row.seq: row.digest for row in ROWS}
ACTS: dict[str, Callable[[int, int], Tamper]] = {
    "delete": lambda one, two: t.delete(min(one, two), max(one, two)),
    "edit and digest": lambda one, _: t.edit_and_digest(one),
    "edit and rechain": lambda one, _: t.edit_and_rechain(one),
    "insert": lambda one, _: t.insert(one),
    "insert and rechain": lambda one, _: t.insert_and_rechain(one),
    "delete and renumber": lambda one, _: t.delete_and_renumber(one),
    "delete and rechain": lambda one, _: t.delete_and_rechain(one),
    "swap contents": t.swap_bodies,
    "swap rows": t.swap_rows,
}
places = st.integers(1, COUNT)


@given(st.sampled_from(sorted(ACTS)), st.lists(places, min_size=2, max_size=2, unique=True))
def test_any_single_act_gives_few_findings_that_begin_where_it_began(act: str, two_places: list[int]) -> None:
    rows = ACTS[act](*two_places)(ROWS)
    found = list(audit(rows, ANCHORED))
    assert 1 <= len(found) <= 5
    assert min(finding.seq for finding in found) == first_difference(rows)


@given(places, st.integers(0, 1 << 16), st.integers(1, 255))
def test_any_flipped_bits_are_found(seq: int, place: int, bits: int) -> None:
    body = bytearray(ROWS[seq - 1].body)
    body[place % len(body)] ^= bits
    rows = t.put(ROWS, ROWS[seq - 1]._replace(body=bytes(body)))
    found = list(audit(rows, ANCHORED))
    assert [finding.seq for finding in found] == [seq]
    with pytest.raises(CorruptionError, match=f"event {seq} "):
        record_of(rows[seq - 1])


def first_difference(rows: list[JournalRow]) -> int:
    return next(seq for seq in range(1, COUNT + 1) if len(rows) < seq or rows[seq - 1] != ROWS[seq - 1])
