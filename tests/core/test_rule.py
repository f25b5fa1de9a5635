"""The take-back rule: examples a person can read, then any interleaving that hypothesis can think of."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.core import selection as select
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.events import (
    ActionBegan,
    ActionEnded,
    ChangesSeen,
    Did,
    Effect,
    Item,
    Outcome,
    RollbackKind,
)
from takeback.core.rollback import (
    Do,
    OnConflict,
    Verdict,
    compose,
    doubtful_among,
    judge,
    passed_over,
    plan_rollback,
    unknown_among,
)
from tests.core.story import Story, version
from tests.sampling import examples

UNDO, REDO = RollbackKind.UNDO, RollbackKind.REDO
KEEP, MERGE, OVERWRITE = OnConflict.KEEP, OnConflict.MERGE, OnConflict.OVERWRITE


def a(name: str) -> Target:
    return Target("files", name)


def test_an_edit_goes_back_and_a_new_file_goes_away() -> None:
    story = Story()
    story.edit("old", "v1", seen=True)
    story.act({"old": "v2", "new": "x"})
    plan = story.plan(select.last_action(story.history))
    assert {i.target.name: i.do for i in plan.items} == {"old": Do.RESTORE, "new": Do.REMOVE}
    story.carry_out(plan, UNDO)
    assert story.world[a("old")] == version("v1") and not story.world[a("new")]


def test_changes_of_one_target_compose_and_undo_is_idempotent() -> None:
    story = Story()
    first = story.act({"f": "1"})
    second = story.act({"f": "2"})
    chosen = select.of_ids(story.history, [first, second])
    (item,) = story.plan(chosen).items
    assert (item.present, item.goal, item.settles) == (version("2"), ABSENT, (first, second))
    story.world[a("f")] = ABSENT
    assert story.plan(chosen).items[0].do is Do.ALREADY


def test_a_gap_is_somebody_elses_version() -> None:
    story = Story()
    first = story.act({"f": "agent1"})
    story.edit("f", "human", seen=False)
    second = story.act({"f": "agent2"})
    chosen = select.of_ids(story.history, [first, second])
    assert story.plan(chosen).conflicts
    kept = story.plan(chosen, KEEP).items[0]
    assert (kept.do, kept.goal) == (Do.RESTORE, version("human"))
    assert story.plan(chosen, OVERWRITE).items[0].goal == ABSENT
    merging = story.plan(chosen, MERGE).items[0]
    assert merging.do is Do.MERGE and merging.goal == version("human")
    assert [(m.base, m.goal) for m in merging.merges] == [(version("agent1"), ABSENT)]


@pytest.mark.parametrize("choice", [OnConflict.STOP, KEEP, MERGE])
def test_what_has_parts_is_merged_whatever_was_chosen(choice: OnConflict) -> None:
    story = Story()
    mine = story.act({"db": "agent"})
    story.edit("db", "agent and human", seen=True)
    chosen = select.of_ids(story.history, [mine])
    (item,) = plan_rollback(
        story.history, chosen, story.present, on_conflict=choice, divisible=lambda _: True
    ).items
    assert item.do is Do.MERGE
    assert [(m.base, m.goal) for m in item.merges] == [(version("agent"), ABSENT)]


def test_merges_pile_up_where_there_are_several_gaps() -> None:
    story = Story()
    ids = []
    for name in ("agent1", "agent2"):
        ids.append(story.act({"f": name}))
        story.edit("f", f"human after {name}", seen=False)
    merging = story.plan(select.of_ids(story.history, ids), MERGE).items[0]
    assert [m.base.id for m in merging.merges] == ["agent2", "agent1"]


def test_a_human_edit_after_is_a_conflict_unless_kept() -> None:
    story = Story()
    story.act({"f": "agent", "g": "agent"})
    story.edit("f", "human", seen=False)
    chosen = select.last_action(story.history)
    plan = story.plan(chosen)
    assert [item.target.name for item in plan.conflicts] == ["f"]
    story.carry_out(story.plan(chosen, KEEP), UNDO)
    assert story.world == {a("f"): version("human"), a("g"): ABSENT}
    # Kept by choice is dealt with: the next undo does not come back to it.
    assert not select.last_action(story.history)


def test_a_later_action_that_is_not_selected_is_named() -> None:
    story = Story()
    first = story.act({"f": "1"})
    second = story.act({"f": "2"})
    (item,) = story.plan(select.of_ids(story.history, [first])).items
    assert item.do is Do.CONFLICT and item.blockers == (second,)


def test_a_conflict_says_who_changed_it_since() -> None:
    story = Story()
    story.act({"f": "0"})
    first = story.act({"f": "1"})
    chosen = select.of_ids(story.history, [first])

    def why() -> str:
        (item,) = story.plan(chosen).conflicts
        return item.why

    story.edit("f", "mine", seen=False)
    assert why() == "you changed it since", "neither what is taken back did, nor what came before it"
    story.edit("f", "1", seen=False)
    second = story.act({"f": "2"})
    assert why() == f"{second} changed it since"
    story.edit("f", "3", seen=True)
    assert why() == "you changed it since"


def test_a_shared_change_needs_both_makers() -> None:
    story = Story()
    other = story.act({"x": "1"})
    mine = story.act({"f": "either"}, shared_with=(other,))
    for alone in (mine, other):
        plan = story.plan(select.of_actions(story.history, [alone], lambda t: t.name == "f"))
        assert [i.why for i in plan.conflicts] == [f"{mine} or {other} changed it, while both were running"]
    both = story.plan(select.of_ids(story.history, [mine, other]))
    assert not both.conflicts
    assert set(both.items[0].settles) == {mine, other}
    alone_kept = story.plan(select.of_ids(story.history, [mine]), KEEP).items[0]
    assert alone_kept.do is Do.KEEP
    assert story.plan(select.of_ids(story.history, [mine]), MERGE).conflicts


def test_what_is_gone_is_put_back_whoever_removed_it() -> None:
    """That destroys nothing. What somebody has put in its place since is another matter."""
    story = Story()
    story.act({"f": "work"})
    id = story.act({"f": ""}, in_doubt=True)
    (item,) = story.plan(select.of_ids(story.history, [id])).items
    assert (item.do, item.goal.id) == (Do.RESTORE, "work")
    story.edit("f", "mine", seen=True)
    (item,) = story.plan(select.of_ids(story.history, [id])).items
    assert (item.do, item.why) == (Do.CONFLICT, "it is in doubt who changed it")


def test_a_change_in_doubt_is_a_conflict() -> None:
    story = Story()
    story.act({"f": "?"}, in_doubt=True)
    assert story.plan(select.last_action(story.history)).conflicts[0].why == "it is in doubt who changed it"


def test_what_is_in_doubt_is_kept_and_called_so_although_its_own_action_wrote_it_again() -> None:
    """A killed agent writes the same file again: only the times of its second write could be taken back."""
    story = Story()
    target = Target("files", "f")
    first = story.act({"f": "x"}, in_doubt=True)
    again = Version("x", stamp="later")
    began = story.tell(ActionBegan("tool", Effect.RESTORABLE))
    story.tell(ActionEnded(began.id, Outcome.DONE, (Change(target, story.world[target], again),)))
    story.world[target] = again
    (item,) = story.plan(select.of_ids(story.history, [first, began.id]), KEEP).items
    assert (item.do, item.why) == (Do.KEEP, "it is in doubt who changed it")
    assert not item.changes_something


def test_overwriting_goes_to_what_was_there_before_the_first_change_and_not_before_a_mere_touch() -> None:
    story = Story()
    target = a("f")
    old, touched, new = Version("x", stamp="old"), Version("x", stamp="touched"), Version("y")
    ids = []
    for before, after in ((old, touched), (touched, new)):
        began = story.tell(ActionBegan("tool", Effect.RESTORABLE))
        story.tell(ActionEnded(began.id, Outcome.DONE, (Change(target, before, after, in_doubt=True),)))
        ids.append(began.id)
    story.world[target] = Version("somebody else's")
    (item,) = story.plan(select.of_ids(story.history, ids), OVERWRITE).items
    assert item.do is Do.RESTORE and item.goal.alike(touched)


def written(*steps: tuple[str, str]) -> tuple[Story, list[str]]:
    """A story of one file: each version with who wrote it, for sure, perhaps, or a human without a word."""
    story = Story()
    ids = []
    for text, who in steps:
        if who == "unseen":
            story.edit("f", text, seen=False)
        else:
            ids.append(story.act({"f": text}, in_doubt=who == "doubt"))
    return story, ids


@pytest.mark.parametrize(
    "steps, do",
    [
        ([("1", "sure"), ("2", "doubt")], Do.CONFLICT),
        ([("1", "doubt"), ("2", "sure")], Do.CONFLICT),
        ([("1", "doubt"), ("2", "doubt")], Do.CONFLICT),
        # All is as before, and nobody else wrote in between: then it does not matter whose it was.
        ([("b", "unseen"), ("1", "sure"), ("b", "doubt")], Do.ALREADY),
        ([("b", "unseen"), ("1", "doubt"), ("2", "sure"), ("b", "doubt")], Do.ALREADY),
        # Somebody did: of three segments just two follow each other.
        ([("1", "doubt"), ("human", "unseen"), ("2", "doubt"), ("", "doubt")], Do.CONFLICT),
        ([("b", "unseen"), ("1", "doubt"), ("2", "doubt"), ("human", "unseen"), ("b", "doubt")], Do.CONFLICT),
        # It went, and somebody put something else there since.
        ([("b", "unseen"), ("1", "doubt"), ("b", "doubt"), ("human", "unseen")], Do.CONFLICT),
        # It is as it was, but by another's hand.
        ([("b", "unseen"), ("1", "doubt"), ("2", "doubt"), ("b", "unseen")], Do.CONFLICT),
    ],
)
def test_what_is_in_doubt_is_a_conflict_unless_it_came_and_went(steps: list[tuple[str, str]], do: Do) -> None:
    story, ids = written(*steps)
    (item,) = story.plan(select.of_ids(story.history, ids)).items
    assert item.do is do


@pytest.mark.parametrize("present", ["", "a", "else"])
def test_once_something_is_to_be_merged_all_before_it_is_too(present: str) -> None:
    story, ids = written(("a", "sure"), ("h", "unseen"), ("b", "sure"), (present, "unseen"))
    (item,) = story.plan(select.of_ids(story.history, ids), MERGE).items
    assert (item.do, item.goal) == (Do.MERGE, version(present))
    assert [(m.base.id, m.goal.id) for m in item.merges] == [("b", "h"), ("a", "absent")]


def test_blockers_are_those_who_wrote_later_are_not_selected_and_stand() -> None:
    story = Story()
    _, first, other, taken = (story.act({"f": n}) for n in "1234")
    rollback = story.carry_out(story.plan(select.of_ids(story.history, [taken])), UNDO)
    last = story.act({"f": "5"})
    (item,) = story.plan(select.of_ids(story.history, [first, last])).items
    assert item.do is Do.CONFLICT and item.blockers == (other, rollback)


def test_only_those_who_were_chosen_are_settled() -> None:
    story = Story()
    other = story.act({"x": "1"})
    mine = story.act({"f": "either"}, shared_with=(other,))
    assert story.plan(select.of_ids(story.history, [mine]), KEEP).items[0].settles == (mine,)


def test_undo_walks_back_and_redo_walks_forward() -> None:
    story = Story()
    for n in "123":
        story.act({"f": n})
    seen = [story.world[a("f")].id]
    for _ in range(3):
        story.carry_out(story.plan(select.last_action(story.history)), UNDO)
        seen.append(story.world[a("f")].id)
    assert not select.last_action(story.history)
    for _ in range(3):
        story.carry_out(story.plan(select.last_rollback(story.history)), REDO)
        seen.append(story.world[a("f")].id)
    assert not select.last_rollback(story.history)
    assert seen == ["3", "2", "1", "absent", "1", "2", "3"]


def test_redo_of_a_rollback_that_kept_something_makes_it_open_again() -> None:
    story = Story()
    action = story.act({"f": "agent", "g": "agent"})
    story.edit("f", "human", seen=True)
    story.carry_out(story.plan(select.last_action(story.history), KEEP), UNDO)
    assert story.history.live(action) == []
    redo = story.plan(select.last_rollback(story.history))
    assert {i.target.name: i.do for i in redo.items} == {"f": Do.ALREADY, "g": Do.RESTORE}
    story.carry_out(redo, REDO)
    assert {entry.target.name for entry in story.history.live(action)} == {"f", "g"}
    assert story.world[a("f")] == version("human")


def test_bare_items_of_targets_nobody_recorded_have_no_version() -> None:
    story = Story()
    story.act({"f": "agent"})
    undo = story.carry_out(story.plan(select.last_action(story.history)), UNDO)
    (entry,) = story.history.entries(undo)
    chosen = select.Selection((undo,), (), ((undo, Target("files", "never")), (undo, entry.target)))
    assert [i.goal for i in story.plan(chosen).items] == [Version("unknown"), ABSENT]


def test_undo_of_one_path_leaves_the_rest_of_the_action() -> None:
    story = Story()
    action = story.act({"f": "1", "g": "1"})
    only_f = select.last_action(story.history, lambda target: target.name == "f")
    story.carry_out(story.plan(only_f), UNDO)
    assert [entry.target.name for entry in story.history.live(action)] == ["g"]
    assert not select.last_action(story.history, lambda target: target.name == "f")


def test_a_plan_can_be_decided_otherwise_for_one_target() -> None:
    story = Story()
    story.act({"f": "1", "g": "1"})
    plan = story.plan(select.last_action(story.history))
    first = plan.items[0]
    other = type(first)(first.target, Do.KEEP, first.present, first.present, first.settles)
    assert plan.decided({other.target: other}).swaps == plan.swaps[1:]
    assert plan.decided({}) is plan


def touch(story: Story, mtime: str, content: str = "same") -> str:
    """An action that leaves the content, or changes it, and sets the time."""
    began = story.tell(ActionBegan("touch", Effect.RESTORABLE))
    change = Change(a("f"), story.world[a("f")], Version(content, mtime))
    story.world[a("f")] = change.after
    story.tell(ActionEnded(began.id, Outcome.DONE, (change,)))
    return began.id


def test_a_touched_file_gets_its_time_back() -> None:
    story = Story()
    story.world[a("f")] = Version("same", "t0")
    touch(story, "t1")
    (item,) = story.plan(select.last_action(story.history)).items
    assert item.do is Do.RESTORE and item.goal.alike(Version("same", "t0"))
    story.world[a("f")] = Version("same", "t0")
    assert story.plan(select.last_action(story.history)).items[0].do is Do.ALREADY


def test_a_time_alone_is_no_conflict() -> None:
    story = Story()
    story.world[a("f")] = Version("same", "t0")
    action = touch(story, "t1")
    story.world[a("f")] = Version("a human's", "t2")
    assert story.plan(select.of_ids(story.history, [action])).items[0].do is Do.ALREADY
    # A content change is taken back although the time moved since.
    story.world[a("f")] = Version("same", "t1")
    touch(story, "t3", "agent's")
    story.world[a("f")] = Version("agent's", "t4")
    (item,) = story.plan(select.last_action(story.history)).items
    assert item.do is Do.RESTORE and item.goal.alike(Version("same", "t1"))


def test_an_edit_and_its_reversal_leave_only_the_time_to_restore() -> None:
    story = Story()
    story.world[a("f")] = Version("A", "t0")
    actions = [touch(story, "t1", "B"), touch(story, "t2", "A")]
    (item,) = story.plan(select.of_ids(story.history, actions)).items
    assert item.do is Do.RESTORE and item.goal.alike(Version("A", "t0"))


@pytest.mark.parametrize(
    "items, verdict",
    [
        ([], Verdict.NOTHING),
        ([Item(a("f"), Did.RESTORED, verified=True)], Verdict.CLEAN),
        ([Item(a("f"), Did.KEPT, verified=True)], Verdict.CLEAN),
        ([Item(a("f"), Did.RESTORED)], Verdict.PARTIAL),
        ([Item(a("f"), Did.FAILED, verified=True)], Verdict.PARTIAL),
        ([Item(a("f"), Did.RESTORED, verified=True), Item(a("g"), Did.RESTORED)], Verdict.PARTIAL),
        ([Item(a("f"), Did.RESTORED), Item(a("g"), Did.RESTORED, verified=True)], Verdict.PARTIAL),
        ([Item(a("f"), Did.KEPT, verified=True), Item(a("g"), Did.CONFLICT, verified=True)], Verdict.PARTIAL),
    ],
)
def test_verdicts(items: list[Item], verdict: Verdict) -> None:
    assert judge(items) is verdict
    # An effect that is not known makes no more of it than unknown, and nothing that failed less than partial.
    assert judge(items, ["a1"]) is (Verdict.PARTIAL if verdict is Verdict.PARTIAL else Verdict.UNKNOWN)


def test_an_undo_names_the_actions_whose_effects_are_unknown() -> None:
    story = Story()
    known = story.act({"f": "1"})
    unknown = story.act({"g": "1"}, effect=Effect.UNKNOWN)
    every = [known, unknown, "r2"]
    assert unknown_among(story.history, UNDO, every) == (unknown,)
    assert unknown_among(story.history, REDO, every) == unknown_among(story.history, UNDO, [known]) == ()
    rollback = story.carry_out(story.plan(select.of_ids(story.history, [unknown])), UNDO)
    assert unknown_among(story.history, UNDO, every) == (), "it was said when it was taken back"
    assert unknown_among(story.history, UNDO, [rollback]) == ()


def test_actions_that_may_have_changed_what_an_undo_keeps_are_named() -> None:
    story = Story()
    sure = story.act({"f": "1", "g": "1"})
    doubtful = story.act({"h": "1"}, in_doubt=True)
    shared = story.act({"i": "1"}, shared_with=(sure,))
    every, kept = [sure, doubtful, shared, "r9"], {a("f"), a("h"), a("i")}
    among = partial(doubtful_among, story.history)
    assert among(UNDO, every, kept) == (doubtful,), "what all who share it are taken back for is in no doubt"
    assert among(UNDO, [shared], kept) == (shared,) and among(UNDO, [sure], kept) == (sure,)
    assert among(UNDO, [sure], {a("f")}) == (), (
        "somebody else changed it later: whose its change was is no doubt"
    )
    assert among(UNDO, every, {a("g")}) == among(UNDO, every, ()) == among(REDO, every, kept) == ()
    unsure = story.tell(ActionBegan("tool", Effect.RESTORABLE)).id
    change = Change(a("j"), version(""), version("1"))
    story.tell(ActionEnded(unsure, Outcome.DONE, (change,), unsure=True))
    assert among(UNDO, [unsure], {a("j")}) == (unsure,)


def test_actions_that_an_undo_passes_over_are_named_until_the_next_rollback() -> None:
    story = Story()

    def over(of: Collection[str]) -> tuple[str, ...]:
        return tuple(action.id for action in passed_over(story.history, of))

    assert over(()) == ()
    before = story.act({}, effect=Effect.UNKNOWN)
    changed = story.act({"f": "1"})
    later = [story.act({}, effect=Effect.UNKNOWN), story.act({}, effect=Effect.IRREVERSIBLE)]
    story.act({"g": "1"})
    assert over([changed]) == tuple(later)
    assert over(()) == (before, *later)
    story.carry_out(story.plan(select.of_ids(story.history, [changed])), UNDO)
    assert over(()) == ()
    after = story.act({}, effect=Effect.UNKNOWN)
    assert over(()) == (after,)


def test_an_undo_names_an_unknown_action_that_may_have_made_what_it_takes_back() -> None:
    story = Story()
    known = story.act({"f": "1"})
    unknown = story.act({"g": "1"}, effect=Effect.UNKNOWN, shared_with=(known,))
    assert unknown_among(story.history, UNDO, [known]) == (unknown,)
    both = story.plan(select.of_ids(story.history, [known, unknown]))
    story.carry_out(both, UNDO)
    assert unknown_among(story.history, UNDO, [known]) == ()


# Any interleaving of two agents and a human

names = st.sampled_from(["f", "g", "h"])
versions = st.sampled_from(["", "1", "2", "3"])
moves = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["one", "two"]), st.dictionaries(names, versions, min_size=1)),
        st.tuples(st.sampled_from(["human", "unseen"]), st.tuples(names, versions)),
    ),
    max_size=14,
)


def play(moves: list[tuple[str, Any]]) -> tuple[Story, dict[str, str]]:
    story = Story()
    runs = {"one": story.run(), "two": story.run()}
    for who, what in moves:
        if who in runs:
            story.act(what, runs[who])
        else:
            story.edit(*what, seen=who == "human")
    return story, runs


@given(moves, st.sampled_from([OnConflict.STOP, KEEP, OVERWRITE]))
@settings(max_examples=examples(400), deadline=None)
def test_taking_back_one_run_touches_only_its_own_versions(
    moves: list[tuple[str, Any]], choice: OnConflict
) -> None:
    story, runs = play(moves)
    before = dict(story.world)
    chosen = select.of_ids(story.history, [runs["one"]])
    plan = story.plan(chosen, choice)
    changes = [entry.change for entry in chosen.entries]
    written = {(c.target, c.after.id) for c in changes}
    started = {(c.target, c.before.id) for c in changes}
    if plan.conflicts:
        assert choice is OnConflict.STOP
        return
    story.carry_out(plan, UNDO)
    for target, now in story.world.items():
        was = before.get(target, ABSENT)
        if was == now:
            continue
        # Only a target of that run moves, and only to a version that the run had found there.
        assert (target, now.id) in started
        if choice is not OVERWRITE:
            # Nothing is overwritten but what the run itself had written.
            assert (target, was.id) in written
    if choice is OVERWRITE:
        for target in {c.target for c in changes}:
            segments = compose([entry for entry in chosen.entries if entry.target == target], chosen.actions)
            lasting = [segment for segment in segments if not segment.only_stamp]
            assert not lasting or story.world[target] == lasting[0].before


@given(moves, st.sampled_from([OnConflict.STOP, KEEP, OVERWRITE]))
@settings(max_examples=examples(400), deadline=None)
def test_redo_after_undo_is_the_identity(moves: list[tuple[str, Any]], choice: OnConflict) -> None:
    story, runs = play(moves)
    before = dict(story.world)
    chosen = select.of_ids(story.history, [runs["one"]])
    plan = story.plan(chosen, choice)
    if plan.conflicts or not plan.items:
        return
    undo = story.carry_out(plan, UNDO)
    assert not select.of_ids(story.history, [runs["one"]])
    redo = select.last_rollback(story.history)
    assert redo.actions == (undo,)
    again = story.plan(redo)
    assert not again.conflicts
    story.carry_out(again, REDO)
    assert dict(story.world) == before
    assert select.of_ids(story.history, [runs["one"]]) == chosen


@given(moves)
@settings(max_examples=examples(200), deadline=None)
def test_a_run_alone_in_the_world_is_taken_back_exactly(moves: list[tuple[str, Any]]) -> None:
    story, runs = play([("one", what) for who, what in moves if who in ("one", "two")])
    story.carry_out(story.plan(select.of_ids(story.history, [runs["one"]])), UNDO)
    assert not any(story.world.values())


@given(moves, st.lists(st.integers(0, 2), max_size=8))
@settings(max_examples=examples(200), deadline=None)
def test_a_plan_cut_short_can_be_made_again(moves: list[tuple[str, Any]], done: list[int]) -> None:
    story, runs = play(moves)
    chosen = select.of_ids(story.history, [runs["one"]])
    plan = story.plan(chosen)
    if plan.conflicts:
        return
    whole = {**story.world, **{c.target: c.after for c in plan.swaps}}
    for index in done:
        if index < len(plan.swaps):
            story.world[plan.swaps[index].target] = plan.swaps[index].after
    for change in plan.swaps:
        assert story.world[change.target] in (change.before, change.after)
        story.world[change.target] = change.after
    assert story.world == whole


@pytest.mark.parametrize("unsure", [False, True])
def test_all_that_was_seen_of_an_action_is_in_doubt_if_nobody_knows_when_it_ended(unsure: bool) -> None:
    """A human may have written it while the action only seemed to be at work."""
    story = Story()
    action = story.tell(ActionBegan("tool", Effect.RESTORABLE)).id
    story.world[a("f")] = version("x")
    story.tell(ChangesSeen(action, (Change(a("f"), ABSENT, version("x")),)))
    story.tell(ActionEnded(action, Outcome.FAILED, unsure=unsure))
    (item,) = story.plan(select.of_ids(story.history, [action])).items
    assert item.do is (Do.CONFLICT if unsure else Do.REMOVE)
    assert ("in doubt" in item.why) is unsure


def test_what_is_in_doubt_but_came_and_went_is_as_before_already() -> None:
    story = Story()
    story.act({"tmp": "x"}, in_doubt=True)
    id = story.act({"tmp": ""}, in_doubt=True)
    first = next(iter(story.history.actions))
    (item,) = story.plan(select.of_ids(story.history, [first, id])).items
    assert item.do is Do.ALREADY


def test_what_an_undo_kept_is_known() -> None:
    story = Story()
    id = story.act({"f": "agent"})
    story.edit("f", "human", seen=False)
    assert story.history.kept(id) == []
    story.carry_out(story.plan(select.of_ids(story.history, [id]), KEEP), UNDO)
    assert [entry.target for entry in story.history.kept(id)] == [a("f")]


def test_what_was_kept_is_not_selected_again_with_its_run() -> None:
    story = Story()
    run = story.run()
    story.act({"f": "agent"}, run)
    story.edit("f", "human", seen=False)
    story.carry_out(story.plan(select.of_run(story.history, run, 0), KEEP), UNDO)
    assert select.of_run(story.history, run, 0).entries == ()


def test_a_version_that_nobody_could_look_at() -> None:
    assert Version("x", data={"unknown": True}).is_unknown
    assert not Version("x", data={"rows": 1}).is_unknown and not Version("x").is_unknown
