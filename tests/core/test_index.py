"""A history that begins with an index answers every question as the fold of the whole journal does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.core import events as e
from takeback.core import memory, past, recollection
from takeback.core.change import ABSENT, Change, Target
from takeback.core.entities import ManyEntries
from takeback.core.history import History
from takeback.core.intents import IntentDeferred, IntentsReleased, IntentState
from takeback.core.lifecycle import Life
from takeback.core.postings import Flag, Postings, Topic, every
from takeback.core.recollection import MANY
from takeback.core.record import Record
from tests.core.answers import answers, plain
from tests.core.list_index import ListIndex
from tests.core.random_story import RandomStory
from tests.core.story import Story, version
from tests.core.told import Told
from tests.sampling import examples


@given(
    st.integers(0, 2**32),
    st.integers(5, 60),
    st.lists(st.integers(0, 100), max_size=4),
    st.sampled_from([1, 2, MANY]),
)
@settings(max_examples=examples(300), deadline=None)
def test_an_index_answers_as_the_fold_does(seed: int, moves: int, at: list[int], many: int) -> None:
    told = RandomStory(Random(seed))
    told.play(moves)
    whole = answers(History.of(told.records))
    index = ListIndex(told.records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recollection, "MANY", many)  # so many changes of an open action are at hand
        for percent in sorted(at):
            history = index.opened_until(len(told.records) * percent // 100)
            index.take_in(history)
        history = index.opened()
        assert answers(history) == whole
        index.take_in(history)  # it goes on with what is open at hand, and nothing else
        assert answers(history) == whole


@pytest.mark.parametrize("many", [1, 2, MANY])
@pytest.mark.parametrize("seed", range(6))
def test_a_history_that_goes_on_and_on_answers_as_the_fold_does(
    seed: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recollection, "MANY", many)
    told = RandomStory(Random(seed))
    index = ListIndex(told.records)
    history = index.opened()
    for turn in range(12):
        told.play(6)
        for record in told.records[history.seq :]:
            history.apply(record)
        if turn % 3 == 2:
            index.take_in(history)
        assert answers(history) == answers(History.of(told.records))


def indexed(records: list[Record]) -> History:
    """A history of which everything is in an index, and nothing but what is open is at hand."""
    index = ListIndex(records)
    history = index.opened()
    index.take_in(history)
    return history


def test_a_record_with_very_many_changes_is_searched_once() -> None:
    story = Story()
    records = [story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE))]
    changes = tuple(Change(Target("files", f"f{n}"), ABSENT, version("1")) for n in range(MANY + 10))
    records.append(story.tell(e.ActionEnded("a1", e.Outcome.DONE, changes)))
    history = indexed(records)
    for n in (0, 5, MANY + 9):
        (entry,) = history.timeline(Target("files", f"f{n}"))
        assert (entry.action, entry.change) == ("a1", changes[n])
    assert history.timeline(Target("files", "other")) == []
    assert history.latest(Target("files", "f7")) == version("1")


def test_what_there_is_not_is_not_found_in_an_index() -> None:
    story = Story()
    records = [story.tell(e.RunBegan("agent"), ""), story.tell(e.CheckpointTaken("one"))]
    history = indexed(records)
    assert history.runs.get("r2") is None and "a1" not in history.actions and "p1" not in history.approvals
    assert "c1" not in history.checkpoints and "i1" not in history.intents.every and "r9" not in history.runs
    assert "c2" in history.checkpoints and "x" not in history.checkpoints
    with pytest.raises(KeyError):
        history.actions["a2"]
    assert history.run_of_step("s1") == "" and history.runs_of_key("K") == []
    assert history.count(Topic.RUNS) == history.count(Topic.CHECKPOINTS) == 1


def test_a_checkpoint_that_came_later_is_not_known_yet() -> None:
    story = Story()
    records = [story.tell(e.CheckpointTaken("one"))]
    history = indexed(records)
    records.append(story.tell(e.CheckpointTaken("two")))  # by another process
    assert "c2" not in history.checkpoints
    history.apply(records[1])
    assert "c2" in history.checkpoints


def test_what_a_run_releases_at_once_may_be_very_much() -> None:
    told = RandomStory(Random(0))
    run = told.tell(e.RunBegan("agent"), "").id
    action = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run).id
    deferred = [
        told.tell(IntentDeferred("email", "email", f"k{n}", action, f"d{n}"), run).id for n in range(150)
    ]
    index = ListIndex(told.records)
    history = index.opened()
    index.take_in(history)
    assert [intent.id for intent in history.intents.held(run)] == deferred
    released = told.tell(IntentsReleased(tuple(deferred[:140])), run)
    history.apply(released)
    assert not history.intents.every.at_hand
    assert [intent.id for intent in history.intents.held(run)] == deferred[140:]
    assert history.intents.every[deferred[0]].state is IntentState.DUE
    assert answers(history) == answers(History.of(told.records))


def test_a_rollback_may_name_a_checkpoint_and_a_change_may_be_shared_with_anything() -> None:
    told = RandomStory(Random(0))
    f = Target("files", "f")
    action = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id
    twice = (
        Change(f, ABSENT, version("1"), (action, "a99", "odd")),
        Change(f, version("1"), version("2"), ("a99",)),
    )
    told.tell(e.ActionEnded(action, e.Outcome.DONE, twice))
    checkpoint = told.tell(e.CheckpointTaken("one")).id
    rollback = told.tell(e.RollbackBegan(e.RollbackKind.RESTORE, (checkpoint, action))).id
    told.tell(e.RollbackEnded(rollback, ()))
    whole = History.of(told.records)
    assert whole.actions[action].named_by == [rollback]
    history = indexed(told.records)
    (first, second) = history.timeline(f)
    assert first.seq == second.seq and history.latest(f) == version("2")
    assert indexed(told.records).timeline(f, after=first.seq - 1) == [first, second]
    assert indexed(told.records).timeline(f, after=first.seq) == []
    assert answers(history) == answers(whole)


def test_one_record_may_tell_of_what_two_runs_remember() -> None:
    told = RandomStory(Random(0))
    one, two = told.tell(e.RunBegan("one"), "").id, told.tell(e.RunBegan("two"), "").id
    action = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), one).id
    changes = [*memory.changes(one, {}, {"/a": 1}), *memory.changes(two, {}, {"/a": 2})]
    told.tell(e.ChangesSeen(action, tuple(changes)), one)
    told.tell(e.RunEnded(e.Outcome.DONE), two)
    history = indexed(told.records)
    assert (history.memory_of(one), history.memory_of(two)) == ({"/a": 1}, {"/a": 2})


def test_what_is_over_can_be_dropped_and_read_again() -> None:
    told = RandomStory(Random(3))
    told.play(40)
    history = indexed(told.records)
    whole = answers(history)
    asked = len(history.actions.at_hand)
    kinds = (history.runs, history.actions, history.checkpoints, history.approvals, history.intents.every)
    every = sum(len(kind.at_hand) for kind in kinds)
    history.trim(every)
    assert len(history.actions.at_hand) == asked
    history.trim(every - 1)
    still = {action.id for life in (Life.OPEN, Life.BACKGROUND) for action in history.open_actions(life)}
    assert set(history.actions.at_hand) == still and len(still) < asked
    assert answers(history) == whole
    everything = History.of(told.records)
    everything.trim(0)
    assert len(everything.actions.at_hand) == asked  # without an index nothing could be read again


def test_an_open_run_has_none_of_its_calls_and_intents_at_hand() -> None:
    told = RandomStory(Random(0))
    run = told.tell(e.RunBegan("agent", folder="/w"), "").id
    body = told.tell(e.ActionBegan("body", e.Effect.RESTORABLE, marks=(e.Mark("files", "t"),)), run).id
    calls, intents = [], []
    for n in range(3 * MANY):
        intents.append(told.tell(IntentDeferred("email", "email", f"k{n}", body, f"d{n}"), run).id)
        calls.append(told.tell(e.ActionBegan("call", e.Effect.RESTORABLE, key=f"c{n}"), run).id)
        told.tell(e.ActionEnded(calls[-1], e.Outcome.DONE), run)
    whole = History.of(told.records)
    assert whole.unseen() == calls and list(whole.runs[run].actions) == [body, *calls]
    index = ListIndex(told.records)
    index.take_in(index.opened())
    history = index.opened()
    for _ in range(2):  # as a process that comes later, and as one that has asked for everything
        index.read.clear()
        (open_one,) = history.open_actions()
        assert history.open_runs()[0].actions and calls[9] in history.runs[run].actions
        assert set(history.actions.at_hand) <= {body} and len(index.read) <= 2
        assert open_one.made and len(index.read) <= 2 + MANY
        made = [entry.target.name for entry in history.actions[body].made]
        assert made == intents == [entry.target.name for entry in history.actions[body].made[:]]
        assert len(history.actions[body].made) == len(intents)
        assert history.unseen() == calls and "a2" not in history.runs[run].actions
        assert history.runs[run].actions[-1] == calls[-1] and "r2" not in history.runs[run].actions
        assert answers(history) == answers(whole)
        history.trim(0)


def test_an_open_action_sheds_its_changes_as_it_goes_on() -> None:
    told = RandomStory(Random(0))
    run = told.tell(e.RunBegan("agent", folder="/w"), "").id
    body = told.tell(e.ActionBegan("body", e.Effect.RESTORABLE), run).id
    index = ListIndex(told.records)
    history = index.opened()
    for turn in range(4):
        for n in range(MANY + 1):
            told.tell(IntentDeferred("email", "email", f"k{turn}-{n}", body, "d"), run)
            history.apply(told.records[-1])
        index.take_in(history)
        index.read.clear()
        (open_one,) = history.open_actions()
        assert isinstance(open_one.made, ManyEntries) and next(iter(open_one.made)).seq == 4
        assert len(index.read) <= MANY
        assert open_one.made[-1].seq == index.read[-1] == history.seq, "nothing stayed at hand"
        assert answers(history) == answers(History.of(told.records))


def _things(history: History, records: list[Record]) -> dict[str, Any]:
    """Return what a history says of the runs, actions and approvals that these records begin."""
    found: dict[str, Any] = {}
    for id in (record.id for record in records if record.id):
        if id in history.runs:
            run = history.runs[id]
            more = [len(run.actions), list(reversed(run.actions)), run.is_listed, history.memory_of(id)]
            found[id] = [plain(run), *more, plain(history.approvals_of(id))]
        elif id in history.actions:
            undone = [history.is_undone(id), history.is_half_undone(id), plain(history.live(id))]
            found[id] = [plain(history.actions[id]), *undone, history.inside(id)]
        elif id in history.approvals:
            found[id] = plain(history.approvals[id])
    return found


@given(st.integers(0, 2**32), st.integers(5, 60), st.integers(1, 100), st.integers(0, 100))
@settings(max_examples=examples(200), deadline=None)
def test_an_earlier_moment_is_as_the_fold_up_to_it(seed: int, moves: int, at: int, indexed: int) -> None:
    told = RandomStory(Random(seed))
    told.play(moves)
    records = told.records
    until = max(1, len(records) * at // 100)
    index = ListIndex(records)
    index.take_in(index.opened_until(len(records) * indexed // 100))
    history = index.opened()
    then = past.at(history, until, lambda seqs: [records[seq - 1] for seq in seqs])
    whole = History.of(records[:until])
    assert then.seq == until and _things(then, records[:until]) == _things(whole, records[:until])
    for record in records:
        if record.id and record.id[0] in "acps":
            assert record.seq in past.records_about(history, record.id)
    for id in history.checkpoints:
        fold = History.of(records[: int(id[1:])])
        assert history.runs_open_at(id) == sorted(
            (run.id for run in fold.open_runs()), key=lambda r: int(r[1:])
        )


def test_the_records_about_something_tell_when_it_began_and_ended() -> None:
    told = Told()
    checkpoint = told.tell(e.CheckpointTaken())
    run = told.tell(e.RunBegan("run"), "")
    step = told.tell(e.StepBegan("step"), run.id)
    action = told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE, step=step.id), run.id)
    asked = told.tell(e.ApprovalAsked("tool", e.Effect.RESTORABLE, "aa", 9), run.id)
    answered = told.tell(e.ApprovalAnswered(asked.id, granted=True))
    ended = told.tell(e.ActionEnded(action.id, e.Outcome.DONE), run.id)
    over = told.tell(e.StepEnded(step.id, e.Outcome.DONE), run.id)
    for history in told.every_way():
        assert past.records_about(history, checkpoint.id) == [checkpoint.seq]
        assert past.records_about(history, action.id) == [action.seq, ended.seq]
        assert past.records_about(history, asked.id) == [asked.seq, answered.seq]
        assert past.records_about(history, step.id) == [run.seq, step.seq, action.seq, over.seq]


def test_an_earlier_moment_counts_what_there_was() -> None:
    told = Told()
    for _ in range(5):
        told.tell(e.CheckpointTaken())
    for history in told.every_way():
        then = past.at(history, 3, lambda seqs: [told.records[seq - 1] for seq in seqs])
        key = every(Topic.CHECKPOINTS)
        assert then.postings.size(key) == 3 and then.postings.seqs(key) == [1, 2, 3]
        assert list(then.postings.after(key, 1)) == [2, 3]
        assert list(then.postings.newest(key)) == [3, 2, 1]
        assert list(then.postings.newest(key, below=2)) == [1]


def test_an_earlier_moment_has_no_flags() -> None:
    then = past.EarlierIndex(Postings(None), 3, lambda _: [])
    for ask in (
        lambda: then.flagged(Flag.UNKNOWN),
        lambda: then.count_flagged(Flag.UNKNOWN),
        lambda: then.flags(1),
        lambda: then.targets("files", ""),
    ):
        with pytest.raises(NotImplementedError):
            ask()


def test_the_approvals_of_a_plan_are_found_by_its_digest() -> None:
    story = Story()
    plans = [e.PlanApproved(digest, "plan") for digest in ("aa", "bb", "aa")]
    records = [story.tell(plan) for plan in plans]
    index = ListIndex(records)
    index.take_in(index.opened_until(1))
    for history in (story.history, index.opened()):
        assert history.plan_approvals("aa") == [1, 3]
        assert history.plan_approvals("bb") == [2]
        assert history.plan_approvals("cc") == []
