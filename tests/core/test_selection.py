"""What a person can name, and what they hear when it makes no sense."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from takeback.core import events as e
from takeback.core import ids
from takeback.core import selection as select
from takeback.core.change import Change, Target, Version, is_within
from takeback.core.entities import Checkpoint, RecordedAction
from takeback.core.history import History
from takeback.core.intents import IntentDeferred
from takeback.core.rollback import OnConflict
from takeback.core.trust import untrusted_since
from takeback.errors import ConflictError, UsageError
from tests.core.list_index import ListIndex
from tests.core.random_story import NAMES, RandomStory
from tests.core.story import Story, version
from tests.core.told import Told, change


def act_as(story: Story, actor: str, writes: dict[str, str], run: str = ids.WORKSPACE) -> str:
    """An action of this agent."""
    id = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE, actor=actor), run).id
    changes = []
    for name, text in writes.items():
        target = Target("files", name)
        changes.append(Change(target, story.world[target], version(text)))
        story.world[target] = version(text)
    story.tell(e.ActionEnded(id, e.Outcome.DONE, tuple(changes)), run)
    return id


def test_a_step_names_its_actions() -> None:
    story = Story()
    run = story.run()
    step = story.tell(e.StepBegan("edit"), run).id
    inside = story.act({"f": "1"}, run, step=step)
    story.act({"g": "1"}, run)
    assert select.of_ids(story.history, [step]).actions == (inside,)


def test_an_action_stands_for_what_happened_inside_of_it_too() -> None:
    story = Story()
    outer = story.tell(e.ActionBegan("agent", e.Effect.RESTORABLE)).id
    run = story.run()
    inner = story.tell(e.ActionBegan("call", e.Effect.RESTORABLE, parent=outer), run).id
    innermost = story.tell(e.ActionBegan("call", e.Effect.RESTORABLE, parent=inner), run).id
    story.act({"f": "1"}, run)
    assert select.of_ids(story.history, [outer]).actions == (outer, inner, innermost)


def test_what_happened_inside_of_an_action_is_in_the_order_of_its_beginning() -> None:
    story = Story()
    outer = story.tell(e.ActionBegan("tool", e.Effect.NONE)).id
    first = story.tell(e.ActionBegan("tool", e.Effect.NONE, parent=outer)).id
    deep = story.tell(e.ActionBegan("tool", e.Effect.NONE, parent=first)).id
    later = [story.tell(e.ActionBegan("tool", e.Effect.NONE, parent=outer)).id for _ in range(20)]
    assert select.inside(story.history, [outer]) == [outer, first, deep, *later]
    assert select.inside(story.history, [deep, outer]) == [deep, outer, first, *later]


def test_what_one_agent_did() -> None:
    story = Story()
    run = story.run()
    for actor in ("claude-code", "claude-code:Explore:a1", "codex"):
        id = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE, actor=actor), run).id
        change = Change(Target("files", actor), version(""), version("1"))
        story.tell(e.ActionEnded(id, e.Outcome.DONE, (change,)), run)
    main, helper, other = story.history.actions
    assert select.of_agent(story.history, "claude-code").actions == (main, helper)
    for name in ("Explore", "a1", "claude-code:Explore:a1"):
        assert select.of_agent(story.history, name).actions == (helper,)
    assert select.of_ids(story.history, [run], agent="codex").actions == (other,)
    with pytest.raises(UsageError, match="no agent 'a'"):
        select.of_agent(story.history, "a")


def test_an_agent_means_its_last_run_in_which_something_stands() -> None:
    story = Story()
    runs = [story.run() for _ in range(3)]
    made = [
        act_as(story, who, {name: "1"}, run)
        for run, who, name in [
            (runs[0], "claude-code", "f"),
            (runs[0], "codex", "g"),
            (runs[1], "claude-code:Explore:a1", "h"),
            (runs[2], "codex", "i"),
        ]
    ]
    history = story.history
    assert select.of_agent(history, "claude-code").actions == (made[2],)
    assert select.of_agent(history, "claude-code:Explore").actions == (made[2],)
    with pytest.raises(UsageError, match="no agent 'claude-code:Explore:a2'"):
        select.of_agent(history, "claude-code:Explore:a2")
    # What is not wanted, or does not stand any more, does not count.
    assert select.of_agent(history, "claude-code", lambda target: target.name == "f").actions == (made[0],)
    story.carry_out(story.plan(select.of_ids(history, [made[2]])), e.RollbackKind.UNDO)
    assert select.of_agent(history, "claude-code").actions == (made[0],)
    assert select.of_agent(history, "codex").actions == (made[3],)


def test_of_an_action_of_an_agent_one_wanted_target_is_enough() -> None:
    story = Story()
    mine = act_as(story, "codex", {"f": "1", "g": "1"})
    chosen = select.of_agent(story.history, "codex", lambda target: target.name == "g")
    assert chosen.actions == (mine,) and [entry.target.name for entry in chosen.entries] == ["g"]


def test_an_agent_that_did_nothing_is_told_who_did_something() -> None:
    story = Story()
    with pytest.raises(UsageError, match="no agent 'x'") as caught:
        select.of_agent(story.history, "x")
    assert "`takeback log`" in caught.value.hint
    agents = [f"agent{n}" for n in range(9)]
    for name in ("", *reversed(agents)):
        act_as(story, name, {"f": f"by {name}"})
    story.edit("f", "human", seen=True)
    with pytest.raises(UsageError) as caught:
        select.of_agent(story.history, "x")
    assert caught.value.hint == f"these have: {', '.join(agents[:8])}"


def test_who_took_something_back_is_not_an_agent_that_did_something() -> None:
    story = Story()
    act_as(story, "codex", {"f": "1"})
    change = Change(Target("files", "f"), version("1"), version(""))
    rollback = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, (), (change,), actor="ada")).id
    story.tell(e.RollbackEnded(rollback, (), (change,)))
    with pytest.raises(UsageError, match="no agent 'ada'"):
        select.of_agent(story.history, "ada")


def test_a_selection_is_something_where_a_change_or_a_word_is_to_be_taken_back() -> None:
    story = Story()
    story.act({"f": "1"})
    (entry,) = select.last_action(story.history).entries
    assert not select.Selection(("a1",), ())
    assert select.Selection((), (entry,)) and select.Selection((), (), (("a1", entry.target),))
    nothing = select.Selection((), ())
    assert select.last_action(Story().history) == select.last_rollback(Story().history) == nothing


def test_the_last_action_but_those_that_are_passed_over() -> None:
    story = Story()
    first, second = story.act({"f": "1"}), story.act({"g": "1"})
    assert select.last_action(story.history, passing=[second]).actions == (first,)
    assert select.last_action(story.history, passing=[first, second]).actions == ()


class Below(select.NarrowFilter):
    """A filter for a path and what is below it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, target: Target) -> bool:
        return target.resource == "files" and not target.root and is_within(target.name, self.path)

    def targets(self, history: History) -> Iterator[Target]:
        return history.targets("files", self.path)


