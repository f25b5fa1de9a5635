"""What a crash left open: the questions that are asked before anything is settled, and what becomes of each run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.lifecycle import Life
from takeback.engine.tracking import recovery
from takeback.system import processes
from tests.core.story import Story
from tests.engine.conftest import Desk

FILE = Target("files", "f")


def took_back(
    story: Story, run: str, *of: str, verified: bool, kind: e.RollbackKind = e.RollbackKind.UNDO
) -> str:
    """A rollback of these actions that the run itself carried out."""
    id = story.tell(e.RollbackBegan(kind, of, ()), run).id
    story.tell(e.RollbackEnded(id, (e.Item(FILE, e.Did.RESTORED, verified=verified, settles=of),), ()), run)
    return id


def why(story: Story, run: str) -> str:
    return recovery._unproved(story.history, story.history.runs[run])


def test_a_run_that_took_itself_back_without_proof_is_not_just_tried_again() -> None:
    story = Story()
    run = story.run()
    first, second = story.act({"f": "1"}, run), story.act({"f": "2"}, run)
    assert why(story, run) == ""
    rollback = took_back(story, run, first, second, verified=False)
    assert f"not all that {rollback} took back could be verified" in why(story, run)
    took_back(story, run, first, second, verified=True)
    assert why(story, run) == "", "the last one counts"
    more = took_back(story, run, first, second, verified=False)
    assert more in why(story, run)


def test_only_a_rollback_of_all_that_the_run_did_speaks_of_it() -> None:
    story = Story()
    run, other = story.run(), story.run()
    theirs = story.act({"g": "1"}, other)
    took_back(story, other, theirs, verified=False)
    assert why(story, run) == "", "it has done nothing"
    first, second = story.act({"f": "1"}, run), story.act({"f": "2"}, run)
    assert why(story, run) == "", "another run was taken back"
    for part in (first, second):
        took_back(story, run, part, verified=False)
        assert why(story, run) == "", "a part of it was taken back"
    took_back(story, other, first, second, theirs, verified=False)
    assert why(story, run) and why(story, other)


def test_a_run_is_at_work_while_one_of_its_actions_is() -> None:
    story = Story()
    run = story.run()
    history, found = story.history, story.history.runs[run]
    assert not recovery._is_running(history, found)
    story.act({"f": "1"}, run)
    assert not recovery._is_running(history, found)
    began = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run).id
    assert recovery._is_running(history, found)
    story.tell(e.ActionEnded(began, e.Outcome.DONE), run)
    assert not recovery._is_running(history, found)


def test_whether_a_run_waits_to_be_continued() -> None:
    story = Story()
    run, other = story.run(), story.run()
    mine, theirs, nobodys = story.act({"f": "1"}, run), story.act({"g": "1"}, other), story.act({"h": "1"})
    every = (nobodys, mine, theirs)
    assert not recovery.is_waiting(story.history, every)
    story.tell(e.RunInterrupted("its process died"), run)
    assert recovery.is_waiting(story.history, every) and recovery.is_waiting(story.history, [mine])
    assert not recovery.is_waiting(story.history, [nobodys, theirs])
    story.tell(e.RunHandedOver("which one?"), other)
    assert recovery.is_waiting(story.history, [theirs])
    assert not recovery.is_waiting(story.history, [])


@pytest.mark.parametrize(
    "every, unsure, said",
    [
        (0, 0, "of 0 changes 0 are provably its own, 0 are in doubt"),
        (1, 0, "the change is provably its own"),
        (2, 0, "all 2 changes are provably its own"),
        (1, 1, "of 1 changes 0 are provably its own, 1 are in doubt"),
        (3, 1, "of 3 changes 2 are provably its own, 1 are in doubt"),
    ],
)
def test_how_many_changes_are_provably_its_own(every: int, unsure: int, said: str) -> None:
    changes = tuple(Change(FILE, ABSENT, Version("1"), in_doubt=n < unsure) for n in range(every))
    assert recovery._owned(changes) == said


# What becomes of a run


@contextmanager
def somebody() -> Iterator[e.Process]:
    """A process that lives for as long as this block lasts."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield processes.describe(process.pid)
        process.communicate(b"\n")


