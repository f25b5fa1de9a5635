"""What a history has at hand, and what it reads again: no more than a question needs, and nothing twice."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from takeback.core import events as e
from takeback.core import ids, memory
from takeback.core.change import ABSENT, Change, Target
from takeback.core.intents import IntentDeferred, IntentsReleased, IntentState
from takeback.core.outbox_fold import AT_ONCE
from takeback.core.postings import Recalled, Topic, every, numbered, of_target
from takeback.core.seats import TREE
from tests.core.story import version
from tests.core.told import Told, change

F, G = Target("files", "f"), Target("files", "g")

# Timelines


def three_writes() -> tuple[Told, list[int]]:
    told = Told()
    ends = [told.act(change(F, *step)).seq for step in (("", "1"), ("1", "2"), ("2", "3"))]
    return told, ends


def test_a_timeline_is_read_once() -> None:
    told, ends = three_writes()
    history = told.indexed()
    for _ in range(2):
        assert [entry.seq for entry in history.timeline(F)] == ends
        assert [entry.seq for entry in history.latest_entries(F)] == ends[::-1]
    assert told.taken() == ends


def test_of_a_timeline_after_a_record_no_more_is_read() -> None:
    told, ends = three_writes()
    history = told.indexed()
    assert [entry.seq for entry in history.timeline(F, after=ends[0])] == ends[1:]
    assert told.taken() == ends[1:]
    assert [entry.seq for entry in history.timeline(F)] == ends, "a part of it was not taken for the whole"


@pytest.mark.parametrize("is_indexed", [False, True])
def test_what_comes_after_a_record_is_without_that_record(is_indexed: bool) -> None:
    told, ends = three_writes()
    history = told.indexed() if is_indexed else told.story.history
    assert [entry.seq for entry in history.timeline(F)] == ends
    assert [entry.seq for entry in history.timeline(F, after=ends[1])] == ends[2:]
    assert history.timeline(F, after=ends[2]) == history.timeline(G) == history.timeline(G, after=1) == []


def test_the_latest_change_is_read_alone() -> None:
    told, ends = three_writes()
    history = told.indexed()
    assert history.latest(F) == version("3") and history.latest(G) == ABSENT
    assert told.taken() == ends[-1:]


def test_of_two_changes_in_one_record_the_second_is_the_latest() -> None:
    told = Told()
    told.act(change(F, "", "1"), change(F, "1", "2"))
    assert [entry.change.after.id for entry in told.indexed().latest_entries(F)] == ["2", "1"]
    assert told.indexed().latest(F) == version("2")


def test_the_first_record_of_all_may_tell_of_a_change() -> None:
    (remembered,) = memory.changes("r9", {}, {"/a": 1})
    told = Told()
    drift = told.tell(e.DriftSeen((change(F, "", "1"), remembered)))
    for history in (told.story.history, told.indexed()):
        assert [(entry.seq, entry.action) for entry in history.timeline(F)] == [(1, drift.id)]
        assert history.memory_of("r9") == {"/a": 1} and history.breaches == []


def test_what_comes_later_is_added_to_what_is_at_hand() -> None:
    told = Told()
    run, over = told.tell(e.RunBegan("one"), "").id, told.tell(e.RunBegan("two"), "").id
    for id in (run, over):
        told.act(*memory.changes(id, {}, {"/a": 1, "/b": 2}), stream=run)
    told.act(change(F, "", "1"))
    told.tell(e.RunEnded(e.Outcome.DONE), over)
    history = told.indexed()
    assert [entry.change.after.id for entry in history.timeline(F)] == ["1"]
    told.act(change(F, "1", "2"))
    for id in (run, over):
        told.act(*memory.changes(id, {"/a": 1, "/b": 2}, {"/a": 1}))
    for record in told.records[history.seq :]:
        history.apply(record)
    told.taken()
    assert [entry.change.after.id for entry in history.timeline(F)] == ["1", "2"]
    assert history.latest(F) == version("2") and history.memory_of(run) == {"/a": 1} and not told.taken()
    assert history.memory_of(over) == {"/a": 1} and history.breaches == []


# What stays at hand


def test_only_what_is_open_stays_at_hand() -> None:
    told = Told()
    run, over = told.tell(e.RunBegan("one"), "").id, told.tell(e.RunBegan("two"), "").id
    began = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run)
    for id, value in ((run, 1), (over, 2)):
        told.tell(e.ChangesSeen(began.id, memory.changes(id, {}, {"/a": value})), run)
    intent = told.tell(IntentDeferred("email", "email", "k", began.id, "d"), run)
    told.act(change(F, "", "1"), stream=run)
    checkpoint = told.tell(e.CheckpointTaken("here"))
    told.tell(e.RunEnded(e.Outcome.DONE), over)
    history = told.indexed()
    for _ in range(2):
        assert not history.checkpoints.at_hand and not history.intents.every.at_hand
        assert list(history.runs.at_hand) == [run] and list(history.actions.at_hand) == [began.id]
        assert history.memory_of(run) == {"/a": 1} and not told.taken(), "it is open, so it is at hand"
        assert history.memory_of(over) == {"/a": 2} and told.taken(), "it is over, so it was read again"
        assert history.latest(F) and len(history.timeline(F)) == 1 and told.taken()
        assert history.checkpoints[checkpoint.id].taken.message == "here"
        assert history.intents.every[intent.id].key == "k"
        assert history.actions[history.timeline(F)[0].action].changes == (change(F, "", "1"),)
        history.trim(1)
        told.taken()


def test_what_has_been_asked_for_is_not_read_twice() -> None:
    told = Told()
    told.act(change(F, "", "1"))
    history = told.indexed()
    assert history.actions["a1"] is history.actions["a1"]
    assert told.taken() == [1, 2]


def test_what_another_thread_has_read_meanwhile_is_not_read_again() -> None:
    told = Told()
    told.act(change(F, "", "1"))
    history = told.indexed()
    others = []

    class Meanwhile(nullcontext[None]):
        """A guard that another thread has held, to ask for the same."""

        def __enter__(self) -> None:
            history.postings.guard = nullcontext()
            others.append(history.actions["a1"])

    history.postings.guard = Meanwhile()
    assert [history.actions["a1"]] == others and history.actions["a1"] is others[0]
    assert told.taken() == [1, 2]


# What a run remembers


def test_what_a_run_remembers_is_its_own_whatever_else_one_record_tells() -> None:
    told = Told()
    one, two = told.tell(e.RunBegan("one"), "").id, told.tell(e.RunBegan("two"), "").id
    path = Target("outside", "/a", one)  # a path below a root that has the name of a run
    told.act(*memory.changes(one, {}, {"/a": 1}), *memory.changes(two, {}, {"/a": 2}), change(path, "", "3"))
    for run in (one, two):
        told.tell(e.RunEnded(e.Outcome.DONE), run)
    history = told.indexed()
    assert (history.memory_of(one), history.memory_of(two)) == ({"/a": 1}, {"/a": 2})


def test_of_what_a_run_remembers_nothing_else_is_read() -> None:
    told = Told()
    run = told.tell(e.RunBegan("one"), "").id
    remembered = told.act(*memory.changes(run, {}, {"/a": 1}))
    told.act(
        change(Target("outside", "/a", run), "", "3"), change(Target("memory", "/a", "of no run"), "", "3")
    )
    told.tell(e.RunEnded(e.Outcome.DONE), run)
    history = told.indexed()
    assert history.memory_of(run) == {"/a": 1} and told.taken() == [remembered.seq]


def test_the_brands_of_a_run_are_those_of_its_own_actions_after_a_record() -> None:
    told = Told()
    run = told.tell(e.RunBegan("agent"), "").id
    branded = [told.tell(e.ActionBegan("tool", e.Effect.NONE, brand=brand), run).seq for brand in (7, 0, 8)]
    told.tell(e.ActionBegan("tool", e.Effect.NONE, brand=9))
    for history in told.every_way():
        assert history.brands_of(run, 0) == {7, 8} and history.brands_of(run, branded[0]) == {8}
    history = told.indexed()
    told.taken()
    assert history.brands_of(run, branded[-1]) == set() and not told.taken()


def test_a_change_that_an_action_shares_with_itself_is_its_own() -> None:
    told = Told()
    began = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE))
    told.tell(e.ChangesSeen(began.id, (Change(F, ABSENT, version("1"), (began.id,)),)))
    history = told.story.history
    assert len(history.actions[began.id].made) == 1 and not history.actions[began.id].shared
    assert history.postings.seqs(numbered(Topic.ACTION, began.id)) == [began.seq]


def test_what_ends_with_a_look_at_the_files_is_seen() -> None:
    told = Told()
    calls, ends = [], []
    for resource in ("git", TREE, "git"):
        calls.append(told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id)
        marks = (e.Mark(resource, "s"),)
        ends.append(told.tell(e.ActionEnded(calls[-1], e.Outcome.DONE, marks=marks)).seq)
    for history in told.every_way():
        assert history.unseen() == [calls[-1]]
        assert list(history.postings.after(every(Topic.UNSEEN))) == [ends[0], ends[2]]


# Ids that name nothing


def test_what_a_record_only_mentions_is_not_an_action() -> None:
    told = Told()
    told.act(Change(F, ABSENT, version("1"), ("a99",)))
    told.tell(e.RollbackBegan(e.RollbackKind.UNDO, ("a1", "a99")))
    history = told.indexed()
    assert history.actions.get("a99") is None and "a99" not in history.actions
    assert "c99" not in history.checkpoints and "c1" not in history.checkpoints


def test_a_number_that_no_record_can_have_names_nothing() -> None:
    """The number of a key has 56 bits; that of an id that somebody types may have more."""
    told = Told()
    run = told.tell(e.RunBegan("agent"), "")
    asked = told.tell(e.ApprovalAsked("push", e.Effect.IRREVERSIBLE, "p", 5), run.id)
    told.act(change(F, "", "1"), stream=run.id)
    history = told.indexed()
    topics, digest = 1 << 56, of_target(F) - every(Topic.TARGET)
    too_large: list[tuple[Recalled[Any], str]] = [
        (history.runs, f"r{(Topic.RUN ^ Topic.APPROVAL) * topics + asked.seq}"),
        (history.approvals, f"p{(Topic.APPROVAL ^ Topic.TARGET) * topics + digest}"),
        (history.intents.every, f"i{(Topic.INTENT ^ Topic.IN_RUN) * topics + run.seq}"),
        (history.actions, f"a{(Topic.ACTION ^ Topic.IN_RUN) * topics + run.seq}"),
    ]
    for things, id in too_large:
        assert things.get(id) is None


# Intents


def deferred(told: Told, many: int) -> tuple[str, list[str]]:
    """Tell of a run that defers so many intents."""
    run = told.tell(e.RunBegan("agent"), "").id
    action = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run).id
    made = [IntentDeferred("email", "email", f"k{n}", action, f"d{n}") for n in range(many)]
    return run, [told.tell(event, run).id for event in made]


def test_intents_that_a_run_holds_are_read_unless_they_are_at_hand() -> None:
    told = Told()
    run, (first, second, third) = deferred(told, 3)
    history = told.indexed()
    known = history.intents.every[second]
    told.taken()
    held = history.intents.held(run)
    assert [intent.id for intent in held] == [first, second, third] and held[1] is known
    assert told.taken() == [ids.seq_of(first), ids.seq_of(third)]


def test_of_very_many_intents_each_is_read_once() -> None:
    told = Told()
    run, intents = deferred(told, 2 * AT_ONCE + 1)
    history = told.indexed()
    told.taken()
    assert [intent.id for intent in history.intents.held(run)] == intents
    assert told.taken() == [ids.seq_of(intent) for intent in intents]


def test_up_to_a_hundred_intents_are_looked_at_before_they_are_released() -> None:
    for many, is_looked_at in ((2, True), (100, True), (101, False)):
        told = Told()
        run, intents = deferred(told, many - 1)
        history = told.indexed()
        told.taken()
        history.apply(told.tell(IntentsReleased((*intents, "i999")), run))
        assert bool(told.taken()) is bool(history.breaches) is is_looked_at
        assert history.intents.every[intents[0]].state is IntentState.DUE
        assert "i999" not in history.intents.every and history.intents.held(run) == []
        # Whoever has everything at hand looks at each.
        assert [breach.what for breach in told.story.history.breaches] == [
            "there is no intent i999 that IntentsReleased could follow"
        ]