@pytest.mark.parametrize("first", [0, 1, select.TRIED_FIRST])
@pytest.mark.parametrize("seed", range(40))
def test_the_last_action_at_a_path_is_found_by_the_records_of_that_path(
    seed: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "TRIED_FIRST", first)
    told = RandomStory(Random(seed))
    told.play(60)
    whole, index = History.of(told.records), ListIndex(told.records)
    index.take_in(index.opened_until(len(told.records) // 2))
    for path in ("", "d", *NAMES, "nothing"):
        narrow, passing = Below(path), list[str]()
        while True:
            expected = select.last_action(whole, narrow.__call__, passing)
            assert select.last_action(whole, narrow, passing) == expected
            assert select.last_action(index.opened(), narrow, passing) == expected
            if not expected:
                break
            passing += expected.actions


def test_an_action_that_began_later_is_the_last_one_though_another_one_ended_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(select, "TRIED_FIRST", 0)
    story = Story()
    long, short = (story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id for _ in range(2))
    for id, text in ((short, "1"), (long, "2")):
        made = Change(Target("files", "f"), version(""), version(text), ("a99",))  # shared with nobody known
        story.tell(e.ActionEnded(id, e.Outcome.DONE, (made,)))
    assert select.last_action(story.history, Below("f")).actions == (short,)


@pytest.mark.parametrize("first", [0, select.TRIED_FIRST])
def test_for_the_last_action_at_a_path_nothing_is_read_that_came_before_it(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "TRIED_FIRST", first)
    told = Told()
    changes = [change(Target("files", "f"), str(n), str(n + 1)) for n in range(9)]
    ends = [told.act(one) for one in changes]
    history = told.indexed()
    assert select.last_action(history, Below("f")).actions == (f"a{ends[-1].seq - 1}",)
    # By the flags, the action alone; by the path, its last change, and the one before to know that it is the last.
    by_path = {ends[-2].seq} if not first else set()
    assert set(told.taken()) == {ends[-1].seq - 1, ends[-1].seq} | by_path


def test_what_a_run_did_after_a_position() -> None:
    story = Story()
    run, other = story.run(), story.run()
    first = story.act({"f": "1"}, run)
    ended = story.history.seq
    long = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run)
    idle = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run)
    story.tell(e.ActionEnded(idle.id, e.Outcome.DONE), run)
    seen = Change(Target("files", "g"), version(""), version("1"))
    position = story.tell(e.ChangesSeen(long.id, (seen,)), run).seq
    story.tell(e.ChangesSeen(long.id, (Change(Target("files", "h"), version(""), version("1")),)), run)
    last = story.act({"i": "1"}, run)
    story.act({"j": "1"}, other)
    story.edit("k", "human", seen=True)

    def found(after: int) -> tuple[tuple[str, ...], list[str]]:
        chosen = select.of_run(story.history, run, after)
        return chosen.actions, [entry.target.name for entry in chosen.entries]

    assert found(0) == ((first, long.id, idle.id, last), ["f", "g", "h", "i"])
    assert found(ended) == ((long.id, idle.id, last), ["g", "h", "i"]), "it ended there, and not after it"
    assert found(idle.seq) == ((long.id, last), ["g", "h", "i"]), "it began there, and changed nothing later"
    assert found(position) == ((long.id, last), ["h", "i"])