def begun(desk: Desk, **about: object) -> str:
    """A run as another process has recorded it."""
    return desk.tb.parts.ledger.append([e.RunBegan("agent", **about)], "")[0].id  # type: ignore[arg-type]


def settled(desk: Desk, run: str) -> tuple[Life, str]:
    desk.tb.recover()
    found = desk.tb.history.runs[run]
    return found.life, found.why


def test_a_session_is_open_for_as_long_as_the_process_that_leads_it(desk: Desk) -> None:
    with somebody() as leader:
        run = begun(desk, detached=True, process=leader)
        assert settled(desk, run) == (Life.OPEN, "")
    assert settled(desk, run) == (Life.STOPPED, "the process that led it has ended")


def test_a_session_that_nobody_leads_by_name_stays_open(desk: Desk) -> None:
    assert settled(desk, begun(desk, detached=True)) == (Life.OPEN, "")


def test_a_run_and_its_call_stay_open_for_as_long_as_the_process_that_conducts_them(desk: Desk) -> None:
    with somebody() as conductor:
        run = begun(desk)
        call = e.ActionBegan("tool", e.Effect.RESTORABLE, process=conductor)
        (record,) = desk.tb.parts.ledger.append([call], run)
        assert settled(desk, run) == (Life.OPEN, "")
        assert desk.tb.history.actions[record.id].life is Life.OPEN
    assert settled(desk, run) == (Life.INTERRUPTED, "its process died")
    assert desk.tb.history.actions[record.id].life is Life.SETTLED


def test_a_run_between_two_actions_stays_open_for_as_long_as_the_process_that_conducts_it(desk: Desk) -> None:
    with somebody() as conductor:
        run = begun(desk)
        ledger = desk.tb.parts.ledger
        for process in (conductor, None):
            (record,) = ledger.append([e.ActionBegan("tool", e.Effect.RESTORABLE, process=process)], run)
            ledger.append([e.ActionEnded(record.id, e.Outcome.DONE)], run)
        assert settled(desk, run) == (Life.OPEN, "")
    assert settled(desk, run) == (Life.INTERRUPTED, "its process died")


def test_of_two_that_died_the_inner_one_is_settled_first(desk: Desk) -> None:
    with somebody() as conductor:
        run = begun(desk)
        outer = e.ActionBegan("outer", e.Effect.RESTORABLE, process=conductor)
        (first,) = desk.tb.parts.ledger.append([outer], run)
        inner = e.ActionBegan("inner", e.Effect.RESTORABLE, process=conductor, parent=first.id)
        (second,) = desk.tb.parts.ledger.append([inner], run)
        desk.tb.recover()
        assert not desk.tb.notices
    desk.tb.recover()
    assert [notice.partition(" ")[0] for notice in desk.tb.notices] == [second.id, first.id]


def test_a_run_that_died_after_it_took_itself_back_without_proof_is_handed_over(desk: Desk) -> None:
    run = begun(desk)
    ledger = desk.tb.parts.ledger
    id = ledger.append([e.ActionBegan("tool", e.Effect.RESTORABLE)], run)[0].id
    ledger.append([e.ActionEnded(id, e.Outcome.DONE)], run)
    rollback = ledger.append([e.RollbackBegan(e.RollbackKind.UNDO, (id,), ())], run)[0].id
    ledger.append([e.RollbackEnded(rollback, (e.Item(FILE, e.Did.FAILED, settles=(id,)),), ())], run)
    life, said = settled(desk, run)
    assert life is Life.HANDED_OVER and f"not all that {rollback} took back could be verified" in said
