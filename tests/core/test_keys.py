"""Keys of calls."""

from __future__ import annotations

import tracemalloc
from hashlib import blake2b

from takeback.core import keys


def test_calls_of_one_step_that_are_to_do_the_same_are_alike() -> None:
    assert keys.alike("book", "mail", {"to": "a"}) == keys.alike("book", "mail", {"to": "a"})
    for other in (("pay", "mail", {"to": "a"}), ("book", "call", {"to": "a"}), ("book", "mail", {"to": "b"})):
        assert keys.alike("book", "mail", {"to": "a"}) != keys.alike(*other)


def test_a_key_stays_what_it_was() -> None:
    """The keys are in journals and with providers: another one would be another call."""
    assert keys.action_key("book", 2, "mail", {"to": "a"}) == "b7b0b1d90d72f256912d63a1ee709431"
    assert keys.intent_key("mail", {"to": "a"}) == "92f9c2ad39f22e3818e8a0c1bcdf5cc9"
    assert keys.call_key("w", "r1", 1, "a2", 3) == "83ecba98527ce5fd5fa4d60599aaf40a"


def test_what_is_asked_of_a_model_is_without_what_differs_by_attempt() -> None:
    first = {"role": "user", "content": "hi", "created_at": 1, "usage": {"tokens": 3}}
    again = {
        "role": "user",
        "content": "hi",
        "created_at": 2,
        "run_id": "x",
        "name": "",
        "tools": [],
        "meta": {},
    }
    assert keys.asked({"messages": [first]}) == keys.asked({"messages": [again]})
    assert keys.asked([again]) == [{"role": "user", "content": "hi"}]
    assert keys.asked({"n": 0, "stream": False, "stop": None}) == {"n": 0, "stream": False}
    assert keys.asked("hi") == "hi" and keys.asked({"content": {"deep": [{"id": 1, "latency": 5}]}}) == {
        "content": {"deep": [{"id": 1}]}
    }


def test_arguments_of_a_tool_are_the_same_as_json_however_they_are_written() -> None:
    for written in ('{"a": [1, ""]}', ' {"a":[1,""]}', {"a": [1, ""]}):
        assert keys.asked({"arguments": written}) == {"arguments": {"a": [1, ""]}}
    assert keys.asked({"args": "[1]", "input": "{}"}) == {"args": [1]}
    kept = {"arguments": "{not json", "input": "12", "content": '{"a": 1}', "args": 5}
    assert keys.asked(kept) == kept


def test_very_many_things_are_counted_each_for_itself() -> None:
    counted = keys.CountTable()
    things = [f"call {number % 700}".encode() for number in range(3000)]
    found = [counted.add(thing) for thing in things]
    assert found == [1 + things[:at].count(thing) for at, thing in enumerate(things)]


def test_a_table_of_counts_doubles_only_when_more_than_seven_eighths_of_it_are_in_use() -> None:
    def held() -> int:
        # By the table alone: other threads of the process allocate too.
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, keys.__file__)])
        return sum(trace.size for trace in ours.traces)

    slots = 1 << 14
    tracemalloc.start()
    try:
        counted = keys.CountTable()
        for number in range(slots // 8 * 7 + 1):
            counted.add(b"%d" % number)
        small = held()
        counted.add(b"one more")
        large = held()
    finally:
        tracemalloc.stop()
    assert 12 * slots <= small < 13 * slots and 24 * slots <= large < 26 * slots


def test_things_that_begin_at_every_other_slot_take_the_ones_between() -> None:
    things = [b"%d" % number for number in range(200)]
    even = [thing for thing in things if not blake2b(thing, digest_size=8).digest()[-1] & 1]
    counted = keys.CountTable()
    assert len(even) > 64 and {counted.add(thing) for thing in even[:50]} == {1}