def test_a_run_stands_for_its_actions_alone() -> None:
    story = Story()
    run = story.run()
    mine = story.act({"f": "1"}, run)
    story.tell(e.DriftSeen((Change(Target("files", "g"), version(""), version("1")),)), run)
    assert select.of_ids(story.history, [run]).actions == (mine,)
    assert select.of_run(story.history, run, 0).actions == (mine,)


def test_changes_are_in_the_order_in_which_they_were_made() -> None:
    story = Story()
    first, second = story.act({"f": "1"}), story.act({"f": "2"})
    chosen = select.of_actions(story.history, [second, first])
    assert [entry.change.after.id for entry in chosen.entries] == ["1", "2"]
    (change,) = select.net(story.history, [second, first])
    assert (change.before, change.after) == (version(""), version("2"))


def test_only_the_wanted_part_of_a_rollback_is_redone() -> None:
    story = Story()
    story.act({"f": "agent", "g": "agent"})
    story.edit("f", "human", seen=True)
    plan = story.plan(select.last_action(story.history), OnConflict.KEEP)
    undo = story.carry_out(plan, e.RollbackKind.UNDO)
    f, g = Target("files", "f"), Target("files", "g")
    for wanted, entries, bare in [({f, g}, [g], [f]), ({g}, [g], []), ({f}, [], [f])]:
        chosen = select.of_actions(story.history, [undo], wanted.__contains__)
        assert [entry.target for entry in chosen.entries] == entries
        assert chosen.bare == tuple((undo, target) for target in bare)


def test_after_a_checkpoint() -> None:
    story = Story()
    story.act({"f": "1"})
    checkpoint = story.tell(e.CheckpointTaken("here")).id
    later = story.act({"f": "2"})
    assert select.after(story.history, ids.seq_of(checkpoint)).actions == (later,)
    idle = story.tell(e.ActionBegan("tool", e.Effect.NONE)).id
    story.tell(e.ActionEnded(idle, e.Outcome.DONE))
    story.edit("g", "human", seen=True)
    assert select.after(story.history, ids.seq_of(checkpoint)).actions == (later, idle), (
        "what began after it, and no human"
    )


def test_what_was_done_after_a_checkpoint_is_in_the_order_of_its_beginning() -> None:
    story = Story()
    checkpoint = story.tell(e.CheckpointTaken("here")).id
    later = tuple(story.act({f"f{number}": "1"}) for number in range(20))
    assert select.after(story.history, ids.seq_of(checkpoint)).actions == later


def test_what_happened_outside_is_not_taken_back() -> None:
    story = Story()
    story.edit("f", "1", seen=True)
    drift = next(iter(story.history.actions))
    with pytest.raises(UsageError, match="outside any recorded action"):
        select.of_ids(story.history, [drift])


