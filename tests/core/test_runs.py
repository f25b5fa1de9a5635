"""What the fold makes of runs: keys, memory, approvals, handovers, and what was taken back as a whole."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core import memory
from takeback.core import selection as select
from takeback.core.change import ABSENT, Change, Target
from takeback.core.lifecycle import Life
from takeback.core.rollback import OnConflict, RollbackPlan
from tests.core.story import Story, version

UNDO, REDO = e.RollbackKind.UNDO, e.RollbackKind.REDO


def call(story: Story, run: str, key: str, step: str = "") -> str:
    began = e.ActionBegan("tool", e.Effect.COMPENSABLE, step=step, key=key, full="ab" * 32)
    id = story.tell(began, run).id
    story.tell(e.ActionEnded(id, e.Outcome.DONE, result={"n": 1}, full="cd" * 32), run)
    return id


def test_a_run_is_found_by_its_key_and_its_calls_by_theirs() -> None:
    story = Story()
    run = story.tell(e.RunBegan("task", key="K"), stream="").id
    step = story.tell(e.StepBegan("edit"), run).id
    body = story.tell(e.ActionBegan("edit", e.Effect.RESTORABLE, step=step), run).id
    first = call(story, run, "k", step)
    noted = story.tell(e.ActionNoted("look", e.Outcome.FAILED, step, body, "n", result=5, why="w"), run).id
    history = story.history
    assert history.runs_of_key("K") == [run] and history.runs_of_key("L") == []
    assert history.calls_of(run, "k") == [first] and history.calls_of(run, "n") == [noted]
    assert history.runs[run].steps[step].body == body
    assert history.actions[first].result == {"n": 1}
    looked = history.actions[noted]
    assert (looked.life, looked.result, looked.why) == (Life.FAILED, 5, "w")
    assert history.open_runs() == [history.runs[run]] and not history.breaches
    undo = story.tell(e.RollbackBegan(UNDO, ()), run).id
    assert undo in history.runs[run].actions


def test_an_undo_takes_calls_back_as_a_whole_and_a_redo_brings_them_back() -> None:
    story = Story()
    run = story.run()
    id = call(story, run, "k")
    file = story.act({"f": "1"}, run)
    history = story.history
    assert not history.is_undone(id)
    undo = story.carry_out(story.plan(select.of_run(history, run, 0)), UNDO)
    assert history.is_undone(id) and history.is_undone(file)
    story.carry_out(story.plan(select.last_rollback(history)), REDO)
    assert not history.is_undone(id) and not history.is_undone(file)
    story.carry_out(RollbackPlan((undo,), (), OnConflict.STOP), e.RollbackKind.RESTORE)
    assert not history.is_undone(id)


def test_what_could_not_be_taken_back_is_half_undone() -> None:
    story = Story()
    run = story.run()
    done, stuck = story.act({"f": "1"}, run), story.act({"g": "1"}, run)
    undo = story.tell(e.RollbackBegan(UNDO, (done, stuck))).id
    items = [
        e.Item(entry.target, did, settles=(entry.action,), seqs=(entry.seq,))
        for id, did in ((done, e.Did.REMOVED), (stuck, e.Did.FAILED))
        for entry in story.history.entries(id)
    ]
    story.tell(e.RollbackEnded(undo, tuple(items)))
    assert story.history.is_undone(done) and not story.history.is_half_undone(done)
    assert story.history.is_half_undone(stuck) and not story.history.is_undone(stuck)
    assert not story.history.is_half_undone(run)


def test_what_a_run_did_after_a_position() -> None:
    story = Story()
    run = story.run()
    early = story.act({"f": "1"}, run)
    position = story.history.seq
    late = story.act({"g": "1"}, run)
    assert select.of_run(story.history, run, position).actions == (late,)
    assert select.of_run(story.history, run, 0).actions == (early, late)


def test_memory_is_the_fold_of_its_changes() -> None:
    story = Story()
    run = story.run()
    body = story.tell(e.ActionBegan("run", e.Effect.RESTORABLE), run).id
    target = Target("memory", "/goal", run)
    story.tell(e.ChangesSeen(body, (Change(target, ABSENT, memory.version("x")),)), run)
    assert story.history.memory_of(run) == {"/goal": "x"}
    assert story.history.latest(target) == memory.version("x")
    story.tell(e.ChangesSeen(body, (Change(target, memory.version("x"), ABSENT),)), run)
    assert story.history.memory_of(run) == {}
    assert story.history.latest(Target("memory", "/none", run)) == ABSENT


def test_approvals_are_answered_and_used_once() -> None:
    story = Story()
    run = story.run()
    asked = e.ApprovalAsked("wire", e.Effect.IRREVERSIBLE, "b3:1", 10**18)
    yes, no = story.tell(asked, run).id, story.tell(asked, run).id
    story.tell(e.ApprovalAnswered(yes, granted=True, actor="me"), run)
    story.tell(e.ApprovalAnswered(no, granted=False, why="too much"), run)
    story.tell(e.ApprovalUsed(yes), run)
    approvals = story.history.approvals
    assert (approvals[yes].life, approvals[yes].actor) == (Life.USED, "me")
    assert (approvals[no].life, approvals[no].why) == (Life.DENIED, "too much")
    story.tell(e.ApprovalUsed(yes), run)
    story.tell(e.ApprovalUsed(no), run)
    story.tell(e.ApprovalUsed("p99"), run)
    assert len(story.history.breaches) == 3
    story.tell(e.ActionRefused("wire", e.Effect.IRREVERSIBLE, "denied"), run)
    assert len(story.history.breaches) == 3


def test_a_run_is_handed_over_taken_and_returned() -> None:
    story = Story()
    run = story.run()
    life_of: list[tuple[e.Event, Life]] = [
        (e.RunHandedOver("help"), Life.HANDED_OVER),
        (e.RunTaken("me"), Life.HANDED_OVER),
        (e.RunReturned("me", "done"), Life.INTERRUPTED),
        (e.RunResumed(), Life.OPEN),
        (e.RunEnded(e.Outcome.DONE), Life.DONE),
    ]
    for event, life in life_of:
        story.tell(event, run)
        assert story.history.runs[run].life is life
    assert story.history.open_runs() == []


def test_a_humans_word_on_a_call_in_doubt() -> None:
    story = Story()
    run = story.run()
    id = story.act({"f": "1", "h": "1"}, run, in_doubt=True)
    story.tell(e.ActionTold(id, False, (Change(Target("files", "f"), version("1"), version("")),)), run)
    # What else it did has happened, and can be taken back.
    assert [entry.target.name for entry in story.history.live(id)] == ["h"]
    assert story.history.never_happened(id)
    third = story.act({"i": "1"}, run, in_doubt=True)
    story.tell(e.ActionTold(third, False, (Change(Target("files", "i"), version("1"), version("")),)), run)
    assert story.history.never_happened(id) and story.history.never_happened(third)
    other = story.act({"g": "1"}, run, in_doubt=True)
    assert not story.history.never_happened(other)
    story.tell(e.ActionTold(other, happened=True, changes=(), result={"id": 7}), run)
    assert len(story.history.live(other)) == 1
    assert story.history.actions[other].result == {"id": 7}
    story.tell(e.ActionTold("a99", happened=True), run)
    assert len(story.history.breaches) == 1


def test_progress_of_a_rollback_is_kept_until_it_ends() -> None:
    story = Story()
    item = e.Item(Target("calls", "x"), e.Did.COMPENSATED, verified=True)
    undo = story.tell(e.RollbackBegan(UNDO, ())).id
    story.tell(e.RollbackProgressed(undo, item))
    assert story.history.actions[undo].progress == {item.target: item}
    story.tell(e.RollbackEnded(undo, (item,)))
    assert story.history.actions[undo].progress == {}
    story.tell(e.RollbackProgressed(undo, item))
    assert len(story.history.breaches) == 1


def test_a_step_ends_once() -> None:
    story = Story()
    run = story.run()
    step = story.tell(e.StepBegan("edit"), run).id
    known = story.history.runs[run]
    assert known.ended == known.steps[step].ended == 0
    ended = story.tell(e.StepEnded(step, e.Outcome.DONE), run)
    again = story.tell(e.StepEnded(step, e.Outcome.DONE), run)
    (breach,) = story.history.breaches
    assert breach.seq == again.seq and story.history.runs[run].steps[step].ended == ended.seq
