"""One action, or one call, that a crash left open: what is recorded of it, and what its run becomes."""

from __future__ import annotations

import pytest

from takeback.core import events as e
from takeback.core import ids
from takeback.core.entities import RecordedAction
from takeback.core.lifecycle import Life
from takeback.core.seats import Place, WorkspaceSeated
from takeback.engine.tracking import recovery
from takeback.engine.tracking.tracker import Tracker, name_of_part
from tests.engine import remote
from tests.engine.conftest import Desk
from tests.engine.recorded import appended, begun, called, started_by

GONE = e.Process(1, "1", "another boot", "another machine")
"""A process that shows no sign of life any more."""

pytestmark = pytest.mark.parametrize("watching", [False], ids=["scanning"], indirect=True)


@pytest.fixture(autouse=True)
def _remote() -> None:
    remote.WORLD.clear()
    remote.ASKED.clear()


def settled(desk: Desk, id: str) -> RecordedAction:
    desk.tb.recover()
    found = desk.tb.history.actions[id]
    assert found.life is Life.SETTLED
    return found


def names(action: RecordedAction) -> list[str]:
    return [str(entry.target) for entry in action.made]


# What is settled at all


def test_a_rollback_that_is_open_is_left_to_whoever_finishes_it(desk: Desk) -> None:
    id = appended(desk, e.RollbackBegan(e.RollbackKind.UNDO, (), ()), ids.WORKSPACE)
    assert recovery.settle(desk.tb.parts.tracker, desk.tb.parts.calls) == []
    assert desk.tb.history.actions[id].life is Life.OPEN


def test_an_action_is_open_for_as_long_as_something_that_it_started(desk: Desk) -> None:
    run = appended(desk, e.RunBegan("agent"))
    id = begun(desk, run, marks=desk.tb.parts.tracker.observe())
    with started_by(desk, id):
        desk.tb.recover()
        assert desk.tb.history.actions[id].life is Life.OPEN
        assert desk.tb.history.runs[run].life is Life.OPEN
    settled(desk, id)
    assert desk.tb.history.runs[run].life is Life.INTERRUPTED


