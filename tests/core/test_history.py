"""The fold: what stands, and events that should not have come."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.entities import RecordedStep
from takeback.core.events import Outcome
from takeback.core.history import History
from takeback.core.intents import IntentDeferred, IntentsReleased, IntentState
from takeback.core.lifecycle import Life
from takeback.core.memory import changes
from takeback.core.postings import Topic, numbered
from takeback.core.record import contents_named
from takeback.core.rollback import Do, OnConflict
from takeback.core.selection import after, last_rollback, of_ids
from takeback.core.trust import untrusted_since
from tests.core.story import Story


def test_the_life_of_a_run() -> None:
    story = Story()
    run = story.run()
    assert story.history.runs[run].life is Life.OPEN
    assert repr(story.history.runs[run]) == "<Run r1 'agent' open, 0 actions>"
    story.tell(e.RunInterrupted("the machine restarted"), run)
    assert story.history.runs[run].life is Life.INTERRUPTED
    story.tell(e.RunResumed(), run)
    step = story.tell(e.StepBegan("edit"), run).id
    story.tell(e.StepEnded(step, Outcome.FAILED), run)
    story.tell(e.RunEnded(Outcome.DONE), run)
    assert story.history.runs[run].life is Life.DONE
    assert story.history.runs[run].steps[step].life is Life.FAILED
    assert story.history.breaches == []


def test_what_has_begun_has_no_end_yet() -> None:
    story = Story()
    run = story.run()
    action = story.history.actions[story.tell(e.ActionBegan("tool", e.Effect.NONE), run).id]
    assert (action.ended_us, action.happened, action.unsure) == (0, True, False)
    assert story.history.runs[run].ended_us == RecordedStep("s1", "edit", "").began_us == 0


def test_who_looks_after_a_run_that_was_handed_over() -> None:
    story = Story()
    run = story.run()
    story.tell(e.RunHandedOver("which one?"), run)
    story.tell(e.RunTaken("ada"), run)
    found = story.history.runs[run]
    assert (found.life, found.why, found.taken_by) == (Life.HANDED_OVER, "which one?", "ada")
    story.tell(e.RunReturned("ada", "the second"), run)
    assert (found.life, found.why, found.taken_by) == (Life.INTERRUPTED, "", "")
    story.tell(e.RunHandedOver("and now?"), run)
    story.tell(e.RunTaken(""), run)
    assert found.taken_by == "you", "where nobody gave a name"
    story.tell(e.RunReturned("", "so"), run)
    story.tell(e.RunTaken("bob"), run)
    assert found.taken_by == "" and len(story.history.breaches) == 1


def test_an_action_settled_by_the_world() -> None:
    story = Story()
    began = story.tell(e.ActionBegan("tool", e.Effect.NONE))
    assert [action.id for action in story.history.open_actions()] == [began.id]
    assert repr(story.history.actions[began.id]) == "<Action a1 'tool' open, 0 changes>"
    story.tell(e.ActionSettled(began.id, happened=False, why="unchanged"))
    assert story.history.actions[began.id].life is Life.SETTLED
    assert story.history.actions[began.id].seq == began.seq
    assert not story.history.open_actions()


def test_changes_seen_while_an_action_is_open_are_its_own() -> None:
    story = Story()
    change = Change(Target("files", "f"), ABSENT, Version("1"))
    began = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE))
    story.tell(e.ChangesSeen(began.id, (change,)))
    checkpoint = story.tell(e.CheckpointTaken()).id
    story.tell(e.ActionEnded(began.id, Outcome.DONE, (Change(change.target, Version("1"), Version("2")),)))
    assert [c.after.id for c in story.history.actions[began.id].changes] == ["1", "2"]
    assert list(story.history.targets("files")) == [change.target]
    # What the action did before the checkpoint is not after it.
    assert [entry.change.after.id for entry in after(story.history, ids.seq_of(checkpoint)).entries] == ["2"]
    story.tell(e.ChangesSeen(began.id, (change,)))
    story.tell(e.ChangesSeen("a99", (change,)))
    assert len(story.history.breaches) == 2


def test_what_changed_outside_is_what_was_seen_of_it() -> None:
    story = Story()
    tool = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE))
    change = Change(Target("files", "f"), ABSENT, Version("1"), (tool.id,))
    drift = story.tell(e.DriftSeen((change,)))
    assert [(entry.seq, entry.action) for entry in story.history.entries(drift.id)] == [(drift.seq, drift.id)]
    (shared,) = story.history.entries(tool.id)
    assert (shared.action, shared.change) == (drift.id, change), "the tool may have made it instead"


def test_an_action_whose_processes_outlive_it() -> None:
    story = Story()
    change = Change(Target("files", "f"), ABSENT, Version("1"))
    began = story.tell(e.ActionBegan("server", e.Effect.RESTORABLE))
    story.tell(e.ActionDetached(began.id, (change,), exit_code=0))
    action = story.history.actions[began.id]
    assert action.life is Life.BACKGROUND and not story.history.open_actions()
    assert story.history.open_actions(Life.BACKGROUND) == [action]
    left = e.Process(7, "1", "boot", "host")
    story.tell(e.ActionDetached(began.id, exit_code=0, why="it failed", result=5, processes=(left,)))
    assert (action.life, action.processes) == (Life.BACKGROUND, (left,))
    assert (action.why, action.result) == ("it failed", 5)
    unended = story.history.has_unended
    story.tell(e.ActionEnded(began.id, Outcome.DONE, exit_code=0))
    assert not story.history.open_actions(Life.BACKGROUND) and action.changes == (change,)
    assert (unended, story.history.has_unended) == (True, False)
    assert not action.processes and not story.history.breaches


def test_a_call_that_was_noted_is_over() -> None:
    story = Story()
    run = story.run()
    noted = story.tell(e.ActionNoted("now", Outcome.DONE, key="k", result=5), run)
    action = story.history.actions[noted.id]
    assert (action.life, action.result, action.ended_us) == (Life.DONE, 5, noted.at_us)
    assert story.history.calls_of(run, "k") == [noted.id]
    assert not story.history.has_unended and not story.history.open_actions()


def test_settings_that_an_agent_wrote_wait_for_a_human() -> None:
    story = Story()
    target = Target("files", "takeback.toml")
    assert untrusted_since(story.history, target) is None
    story.edit("takeback.toml", "human", seen=True)
    assert untrusted_since(story.history, target) is None
    first = story.act({"takeback.toml": "agent 1"})
    story.act({"takeback.toml": "agent 2"})
    found = untrusted_since(story.history, target)
    assert found is not None and (found.action, found.change.before.id) == (first, "human")
    story.tell(e.ConfigAccepted("agent 2"))
    assert untrusted_since(story.history, target) is None
    story.act({"takeback.toml": "agent 3"})
    assert untrusted_since(story.history, target) is not None
    story.edit("takeback.toml", "human again", seen=True)
    assert untrusted_since(story.history, target) is None
    # What was accepted once does not come back by an agent's hand.
    story.act({"takeback.toml": "agent 2"})
    assert untrusted_since(story.history, target) is not None


def test_settings_of_an_agent_that_were_taken_back_wait_for_nobody() -> None:
    story = Story()
    target = Target("files", "takeback.toml")
    action = story.act({"takeback.toml": "agent"})
    story.edit("takeback.toml", "", seen=False)
    plan = story.plan(of_ids(story.history, [action]))
    assert [item.do for item in plan.items] == [Do.ALREADY]
    assert untrusted_since(story.history, target) is not None
    story.carry_out(plan, e.RollbackKind.UNDO)
    assert untrusted_since(story.history, target) is None


def test_what_an_undo_or_a_redo_left_as_it_was_is_kept_while_its_word_stands() -> None:
    story = Story()
    action = story.act({"f": "agent", "g": "agent"})
    story.edit("f", "human", seen=True)
    undo = story.carry_out(story.plan(of_ids(story.history, [action]), OnConflict.KEEP), e.RollbackKind.UNDO)
    # The engine records that it kept f; g it removed.
    assert [entry.target.name for entry in story.history.kept(action)] == ["f"]
    story.edit("g", "human", seen=True)
    redo = story.plan(last_rollback(story.history), OnConflict.KEEP)
    assert {item.target.name: item.do for item in redo.items} == {"f": Do.ALREADY, "g": Do.KEEP}
    story.carry_out(redo, e.RollbackKind.REDO)
    assert [entry.target.name for entry in story.history.kept(undo)] == ["g"]
    assert story.history.kept(action) == [], "the word of the undo was taken back"
    assert [r.id for r in story.history.rollbacks()] == [next(reversed(story.history.actions)), undo]


def test_what_one_undo_left_and_another_took_back_is_not_kept_any_more() -> None:
    story = Story()
    action = story.act({"f": "agent"})
    story.edit("f", "human", seen=True)
    target = Target("files", "f")
    (entry,) = story.history.entries(action)
    for did, kept in ((e.Did.KEPT, [entry]), (e.Did.RESTORED, [])):
        undo = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, (action,))).id
        item = e.Item(target, did, verified=True, settles=(action,), seqs=(entry.seq,))
        story.tell(e.RollbackEnded(undo, (item,)))
        assert story.history.kept(action) == kept


def test_whether_an_action_is_undone_is_as_the_last_undo_of_it_stands() -> None:
    story = Story()
    action = story.act({})

    def roll(kind: e.RollbackKind, of: str) -> str:
        began = story.tell(e.RollbackBegan(kind, (of,))).id
        story.tell(e.RollbackEnded(began, ()))
        return began

    first = roll(e.RollbackKind.UNDO, action)
    assert story.history.is_undone(action)
    roll(e.RollbackKind.REDO, first)
    assert not story.history.is_undone(action)
    second = roll(e.RollbackKind.UNDO, action)
    assert story.history.is_undone(action)
    roll(e.RollbackKind.REDO, second)
    assert not story.history.is_undone(action)


def test_a_path_that_changed_is_listed_with_its_own_resource() -> None:
    story = Story()
    began = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id
    file, base = Target("files", "d/f"), Target("sqlite", "d/app.db")
    story.tell(
        e.ActionEnded(began, Outcome.DONE, tuple(Change(t, ABSENT, Version("1")) for t in (file, base)))
    )
    assert list(story.history.targets("files")) == [file] == list(story.history.targets("files", "d"))
    assert list(story.history.targets("sqlite")) == [base] and not list(story.history.targets("files", "e"))
    assert story.history.tools == 1 and story.history.resources == ["files", "sqlite"]


def test_what_an_action_may_have_made_is_in_the_order_in_which_it_happened() -> None:
    story = Story()
    mine = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id
    story.act({"f": "1"}, shared_with=(mine,))
    change = Change(Target("files", "g"), ABSENT, Version("1"))
    story.tell(e.ActionEnded(mine, Outcome.DONE, (change,)))
    assert [entry.target.name for entry in story.history.entries(mine)] == ["f", "g"]


def test_what_calls_and_intents_hold_is_named_until_it_is_forgotten() -> None:
    story = Story()
    run = story.run()
    records = [story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE, full="aa"), run)]
    records.append(story.tell(e.ActionEnded(records[0].id, Outcome.DONE, full="bb"), run))
    records.append(story.tell(e.ActionNoted("look", Outcome.DONE), run))
    assert contents_named(records) == {b"\xaa", b"\xbb"}
    records.append(story.tell(e.ContentForgotten(("f",), ("bb",))))
    assert contents_named(records) == {b"\xaa"}
    records.append(story.tell(e.ActionNoted("look", Outcome.DONE, full="bb"), run))
    assert contents_named(records) == {b"\xaa", b"\xbb"}


def test_answers_of_models_are_named_only_while_they_are_young() -> None:
    story = Story()
    began = story.tell(e.ActionBegan("tool", e.Effect.NONE, full="aa"))
    noted = [
        story.tell(e.ActionNoted("x", Outcome.DONE, tool=t, full=f))
        for t, f in (("look", "bb"), (e.ANSWER, "cc"))
    ]
    assert contents_named([began, *noted]) == {b"\xaa", b"\xbb", b"\xcc"}
    assert contents_named([began, *noted], answers_since_us=3) == {b"\xaa", b"\xbb", b"\xcc"}
    assert contents_named([began, *noted], answers_since_us=4) == {b"\xaa", b"\xbb"}


def test_what_was_forgotten_is_found_by_its_records() -> None:
    story = Story()
    assert story.history.forgets == []
    told = [story.tell(e.ContentForgotten(("f",), ("aa", "bb"))) for _ in range(2)]
    assert story.history.forgets == [record.seq for record in told]
    assert e.ContentForgotten(("f",), ("aa", "bb")).names == {b"\xaa", b"\xbb"}


def test_what_changed_beside_a_session_is_trusted_for_nothing_that_loosens() -> None:
    story = Story()
    target = Target("files", "takeback.toml")
    run = story.tell(e.RunBegan("agent", detached=True))
    assert bool(story.history.is_in_session)
    story.edit("takeback.toml", "somebody's", seen=True)
    found = untrusted_since(story.history, target, beside=True)
    assert found is not None and found.change.before == ABSENT
    assert untrusted_since(story.history, target) is None
    story.tell(e.ConfigAccepted("somebody's"))
    assert untrusted_since(story.history, target, beside=True) is None
    story.tell(e.RunEnded(Outcome.DONE), stream=run.id)
    assert not bool(story.history.is_in_session)
    story.edit("takeback.toml", "human", seen=True)
    assert untrusted_since(story.history, target, beside=True) is None


def test_marks_follow_the_last_event() -> None:
    story = Story()
    story.tell(e.CheckpointTaken(marks=(e.Mark("files", "one"),)))
    story.tell(e.CheckpointTaken(marks=(e.Mark("files", "two"), e.Mark("memory", "m"))))
    assert {name: mark.state for name, mark in story.history.marks.items()} == {"files": "two", "memory": "m"}


def test_what_a_run_remembers_is_what_it_was_told_last() -> None:
    story = Story()
    run = story.run()
    action = story.tell(e.ActionBegan("agent", e.Effect.RESTORABLE), run).id
    long = list(range(20))
    states: list[dict[str, Any]] = [
        {},
        {"/goal": "walk", "/l": long},
        {"/goal": "run", "/l": [*long, 20]},
        {"/l": [*long, 20, 21]},
    ]
    for before, now in pairwise(states):
        story.tell(e.ChangesSeen(action, changes(run, before, now)), run)
        assert story.history.memory_of(run) == now
    assert story.history.breaches == []


def test_a_rollback_may_name_actions_that_nobody_knows() -> None:
    story = Story()
    rollback = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, ("a99",))).id
    item = e.Item(Target("files", "f"), e.Did.REMOVED, verified=True, settles=("a99",), seqs=(7,))
    story.tell(e.RollbackEnded(rollback, (item,)))
    assert story.history.settled_by(rollback) == [item.target] and story.history.breaches == []


def test_a_list_that_is_made_of_an_unknown_one_is_a_breach() -> None:
    story = Story()
    run = story.run()
    (change,) = changes(run, {"/l": [0] * 9}, {"/l": [0] * 10})
    action = story.tell(e.ActionBegan("agent", e.Effect.RESTORABLE), run).id
    story.tell(e.ChangesSeen(action, (change,)), run)
    assert "the value that l of r1 is based on is missing" in story.history.breaches[-1].what
    assert not story.history.memory_of(run)


def test_what_should_not_have_come_is_kept_as_a_breach_and_changes_nothing() -> None:
    story = Story()
    run = story.run()
    change = Change(Target("files", "f"), ABSENT, Version("1"))
    action = story.act({"f": "1"}, run)
    story.tell(e.WorkspaceBegan("/x", "1"))
    assert story.history.breaches == [] and story.history.began == e.WorkspaceBegan("/x", "1")
    wrong: list[tuple[e.Event, str]] = [
        (e.WorkspaceBegan("/y", "1"), run),
        (e.ActionEnded(action, Outcome.DONE, (change,)), run),
        (e.ActionEnded("a99", Outcome.DONE), run),
        (e.ActionSettled(run, happened=True), run),
        (e.RollbackEnded("a99", ()), run),
        (e.RollbackEnded(action, ()), run),
        (e.RunResumed(), run),
        (e.RunEnded(Outcome.DONE), "w"),
        (e.StepBegan("x"), "w"),
        (e.StepEnded("s99", Outcome.DONE), run),
        (e.StepEnded("s99", Outcome.DONE), "w"),
    ]
    for event, stream in wrong:
        story.tell(event, stream)
    assert len(story.history.breaches) == len(wrong)
    assert [entry.action for entry in story.history.timeline(change.target)] == [action]
    rollback = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, (action,))).id
    story.tell(e.RollbackEnded(rollback, (e.Item(change.target, e.Did.FAILED, settles=(action,)),)))
    story.tell(e.RollbackEnded(rollback, ()))
    assert len(story.history.breaches) == len(wrong) + 1
    # A failed item settles nothing: the change can still be taken back.
    assert story.history.live(action) and story.history.settled_by(rollback) == []


def test_what_ends_an_action_does_not_end_a_rollback_nor_the_other_way_round() -> None:
    story = Story()
    change = Change(Target("files", "f"), ABSENT, Version("1"))
    action = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id
    rollback = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, ())).id
    wrong: list[e.Event] = [
        e.ActionEnded(rollback, Outcome.DONE, (change,)),
        e.ActionTold(rollback, happened=True, changes=(change,)),
        e.ActionTold("a99", happened=True),
        e.RollbackEnded(action, (), (change,)),
        e.RollbackProgressed("a99", e.Item(change.target, e.Did.REMOVED)),
    ]
    for event in wrong:
        story.tell(event)
    assert len(story.history.breaches) == len(wrong)
    assert [found.id for found in story.history.open_actions()] == [action, rollback]
    assert [found.writes_files for found in story.history.open_actions()] == [True, False]
    assert list(story.history.targets("files")) == []


def test_an_action_that_ended_did_happen_and_is_sure() -> None:
    story = Story()
    ended = story.history.actions[story.act({"f": "1"})]
    assert ended.happened and not ended.unsure
    began = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id
    story.tell(e.ActionSettled(began, happened=False))
    settled = story.history.actions[began]
    assert not settled.happened and not settled.unsure


def test_the_first_action_of_a_step_is_its_body() -> None:
    story = Story()
    run = story.run()
    step = story.tell(e.StepBegan("edit"), run).id
    first = story.act({"f": "1"}, run, step=step)
    story.act({"g": "1"}, run, step=step)
    assert story.history.runs[run].steps[step].body == first


def test_a_history_is_the_fold_of_its_records() -> None:
    story = Story()
    records = [story.tell(e.CheckpointTaken("one")), story.tell(e.CheckpointTaken("two"))]
    assert list(History.of(records).checkpoints) == ["c1", "c2"]
    assert repr(History.of(records).checkpoints["c2"]) == "<Checkpoint c2 'two'>"
    assert History.of(records).seq == 2


def test_an_intent_that_cannot_follow_is_a_breach() -> None:
    story = Story()
    run = story.run()
    action = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run).id
    intent = story.tell(IntentDeferred("email", "email", "mail", action, "key"), run).id
    story.tell(IntentsReleased((intent,)), run)
    assert story.history.intents.every[intent].state is IntentState.DUE and not story.history.breaches
    story.tell(IntentsReleased(("i99",)), run)
    (breach,) = story.history.breaches
    assert "i99" in breach.what


def test_a_rollback_that_settles_an_action_and_shares_a_change_with_it_is_posted_once() -> None:
    story = Story()
    action = story.act({"f": "1"})
    rollback = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, (), ())).id
    target = Target("files", "f")
    item = e.Item(target, e.Did.REMOVED, verified=True, settles=(action,), seqs=(2,))
    shared = Change(target, Version("1"), ABSENT, (action,))
    record = story.tell(e.RollbackEnded(rollback, (item,), (shared,)))
    assert story.history.postings.seqs(numbered(Topic.ACTION, action)).count(record.seq) == 1
    assert [entry.seq for entry in story.history.actions[action].shared] == [record.seq]


def test_a_mark_tells_the_stores_that_it_leaves_out() -> None:
    mark = e.Mark("files", "s", stated=("left out: threads.db, of LangGraph", "unreadable: x"))
    assert mark.left_out == ["threads.db, of LangGraph"]