@pytest.mark.parametrize(
    "id, message", [("a99", "no action a99"), ("r99", "no run r99"), ("s99", "no step s99")]
)
def test_unknown_ids(id: str, message: str) -> None:
    story = Story()
    story.run()
    with pytest.raises(UsageError, match=message):
        select.of_ids(story.history, [id])


def test_a_checkpoint_is_not_an_action() -> None:
    story = Story()
    checkpoint = story.tell(e.CheckpointTaken()).id
    with pytest.raises(UsageError, match=f"undo --to {checkpoint}"):
        select.of_ids(story.history, [checkpoint])
    with pytest.raises(UsageError, match="no checkpoint c99"):
        select.of_ids(story.history, ["c99"])


@pytest.mark.parametrize("text", ["", "a", "a0", "7", "x7", "a-1", "a7 ", "A7"])
def test_what_is_no_id(text: str) -> None:
    assert not ids.is_id(text)
    with pytest.raises(UsageError, match="is not an id"):
        ids.parse(text)


def test_ids_lead_to_their_event() -> None:
    assert ids.parse(ids.make(ids.ACTION, 7)) == ("a", 7)
    assert ids.seq_of("r12") == 12 and ids.is_id("c3")


def test_the_outermost_action_stands_for_all_inside_of_it() -> None:
    story = Story()
    outer = story.tell(e.ActionBegan("agent", e.Effect.RESTORABLE)).id
    inner = story.tell(e.ActionBegan("call", e.Effect.RESTORABLE, parent=outer)).id
    actions = story.history.actions
    assert select.outermost(story.history, actions[inner]) is actions[outer]
    assert select.outermost(story.history, actions[outer]) is actions[outer]


def test_what_actions_changed_together() -> None:
    story = Story()
    first = story.act({"f": "1", "came": "x"})
    second = story.act({"f": "2", "came": ""})
    found = {change.target.name: change for change in select.net(story.history, [first, second])}
    assert found.keys() == {"f"}, "what came and went is no change"
    assert (found["f"].before, found["f"].after) == (version(""), version("2"))
    touched = Change(Target("files", "g"), Version("x", "t1"), Version("x", "t2"))
    third = story.tell(e.ActionBegan("touch", e.Effect.RESTORABLE)).id
    story.tell(e.ActionEnded(third, e.Outcome.DONE, (touched,)))
    assert select.net(story.history, [third]) == [touched], "a new time is a change, and did not go again"


def test_an_agent_of_which_all_was_taken_back_has_nothing_left() -> None:
    story = Story()
    id = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE, actor="codex")).id
    story.tell(e.ActionEnded(id, e.Outcome.DONE))
    assert select.of_agent(story.history, "codex") == select.Selection((), ())


def test_what_an_undo_reported_as_unknown_is_not_the_last_action_any_more() -> None:
    story = Story()
    first, second, third = (story.act(w) for w in ({"f": "1"}, {"g": "1", "h": "1"}, {"i": "1"}))

    def report(action: str, **items: e.Did) -> None:
        began = story.tell(e.RollbackBegan(e.RollbackKind.UNDO, (action,), ())).id
        made = {entry.target.name: entry for entry in story.history.entries(action)}
        told = [
            e.Item(made[n].target, did, settles=(action,), seqs=(made[n].seq,)) for n, did in items.items()
        ]
        story.tell(e.RollbackEnded(began, tuple(told), ()))

    assert select.last_action(story.history).actions == (third,)
    report(third, i=e.Did.UNVERIFIABLE)
    assert select.last_action(story.history).actions == (second,)
    assert story.history.unsettled() == [third]
    # What failed is tried again, also where something else of the action is unknown.
    report(second, g=e.Did.UNVERIFIABLE, h=e.Did.FAILED)
    assert select.last_action(story.history).actions == (second,)
    assert story.history.unsettled() == [third]
    report(second, h=e.Did.REMOVED)
    assert story.history.unsettled() == [second, third]
    assert select.last_action(story.history).actions == (first,)
    # By its id it is meant as before.
    assert [entry.target.name for entry in select.of_ids(story.history, [second]).entries] == ["g"]
    # A human's answer is news, and is to be dealt with; that it never happened leaves nothing.
    target, there = Target("files", "i"), version("1")
    story.tell(e.ActionTold(third, happened=True, changes=(Change(target, there, version("2")),)))
    assert select.last_action(story.history).actions == (third,)
    story.tell(e.ActionTold(third, happened=False, changes=(Change(target, version("2"), version("")),)))
    assert story.history.unsettled() == [second]
    others = [story.act({f"more {number}": "1"}) for number in range(9)]
    for number, other in reversed(list(enumerate(others))):
        report(other, **{f"more {number}": e.Did.UNVERIFIABLE})
    assert story.history.unsettled() == [second, *others]