def test_a_command_is_not_settled_before_its_part(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last process ends after the part was asked about, and before the command is."""
    run = appended(desk, e.RunBegan("agent"))
    marks = desk.tb.parts.tracker.observe()
    whole = begun(desk, run, "command", marks=marks, process=GONE)
    step = appended(desk, e.StepBegan(name_of_part(1)), run)
    part = begun(desk, run, f"{name_of_part(1)} of command", marks=marks, parent=whole, step=step)
    assert desk.tb.parts.tracker.open_part(whole) == part
    real = Tracker.lives_on
    with started_by(desk, whole) as process:

        def lives_on(tracker: Tracker, action: RecordedAction) -> bool:
            found = real(tracker, action)
            if action.id == part:
                process.communicate()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Tracker, "lives_on", lives_on)
            desk.tb.recover()
    assert [desk.tb.history.actions[id].life for id in (whole, part)] == [Life.OPEN, Life.OPEN]
    desk.tb.notices.clear()
    desk.tb.recover()
    assert [notice.partition(" ")[0] for notice in desk.tb.notices] == [part, whole]


def test_a_session_whose_last_process_has_ended_is_over_at_once(desk: Desk) -> None:
    """What went on in the background is ended first, so that it does not keep its session open."""
    run = appended(desk, e.RunBegan("agent", detached=True, process=GONE))
    id = begun(desk, run, marks=desk.tb.parts.tracker.observe())
    appended(desk, e.ActionDetached(id, processes=(GONE,)), run)
    assert desk.tb.history.actions[id].life is Life.BACKGROUND
    desk.tb.recover()
    assert desk.tb.history.actions[id].life is Life.DONE
    assert desk.tb.history.runs[run].life is Life.STOPPED


def test_what_was_at_work_when_the_workspace_was_moved_is_interrupted_by_that(desk: Desk) -> None:
    run = appended(desk, e.RunBegan("agent"))
    marks = desk.tb.parts.tracker.observe()
    id = begun(desk, run, marks=marks)
    desk.human("plan", "written where it was before")
    seated = WorkspaceSeated(Place("1", "host", "/elsewhere"), 1, marks=desk.tb.parts.tracker.marks())
    appended(desk, seated, ids.WORKSPACE)
    action = settled(desk, id)
    assert action.why == (
        "the workspace was moved; its changes to files after the last record did not come along"
    )
    assert not action.happened and action.changes == ()
    assert (desk.tb.history.runs[run].life, desk.tb.history.runs[run].why) == (
        Life.INTERRUPTED,
        "the workspace was moved",
    )


# What is said of one


def test_an_action_that_changed_nothing_did_not_happen(desk: Desk) -> None:
    action = settled(desk, begun(desk, marks=desk.tb.parts.tracker.observe()))
    assert (action.happened, action.changes, action.why) == (False, (), "nothing had changed")
    assert desk.tb.notices == [f"{action.id} (work) was interrupted: nothing had changed"]


def test_what_was_done_inside_of_it_is_not_said_twice(desk: Desk) -> None:
    outer = begun(desk, marks=desk.tb.parts.tracker.observe())
    inner = begun(desk, name="inner", parent=outer)
    appended(desk, e.ActionEnded(inner, e.Outcome.DONE), ids.WORKSPACE)
    assert settled(desk, outer).why == "nothing had changed apart from what was done inside it"


def test_what_changed_without_a_sign_of_life_is_in_doubt(desk: Desk) -> None:
    id = begun(desk, marks=desk.tb.parts.tracker.observe())
    desk.human("plan", "new")
    action = settled(desk, id)
    assert (action.happened, names(action)) == (True, ["plan"])
    assert [change.in_doubt for change in action.changes] == [True]
    assert [change.shared_with for change in action.changes] == [()]
    assert action.why == ("no end of it was recorded; of 1 changes 0 are provably its own, 1 are in doubt")


def test_what_changed_while_another_one_was_at_work_is_shared_with_that(desk: Desk) -> None:
    with desk.tb.recording("other") as other:
        id = begun(desk, marks=desk.tb.parts.tracker.observe())
        desk.human("plan", "new")
        action = settled(desk, id)
    assert [change.shared_with for change in action.changes] == [(other,)]


def test_what_was_seen_of_it_earlier_has_happened(desk: Desk) -> None:
    id = begun(desk, marks=desk.tb.parts.tracker.observe())
    desk.human("plan", "new")
    desk.tb.parts.tracker.observe()
    action = settled(desk, id)
    assert (action.happened, names(action)) == (True, ["plan"])
    assert action.why.startswith("no end of it was recorded; ")


def test_a_call_that_its_check_finds_has_happened(desk: Desk) -> None:
    remote.WORLD["found"] = "a room"
    action = settled(desk, called(desk, ids.WORKSPACE, "found"))
    assert (action.happened, action.why, action.result) == (True, "its check finds it", "a room")
    assert [change.after.id for change in action.changes] == ["call:found"]


def test_a_call_that_its_check_does_not_find_has_not_happened(desk: Desk) -> None:
    action = settled(desk, called(desk, ids.WORKSPACE, "lost"))
    assert (action.happened, action.why, action.changes) == (False, "its check finds nothing", ())


def test_of_a_call_that_was_looked_around_both_are_said(desk: Desk) -> None:
    action = settled(desk, called(desk, ids.WORKSPACE, "lost", marks=desk.tb.parts.tracker.observe()))
    assert action.why == "nothing had changed; its check finds nothing"


def test_of_a_call_without_a_look_it_is_said_who_has_its_changes(desk: Desk) -> None:
    action = settled(desk, begun(desk))
    assert (action.happened, action.why) == (False, "its changes belong to the action around it")


# Calls of a run that goes on, or ends


def test_only_calls_that_are_open_are_asked_about_the_last_one_first(desk: Desk) -> None:
    remote.WORLD |= {"made": "a room", "done": "a table"}
    run = appended(desk, e.RunBegan("agent"))
    body = begun(desk, run)
    done, made, lost = (called(desk, run, key) for key in ("done", "made", "lost"))
    appended(desk, e.ActionEnded(done, e.Outcome.DONE), run)
    every = desk.tb.history.runs[run].actions
    recovery.settle_calls(desk.tb.parts.tracker, desk.tb.parts.calls, every, "it was interrupted")
    assert remote.ASKED == ["lost", "made"]
    actions = desk.tb.history.actions
    assert [actions[id].life for id in (body, done)] == [Life.OPEN, Life.DONE]
    assert [(actions[id].life, actions[id].why, actions[id].result) for id in (made, lost)] == [
        (Life.FAILED, "it was interrupted; its check finds it", "a room"),
        (Life.FAILED, "it was interrupted; its check finds nothing", None),
    ]
    assert [change.after.id for change in actions[made].changes] == ["call:made"]
    assert actions[lost].changes == ()


# A run of which nothing is left


def acted(desk: Desk, run: str = ids.WORKSPACE) -> str:
    id = begun(desk, run)
    appended(desk, e.ActionEnded(id, e.Outcome.DONE), run)
    return id


def taken_back(desk: Desk, *of: str) -> None:
    id = appended(desk, e.RollbackBegan(e.RollbackKind.UNDO, of, ()), ids.WORKSPACE)
    appended(desk, e.RollbackEnded(id, (), ()), ids.WORKSPACE)


def test_a_run_that_waited_is_over_when_nothing_is_left_of_it(desk: Desk) -> None:
    waits, handed, left, works = (appended(desk, e.RunBegan("agent")) for _ in range(4))
    of = {run: acted(desk, run) for run in (waits, handed, left, works)}
    nobodys = acted(desk)
    for run in (waits, left):
        appended(desk, e.RunInterrupted("its process died"), run)
    appended(desk, e.RunHandedOver("which one?"), handed)
    taken_back(desk, of[waits], of[handed], of[works], nobodys)
    recovery.end_taken_back(desk.tb.parts.tracker, [nobodys, *of.values()])
    runs = desk.tb.history.runs
    assert [(runs[run].life, runs[run].why) for run in (waits, handed)] == [
        (Life.STOPPED, "it was taken back")
    ] * 2
    assert [runs[run].life for run in (left, works)] == [Life.INTERRUPTED, Life.OPEN]


def test_of_several_runs_the_ends_are_recorded_in_the_same_order_each_time(desk: Desk) -> None:
    every = sorted(appended(desk, e.RunBegan("agent")) for _ in range(9))
    of = [acted(desk, run) for run in every]
    for run in every:
        appended(desk, e.RunInterrupted("its process died"), run)
    taken_back(desk, *of)
    head = desk.tb.history.seq
    recovery.end_taken_back(desk.tb.parts.tracker, reversed(of))
    ended = [
        record.stream for record in desk.tb.journal.read(after=head) if isinstance(record.event, e.RunEnded)
    ]
    assert ended == every
