"""Messages to a webhook: each wanted event in one of them, and where each begins the one before it ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from takeback.core import events as e
from takeback.core.event_feed import MOST, Message, message
from takeback.core.record import Record
from tests.core.story import Story

BEGAN, TAKEN = "run-began", "checkpoint-taken"


def told(kinds: list[bool]) -> list[Record]:
    """Records of runs that began, and of checkpoints."""
    story = Story()
    return [
        story.tell(e.RunBegan("x"), stream="") if kind else story.tell(e.CheckpointTaken()) for kind in kinds
    ]


def seqs(found: Message) -> list[int]:
    return [line["seq"] for line in found.events]


def test_only_what_is_wanted_is_in_it_but_it_tells_how_far_it_looked() -> None:
    records = told([True, False, True, False])
    assert seqs(message(records, 0, ())) == [1, 2, 3, 4]
    found = message(records[1:], 1, {BEGAN})
    assert (found.after, found.through, seqs(found)) == (1, 4, [3])


def test_nothing_new() -> None:
    assert message([], 7, ()) == Message(7, 7, ())
    assert message(told([False]), 0, {BEGAN}) == Message(0, 1, ())


def test_it_ends_with_the_last_event_that_fits() -> None:
    records = told([True] * MOST + [False, True])
    found = message(records, 0, {BEGAN})
    assert (found.through, len(found.events)) == (MOST, MOST) == (100, 100)


def test_one_that_was_attempted_is_the_same_although_more_has_come() -> None:
    records = told([True, False, True, True])
    first = message(records[:2], 0, ())
    again = message(records, 0, (), first.through)
    assert again == first
    assert again.payload("here") == first.payload("here")
    assert message(records, 0, ()) != first


def test_one_that_was_attempted_ends_where_it_did_although_more_kinds_are_wanted_now() -> None:
    found = message(told([True] * (MOST + 3)), 0, (), MOST + 2)
    assert (found.through, len(found.events)) == (MOST + 2, MOST + 2)


@given(st.lists(st.booleans(), max_size=30), st.sets(st.sampled_from([BEGAN, TAKEN])), st.data())
def test_whatever_the_attempts_no_event_is_left_out_or_told_twice(
    kinds: list[bool], types: set[str], data: st.DataObject
) -> None:
    records, after, heard = told(kinds), 0, []
    while after < len(records):
        there = data.draw(st.integers(after + 1, len(records)))
        found = message(records[after:there], after, types)
        assert message(records[after:], after, types, found.through) == found
        assert found.after == after < found.through
        heard += seqs(found)
        after = found.through
    wanted = [BEGAN if kind else TAKEN for kind in kinds]
    assert heard == [n for n, kind in enumerate(wanted, 1) if not types or kind in types]


def test_the_body() -> None:
    found = message(told([True, False]), 0, ())
    body = found.payload("urn:here")
    assert body["type"] == "io.takeback.events"
    assert body["timestamp"] == "1970-01-01T00:00:00.000002Z"
    assert body["data"] == {"source": "urn:here", "after": 0, "through": 2, "events": list(found.events)}


def test_the_id_is_of_the_place_where_it_begins_and_of_who_hears_it() -> None:
    records = told([True, False])
    one = message(records, 0, ())
    assert one.key("here", "hook") == message(records, 0, {BEGAN}).key("here", "hook")
    keys = {one.key("here", "hook"), one.key("here", "other"), one.key("there", "hook")}
    assert len(keys | {message(records[1:], 1, ()).key("here", "hook")}) == 4
    assert all(key.startswith("msg_") and len(key) == 36 for key in keys)