def test_what_takeback_wrote_is_meant_by_its_id_alone() -> None:
    story = Story()
    theirs = story.act({"f": "1"})
    checkpoint = story.tell(e.CheckpointTaken("here")).id
    own = story.tell(
        e.ActionBegan("takeback install", e.Effect.RESTORABLE, actor="you", tool="takeback:install")
    ).id
    change = Change(Target("files", "g"), version(""), version("1"))
    story.tell(e.ActionEnded(own, e.Outcome.DONE, (change,)))
    assert [action.is_own for action in story.history.actions.values()] == [False, True]
    assert select.last_action(story.history).actions == (theirs,)
    assert select.after(story.history, ids.seq_of(checkpoint)).actions == ()
    with pytest.raises(UsageError, match="no agent 'you'"):
        select.of_agent(story.history, "you")
    assert select.of_ids(story.history, [own]).actions == (own,)
    assert untrusted_since(story.history, Target("files", "g")) is None, "a human asked for it"
    story.world[Target("files", "g")] = version("1")
    later = story.act({"g": "2"})
    found = untrusted_since(story.history, Target("files", "g"))
    assert found and found.action == later
    story.edit("f", "2", seen=True)
    drift = next(reversed(story.history.actions.values()))
    assert not drift.is_own


def test_an_intent_goes_with_its_run() -> None:
    story = Story()
    run = story.run()
    action = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run).id
    intent = story.tell(IntentDeferred("email", "email", "mail", action, "key"), run).id
    (entry,) = story.history.live(action)
    assert entry.target == Target("outbox", intent)
    with pytest.raises(UsageError, match="is taken back with its run") as caught:
        select.of_ids(story.history, [intent])
    assert f"takeback undo {run}" in caught.value.hint


def test_what_an_action_made_is_with_all_that_happened_inside_of_it() -> None:
    story = Story()
    outer = story.tell(e.ActionBegan("agent", e.Effect.RESTORABLE)).id
    inner = story.tell(e.ActionBegan("call", e.Effect.RESTORABLE, parent=outer)).id
    change = Change(Target("files", "f"), version(""), version("1"))
    story.tell(e.ActionEnded(inner, e.Outcome.DONE, (change,)))
    story.tell(e.ActionEnded(outer, e.Outcome.DONE))
    actions = story.history.actions
    assert select.made(story.history, actions[outer]) == (change,)
    assert select.made(story.history, actions[inner]) == (change,)


def test_what_an_action_made_by_itself_is_as_it_was_recorded() -> None:
    story = Story()
    id = story.tell(e.ActionBegan("agent", e.Effect.RESTORABLE)).id
    first = Change(Target("files", "f"), version(""), version("1"))
    second = Change(Target("files", "f"), version("1"), version(""))
    story.tell(e.ChangesSeen(id, (first,)))
    story.tell(e.ActionEnded(id, e.Outcome.DONE, (second,)))
    assert select.made(story.history, story.history.actions[id]) == (first, second)


def test_what_was_compacted_is_named_with_the_day_of_it() -> None:
    day = 20_000 * 24 * 3600 * 1_000_000  # its first moment
    began = e.ActionBegan("make", e.Effect.RESTORABLE)
    for name, named in (("make", "a1 (make)"), ("", "a1")):
        action = RecordedAction("a1", "action", name, "w", "me", 0, began)
        select.refuse_compacted(action)
        action.compacted_us = day
        with pytest.raises(ConflictError) as refused:
            select.refuse_compacted(action)
        said = str(refused.value)
        assert said.startswith(f"{named} was compacted: ") and "by gc on 2024-10-04" in said
    with pytest.raises(ConflictError, match=r"^c2 was compacted"):
        select.refuse_compacted(Checkpoint("c2", "w", 1, e.CheckpointTaken("here"), day))
