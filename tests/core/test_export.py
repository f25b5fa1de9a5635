"""An event as others see it, and what exported lines say is still to be undone."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from takeback.core import events as e
from takeback.core import ids
from takeback.core import selection as select
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.export import ToUndo, as_cloudevent, as_line, undo_list
from takeback.core.intents import (
    IntentCancelled,
    IntentDeferred,
    IntentDelivered,
    IntentDied,
    IntentDropped,
    IntentRevived,
    IntentsReleased,
)
from takeback.core.memory import changes
from takeback.core.record import Envelope, Record
from takeback.core.redact import HIDDEN
from tests.core.story import Story

SECRET = "nobody's business"


def record(event: e.Event, *, seq: int = 7, stream: str = "r1", at_us: int = 1_000_001) -> Record:
    return Record(Envelope(v=1, seq=seq, stream=stream, n=1, prev="", at_us=at_us, event=event), "b3:x")


def test_a_line() -> None:
    assert as_line(record(e.RunEnded(e.Outcome.DONE))) == {
        "seq": 7,
        "at": "1970-01-01T00:00:01.000001Z",
        "stream": "r1",
        "id": None,
        "type": "run-ended",
        "digest": "b3:x",
        "event": {"type": "run-ended", "outcome": "done"},
    }
    assert as_line(record(e.CheckpointTaken("hi")))["id"] == "c7"


@given(st.integers(0, 4 * 10**15))
def test_a_time_keeps_its_microseconds_and_its_order(at_us: int) -> None:
    at, next_at = (as_line(record(e.RunResumed(), at_us=us))["at"] for us in (at_us, at_us + 1))
    found = datetime.fromisoformat(at)
    assert int(found.replace(microsecond=0).timestamp()) * 10**6 + found.microsecond == at_us
    assert at < next_at


def test_a_cloud_event_holds_the_line() -> None:
    began, ended = record(e.RunBegan("x")), record(e.RunEnded(e.Outcome.DONE), seq=10)
    first, second = as_cloudevent(began, "urn:here"), as_cloudevent(ended, "urn:here")
    assert first["data"] == as_line(began)
    assert (first["id"], first["source"], first["type"]) == ("7", "urn:here", "io.takeback.run-began")
    assert (first["subject"], second["subject"]) == ("r7", "r1")
    assert first["sequence"] < second["sequence"], "also as text"


def memory(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """All events that tell of a change of memory, as they are shown."""
    made = changes("r1", before, after)
    told: list[e.Event] = [
        e.ActionEnded("a2", e.Outcome.DONE, made),
        e.ChangesSeen("a2", made),
        e.RollbackBegan(e.RollbackKind.UNDO, ("a2",), made),
        e.RollbackEnded("a5", (), made),
    ]
    return [json.dumps(as_line(record(event))) for event in told]


def test_a_remembered_secret_is_hidden_wherever_its_change_is_told() -> None:
    for line in memory({"/api_token": f"{SECRET}, old"}, {"/api_token": f"{SECRET}, new"}):
        assert SECRET not in line and line.count(HIDDEN) == 2
    for line in memory({}, {"/credentials/value": SECRET}):
        assert SECRET not in line and line.count(HIDDEN) == 1


def test_nor_does_the_name_of_its_version_give_it_away() -> None:
    """A digest of something short can be guessed."""
    pins = [str(n) for n in range(8)]
    cases: list[tuple[Any, Any]] = [("1234", "5678"), (pins, [*pins, "8"])]
    for old, new in cases:
        before, after = {"/pin_token": old}, {"/pin_token": new}
        (change,) = changes("r1", before, after)
        for line in memory(before, after):
            assert change.before.id not in line and change.after.id not in line
    shown = as_line(record(e.ChangesSeen("a2", changes("r1", {}, {"/pin_token": "1234"})), seq=9))
    assert [(one.before, one.after) for one in undo_list([shown])] == [("", "hidden, of event 9")]


def test_what_is_remembered_under_an_ordinary_name_is_shown() -> None:
    before, after = {"/goal": "walk"}, {"/goal": {}, "/a~1b": ["run"]}
    made = changes("r1", before, after)
    for line in memory(before, after):
        assert HIDDEN not in line and "walk" in line and "run" in line
        assert all(change.before.id in line and change.after.id in line for change in made), "by its own name"


def test_other_resources_are_shown_as_they_are() -> None:
    change = Change(Target("files", "token.txt"), ABSENT, Version("f:1", data="0644"))
    shown = as_line(record(e.DriftSeen((change,))))["event"]["changes"]
    assert shown[0]["after"] == {"id": "f:1", "data": "0644"}


class Told(Story):
    """A story with its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def tell(self, event: e.Event, stream: str = ids.WORKSPACE) -> Record:
        made = super().tell(event, stream)
        self.lines.append(as_line(made))
        return made

    def left(self, run: str = "") -> list[tuple[str, str]]:
        return [(one.action, one.target) for one in undo_list(self.lines, run)]

    def undo(self, *actions: str, only: str = "") -> None:
        chosen = select.of_actions(self.history, actions, lambda target: only in ("", target.name))
        self.carry_out(self.plan(chosen), e.RollbackKind.UNDO)

    def redo(self) -> None:
        self.carry_out(self.plan(select.last_rollback(self.history)), e.RollbackKind.REDO)


