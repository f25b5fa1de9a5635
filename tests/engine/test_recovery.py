"""What a crash left open: the questions that are asked of the history before anything is settled."""

from __future__ import annotations

import pytest

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.engine.tracking import recovery
from tests.core.story import Story

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
    assert f"of what {rollback} took back, not all could be verified" in why(story, run)
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
    took_back(story, run, second, verified=False)
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