def test_what_is_to_be_undone_is_the_log_read_backwards() -> None:
    story = Told()
    one, other = story.run(), story.run()
    first = story.act({"f": "1", "g": "1"}, one)
    second = story.act({"f": "2"}, other)
    story.act({"h": "1"})
    story.edit("g", "human", seen=True)
    assert story.left() == [(second, "f"), (first, "g"), (first, "f")], "of runs, and of nobody else"
    assert story.left(one) == [(first, "g"), (first, "f")]
    (found,) = undo_list(story.lines, other)
    assert (found.action, found.resource, found.before, found.after) == (second, "files", "1", "2")
    assert undo_list(story.lines, one)[0].before == "", "it was not there"


def test_what_was_taken_back_is_out_until_it_is_redone() -> None:
    story = Told()
    run = story.run()
    action = story.act({"f": "1", "g": "1"}, run)
    story.undo(action, only="g")
    assert story.left() == [(action, "f")]
    story.undo(action)
    assert story.left() == []
    story.redo()
    assert story.left() == [(action, "f")]
    story.redo()
    assert story.left() == [(action, "g"), (action, "f")]


def test_a_change_of_nothing_but_the_stamp_is_not_listed() -> None:
    touched = Change(Target("files", "f"), Version("f:1", stamp="1"), Version("f:1", stamp="2"))
    made = Change(Target("files", "g"), ABSENT, Version("f:2"))
    line = as_line(record(e.ActionEnded("a2", e.Outcome.DONE, (touched, made))))
    assert undo_list([line]) == [ToUndo(7, "a2", "files", "g", "", "f:2")]


def test_files_of_one_name_in_two_places_are_two() -> None:
    here, there = Target("files", "f"), Target("files", "f", "/elsewhere")
    made = tuple(Change(target, ABSENT, Version("f:1")) for target in (here, there))
    lines = [as_line(record(e.ActionEnded("a2", e.Outcome.DONE, made), seq=3))]
    assert [one.root for one in undo_list(lines)] == ["/elsewhere", ""]
    item = e.Item(here, e.Did.REMOVED, verified=True, settles=("a2",))
    lines.append(as_line(record(e.RollbackEnded("a4", (item,)), seq=5, stream=ids.WORKSPACE)))
    assert [one.root for one in undo_list(lines)] == ["/elsewhere"]


def test_what_happened_beside_the_actions_of_a_run_has_an_id_of_its_own() -> None:
    change = Change(Target("files", "f"), ABSENT, Version("f:1"))
    assert undo_list([as_line(record(e.DriftSeen((change,))))]) == [ToUndo(7, "a7", "files", "f", "", "f:1")]


def test_an_intent_is_listed_as_it_stands() -> None:
    deferred = IntentDeferred("http", "http", "k", "a1", "key", "POST example.org")
    lines = [as_line(record(deferred, seq=seq)) for seq in range(2, 8)]
    for event in (
        IntentsReleased(("i2", "i3", "i4", "i5", "i6", "i7")),
        IntentDelivered("i3", 1),
        IntentDied("i4", 1, "no"),
        IntentDied("i5", 1, "no"),
        IntentRevived("i5"),
        IntentCancelled("i6"),
        IntentDropped("i7"),
    ):
        lines.append(as_line(record(event, seq=len(lines) + 2, stream=ids.WORKSPACE)))
    listed = [(one.target, one.after) for one in undo_list(lines, "r1")]
    assert listed == [("i5", "pending"), ("i4", "dead"), ("i3", "delivered"), ("i2", "pending")]
    assert {(one.resource, one.action, one.before) for one in undo_list(lines)} == {("outbox", "a1", "")}
    kept = e.Item(Target("outbox", "i3"), e.Did.KEPT, verified=False, settles=("a1",))
    lines.append(as_line(record(e.RollbackEnded("a20", (kept,)), seq=21, stream=ids.WORKSPACE)))
    assert [one.target for one in undo_list(lines)] == ["i5", "i4", "i2"]


writes = st.dictionaries(st.sampled_from("fgh"), st.sampled_from(["", "1", "2"]), min_size=1)


@given(st.lists(writes | st.sampled_from(["undo", "redo"]), max_size=12))
def test_whoever_follows_the_list_is_back_at_the_beginning(moves: list[dict[str, str] | str]) -> None:
    story = Told()
    run = story.run()
    undone = 0
    for move in moves:
        if isinstance(move, dict):
            story.act(move, run)
            undone = 0
        elif move == "redo" and undone:
            story.redo()
            undone -= 1
        elif move == "undo" and (last := select.last_action(story.history)).actions:
            story.undo(*last.actions)
            undone += 1
    world = {target.name: version.id for target, version in story.world.items() if version}
    for one in undo_list(story.lines, run):
        assert world.get(one.target, "") == one.after
        world[one.target] = one.before
    assert not any(world.values())
