"""Compacting a history takes nothing from what can still be asked, and every fold reads what is left."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from takeback.core import compaction, selection
from takeback.core import events as e
from takeback.core import intents as i
from takeback.core.change import ABSENT, OF_PATHS, Change, Target, Version
from takeback.core.history import History
from takeback.core.memory import RESOURCE as MEMORY
from takeback.core.postings import Flag
from takeback.core.record import Record, seal_remains, unseal_remains
from takeback.core.trust import untrusted_since
from takeback.errors import ConflictError
from tests.core.answers import answers, plain
from tests.core.compacted import compacted, is_setting, nothing, reduced
from tests.core.list_index import ListIndex
from tests.core.random_story import RandomStory
from tests.core.story import Story
from tests.sampling import examples

SAME = (
    *("seq", "began", "marks", "accepted", "moves", "breaches", "forgets", "tools", "actors", "open"),
    *("has unended", "open runs", "waiting runs", "unused approvals", "in session", "unsettled", "rollbacks"),
    *("listed runs", "steps", "decided", "runs", "flagged UNKNOWN", "flagged UNSETTLED", "passed over"),
)
"""Questions whose answers do not change."""


def played(seed: int, moves: int, more: int, *, is_wound_up: bool) -> RandomStory:
    """A random story; wound up in between, so that much of it is over, or not."""
    told = RandomStory(Random(seed))
    _play(told, moves)
    if is_wound_up:
        for id in told.open:
            told.tell(e.ActionEnded(id, e.Outcome.DONE))
        for run in told.runs:
            told.tell(e.RunEnded(e.Outcome.DONE), run)
        told.open.clear()
        told.runs.clear()
    _play(told, more)
    return told


def _play(told: RandomStory, moves: int) -> None:
    try:
        told.play(moves)
    except AssertionError:
        reject()  # by chance the teller chose an undo that its own world cannot carry out; nothing was compacted yet


STORIES = (st.integers(0, 2**32), st.integers(5, 60), st.integers(0, 20), st.booleans())


@given(*STORIES, st.integers(0, 100))
@settings(max_examples=examples(400), deadline=None)
def test_what_can_still_be_asked_has_the_same_answer(
    seed: int, moves: int, more: int, is_wound_up: bool, percent: int
) -> None:
    told = played(seed, moves, more, is_wound_up=is_wound_up)
    through = len(told.records) * percent // 100
    guarded = is_setting if seed % 2 else nothing
    left = History.of(compacted(told.records, through, guarded=guarded))
    assert_same(History.of(told.records), left, through, guarded)


def test_much_is_compacted_of_what_is_over() -> None:
    """A test of the tests: the stories have something to compact, rollbacks too."""
    stories = [played(seed, 40, 0, is_wound_up=True).records for seed in range(60)]
    left = [History.of(compacted(records, len(records), guarded=nothing)) for records in stories]
    gone = [action for history in left for action in history.actions.values() if action.compacted_us]
    assert len(gone) > 100 and sum(action.is_rollback for action in gone) > 5


def assert_same(
    whole: History, left: History, through: int, guarded: Callable[[Target], bool] = is_setting
) -> None:
    before, after = answers(whole), answers(left)
    for question in SAME:
        assert after[question] == before[question], question
    gone = {id for id in left.actions if left.actions[id].compacted_us}
    for id in whole.actions:
        assert left.is_undone(id) == whole.is_undone(id) and left.is_half_undone(id) == whole.is_half_undone(
            id
        )
        assert left.never_happened(id) == whole.never_happened(id)
        if id in gone:
            assert int(id[1:]) <= through and not left.entries(id)
        else:
            assert after["actions"][id] == before["actions"][id]
            # Those that began or changed something later may have lost what they changed.
            assert after[f"action {id}"][:10] == before[f"action {id}"][:10]
    for flag in (Flag.UNDOABLE, Flag.REDOABLE):
        stands = [action.id for action in whole.flagged(flag)]
        assert [action.id for action in left.flagged(flag)] == [id for id in stands if id not in gone]
    doubted = [action.id for action in whole.in_doubt()]
    assert [action.id for action in left.in_doubt()] == [id for id in doubted if id not in gone]
    assert_runs(whole, left)
    for name in ("f", "g", "d/h", "takeback.toml"):
        for resource in OF_PATHS:
            target = Target(resource, name)
            kept = [entry for entry in whole.timeline(target) if entry.action not in gone]
            assert plain(left.timeline(target)) == plain(kept)
    config = Target("files", "takeback.toml")
    if not guarded(config):
        return
    for beside in (False, True):
        assert plain(untrusted_since(left, config, beside=beside)) == plain(
            untrusted_since(whole, config, beside=beside)
        )
    assert plain(left.timeline(config)) == plain(whole.timeline(config))


def assert_runs(whole: History, left: History) -> None:
    """The keys are known, and what a run that can go on, or can be called again, has recorded."""
    for id in whole.runs:
        run = whole.runs[id]
        if run.began.key:
            assert left.runs_of_key(run.began.key) == whole.runs_of_key(run.began.key)
        for action in run.actions:
            tool = whole.actions[action].as_tool
            assert left.calls_of(id, tool.key) == whole.calls_of(id, tool.key)
            assert left.times_called(id, tool.tool) == whole.times_called(id, tool.tool)
        assert plain(left.intents.held(id)) == plain(whole.intents.held(id))
        if run.ended_us == 0 or (run.began.key and not run.began.detached):
            assert left.memory_of(id) == whole.memory_of(id)
            assert plain(selection.of_run(left, id, 0)) == plain(selection.of_run(whole, id, 0))
    for id in whole.intents.every:
        assert left.intents.every[id].state == whole.intents.every[id].state


@given(*STORIES, st.integers(0, 100), st.lists(st.integers(0, 100), max_size=3))
@settings(max_examples=examples(200), deadline=None)
def test_an_index_of_a_compacted_journal_answers_as_its_fold_does(
    seed: int, moves: int, more: int, is_wound_up: bool, percent: int, at: list[int]
) -> None:
    told = played(seed, moves, more, is_wound_up=is_wound_up)
    records = compacted(told.records, len(told.records) * percent // 100)
    whole = answers(History.of(records))
    index = ListIndex(records)
    for position in sorted(at):
        index.take_in(index.opened_until(len(records) * position // 100))
    assert answers(index.opened()) == whole


@given(*STORIES, st.integers(0, 100), st.integers(0, 100))
@settings(max_examples=examples(200), deadline=None)
def test_a_survey_decides_alike_with_an_index(
    seed: int, moves: int, more: int, is_wound_up: bool, percent: int, at: int
) -> None:
    told = played(seed, moves, more, is_wound_up=is_wound_up)
    through = len(told.records) * percent // 100
    index = ListIndex(told.records)
    index.take_in(index.opened_until(len(told.records) * at // 100))
    assert compacted(told.records, through, index.opened()) == compacted(told.records, through)


@given(*STORIES, st.integers(0, 100), st.integers(0, 100))
@settings(max_examples=examples(200), deadline=None)
def test_a_second_compaction_takes_nothing_either(
    seed: int, moves: int, more: int, is_wound_up: bool, first: int, second: int
) -> None:
    told = played(seed, moves, more, is_wound_up=is_wound_up)
    low, high = sorted(len(told.records) * percent // 100 for percent in (first, second))
    once = compacted(told.records, low)
    assert_same(History.of(told.records), History.of(compacted(once, high)), high)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(100), deadline=None)
def test_what_is_left_of_what_is_left_is_the_same(seed: int) -> None:
    told = RandomStory(Random(seed))
    told.play(40)
    for record in told.records:
        left = compaction.reduced(record.event)
        assert compaction.reduced(left) is left
        assert type(left) is type(record.event) and reduced(record).id == record.id


def test_audit_keeps_who_what_and_how_it_ended() -> None:
    process = e.Process(1, "2", "b", "h")
    given: dict[str, Any] = {"args": [], "kwargs": {"command": "make " + "x" * 500, "description": "build"}}
    began = e.ActionBegan(
        "Bash", e.Effect.UNKNOWN, "claude-code:a1", "sess", "s3", "a4", "ref", "key", arguments=given,
        full="ff", process=process, call_key="ck", tool="Bash", intent="in", brand=7,
        marks=(e.Mark("files", "b3:1", "scan"), e.Mark("git", "b3:2")),
    )  # fmt: skip
    left = compaction.reduced(began)
    assert isinstance(left, e.ActionBegan)
    assert left.arguments == {"kwargs": {"command": ("make " + "x" * 500)[: compaction.SUBJECT_MAX]}}
    assert left.marks == (e.Mark("files", ""),)
    assert (left.name, left.actor, left.session, left.step, left.parent) == (
        *("Bash", "claude-code:a1", "sess", "s3"),
        "a4",
    )
    assert (left.key, left.call_key, left.tool, left.intent, left.ref) == ("key", "ck", "Bash", "in", "ref")
    assert (left.process, left.full, left.brand, left.handlers) == (None, "", 0, None)
    ended = compaction.reduced(
        e.ActionEnded("a1", e.Outcome.FAILED, result={"a": 1}, full="aa", why="no", exit_code=3)
    )
    assert ended == e.ActionEnded("a1", e.Outcome.FAILED, why="no", exit_code=3)
    whole = e.RunBegan("tidy", "K", "ann", command=("make",))
    assert compaction.reduced(whole) is whole


def test_a_redo_of_an_old_undo_finds_everything() -> None:
    story, records = told()
    action = story.act({"f": "1"})
    undo = story.carry_out(story.plan(selection.last_action(story.history)), e.RollbackKind.UNDO)
    limit = story.history.seq
    redo = story.carry_out(story.plan(selection.last_rollback(story.history)), e.RollbackKind.REDO)
    left = History.of(compacted(records, limit))
    assert not any(left.actions[id].compacted_us for id in (action, undo, redo))
    assert selection.last_action(left).actions == (action,)
    gone = History.of(compacted(records, story.history.seq))
    assert all(gone.actions[id].compacted_us for id in (action, undo, redo))
    assert not selection.last_action(gone) and not selection.last_rollback(gone)
    assert gone.is_redone(undo) and not gone.is_undone(action)


@pytest.mark.parametrize("key", ["", "K"])
def test_the_calls_of_a_run_with_a_key_stay_whole(key: str) -> None:
    story, records = told()
    run = story.tell(e.RunBegan("billing", key), "").id
    story.tell(e.ActionNoted("ask", e.Outcome.DONE, key="call", result=42), run)
    story.tell(e.RunEnded(e.Outcome.DONE), run)
    left = History.of(compacted(records, story.history.seq))
    assert left.actions["a2"].result == (42 if key else None)
    assert left.calls_of(run, "call") == ["a2"]


@pytest.mark.parametrize("state", ["waiting", "delivered"])
def test_an_intent_that_waits_stays_whole(state: str) -> None:
    story, records = told()
    run = story.run()
    action = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), run).id
    deferred = i.IntentDeferred("email", "email", "k", action, "d", arguments={"kwargs": {"to": "ann"}})
    intent = story.tell(deferred, run).id
    story.tell(e.ActionEnded(action, e.Outcome.DONE), run)
    story.tell(e.RunEnded(e.Outcome.DONE), run)
    story.tell(i.IntentsReleased((intent,)), run)
    if state == "delivered":
        story.tell(i.IntentDelivered(intent, 1))
    found = compacted(records, story.history.seq)[2]
    assert (found.event == deferred) == (state == "waiting")
    assert History.of(compacted(records, story.history.seq)).intents.of_key(run, "k")


def test_ranges() -> None:
    ranges = compaction.ranges_of([1, 2, 3, 7, 9, 10])
    assert ranges == ((1, 3), (7, 7), (9, 10)) and compaction.count(ranges) == 6
    assert [seq for seq in range(12) if compaction.is_in(ranges, seq)] == [1, 2, 3, 7, 9, 10]
    assert compaction.ranges_of([]) == () and not compaction.is_in((), 1)
    assert is_setting(Target("files", "takeback.toml"))


def test_arguments_that_name_no_subject_go_as_a_whole() -> None:
    for arguments in ({"args": [1]}, ["x"], {"kwargs": {"n": 1}}):
        left = compaction.reduced(e.ActionBegan("tool", e.Effect.NONE, arguments=arguments))
        assert isinstance(left, e.ActionBegan) and left.arguments is None


def test_the_subject_of_a_call_is_the_first_text_that_is_not_empty() -> None:
    arguments = {"kwargs": {"command": "", "file_path": ["x"], "path": "p" * 300}}
    left = compaction.reduced(e.ActionBegan("tool", e.Effect.NONE, arguments=arguments))
    assert isinstance(left, e.ActionBegan) and left.arguments == {"kwargs": {"path": "p" * 200}}
    assert compaction.BLOCK == 256  # both are part of the format


def test_a_mark_of_anything_but_the_files_goes() -> None:
    marks = (e.Mark("git", "b3:1"), e.Mark("db", "b3:2"))
    assert compaction.reduced(e.CheckpointTaken("here", marks=marks)) == e.CheckpointTaken("here")


def ended(story: Story, *changes: Change, stream: str = "w", **more: Any) -> str:
    """An action that made these changes."""
    id = story.tell(e.ActionBegan("tool", e.Effect.RESTORABLE, arguments={"args": [1]}), stream).id
    story.tell(e.ActionEnded(id, e.Outcome.DONE, changes, **more), stream)
    return id


def gone(records: list[Any], through: int = 0) -> list[str]:
    """The actions whose details go."""
    left = History.of(compacted(records, through or len(records)))
    return [id for id in left.actions if left.actions[id].compacted_us]


def written(name: str = "f", resource: str = "files", root: str = "", **more: Any) -> Change:
    return Change(Target(resource, name, root), ABSENT, Version("v"), **more)


@pytest.mark.parametrize("state", ["asked", "granted", "used"])
def test_an_approval_stays_whole_until_it_was_used(state: str) -> None:
    story, records = told()
    asked = e.ApprovalAsked("tool", e.Effect.UNKNOWN, "d", 5, arguments={"args": [1]})
    approval = story.tell(asked).id
    if state != "asked":
        story.tell(e.ApprovalAnswered(approval, granted=True))
    if state == "used":
        story.tell(e.ApprovalUsed(approval))
    assert (compacted(records, len(records))[0].event == asked) == (state != "used")


def test_an_action_that_a_later_change_may_be_of_stays_whole() -> None:
    story, records = told()
    first, second = ended(story, written("f")), ended(story, written("g"))
    limit = len(records)
    story.tell(e.DriftSeen((written("h", shared_with=(first,)),)))
    assert gone(records, limit) == [second]


def test_a_mark_stays_whole_until_it_was_seen_again() -> None:
    story, records = told()
    git, db = (e.Mark("git", "b3:1"),), (e.Mark("db", "b3:2"),)
    first = ended(story, written("f"), marks=git)
    second = ended(story, written("g"), marks=db)
    taken = story.tell(e.CheckpointTaken("here", marks=git)).event
    third = ended(story, written("h"))
    limit = len(records)
    assert gone(records) == [first, third]
    assert compacted(records, limit)[4].event == taken  # the last mark of git
    story.tell(e.CheckpointTaken("later", marks=(*git, *db)))
    assert gone(records, limit) == [first, second, third]
    assert compacted(records, limit)[4].event == e.CheckpointTaken("here")


def test_an_action_that_has_not_ended_stays_whole() -> None:
    story, records = told()
    began = e.ActionBegan("tool", e.Effect.UNKNOWN, arguments={"args": [1]})
    unended, over = story.tell(began).id, story.tell(began).id
    story.tell(e.ActionEnded(over, e.Outcome.DONE))
    assert gone(records) == [over] and compacted(records, len(records))[0].id == unended


@pytest.mark.parametrize("happened", [True, False])
def test_an_action_that_never_happened_stays_whole(happened: bool) -> None:
    story, records = told()
    action = ended(story, written())
    story.tell(e.ActionTold(action, happened, (Change(Target("files", "f"), Version("v"), ABSENT),)))
    assert gone(records) == ([action] if happened else [])


def test_a_doubtful_change_stays_whole_until_it_is_known() -> None:
    story, records = told()
    target, doubtful = Target("calls", "f"), Version("?", data={"in_doubt": True})
    before = ended(story, Change(target, ABSENT, Version("u")))
    action = ended(story, Change(target, Version("u"), doubtful))
    assert gone(records) == [before]
    story.tell(e.ActionTold(action, True, (Change(target, doubtful, Version("v")),)))
    assert gone(records) == [before, action]


def test_memory_of_a_run_stays_whole_or_goes_as_a_whole() -> None:
    story, records = told()
    run = story.run()
    story.tell(e.RunEnded(e.Outcome.DONE), run)
    actions = [ended(story, written(name, MEMORY, run)) for name in ("/a", "/b")]
    actions.append(ended(story, written("f", "files", run)))
    actions.append(ended(story, written("/a", MEMORY, "elsewhere")))
    limit = len(records)
    assert gone(records) == actions
    story.tell(e.ActionDelivered(actions[0]))
    assert gone(records, limit) == actions[2:]


def test_memory_of_a_run_that_can_be_called_again_stays_whole() -> None:
    story, records = told()
    run = story.tell(e.RunBegan("billing", "K"), "").id
    story.tell(e.RunEnded(e.Outcome.DONE), run)
    ended(story, written("/a", MEMORY, run))
    other = ended(story, written("f", "files", run))
    assert gone(records) == [other]


@pytest.mark.parametrize(
    "began, is_held",
    [
        (e.RunBegan("r"), False),
        (e.RunBegan("r", "K"), True),
        (e.RunBegan("r", "K", detached=True), False),
        (e.RunBegan("r", detached=True, thread=True), True),
    ],
)
def test_what_a_run_did_stays_whole_if_it_can_be_called_again(began: e.RunBegan, is_held: bool) -> None:
    story, records = told()
    run = story.tell(began, "").id
    action = ended(story, written(), stream=run)
    assert gone(records) == []
    story.tell(e.RunEnded(e.Outcome.DONE), run)
    assert gone(records, len(records) - 1) == []  # then it was not over
    assert gone(records) == ([] if is_held else [action])


@pytest.mark.parametrize("marks", [(), (e.Mark("git", "b3:1"),)])
def test_a_record_of_something_without_an_id_stays_whole(marks: tuple[e.Mark, ...]) -> None:
    story, records = told()
    story.tell(e.ActionEnded("?", e.Outcome.DONE, (written(shared_with=("a2",)),), marks=marks))
    action = ended(story, written())
    assert gone(records) == [action] and compacted(records, len(records))[0] == records[0]


GOES = {"f": e.Did.RESTORED, "g": e.Did.RESTORED}


def rolled(story: Story, of: str, did: dict[str, e.Did], seqs: tuple[int, ...] = (), **more: Any) -> str:
    """A rollback of an action, an undo unless told otherwise."""
    kind, changed = more.get("kind", e.RollbackKind.UNDO), more.get("changed", tuple(did))
    verified = more.get("verified", True)
    id = story.tell(e.RollbackBegan(kind, (of,), ())).id
    items = [e.Item(Target("files", name), did[name], verified, "", (of,), seqs) for name in did]
    changes = [Change(Target("files", name), Version("v"), ABSENT) for name in changed]
    story.tell(e.RollbackEnded(id, tuple(items), tuple(changes)))
    return id


@pytest.mark.parametrize(
    "did, verified, goes",
    [
        (GOES, True, True),
        (GOES, False, False),
        (GOES | {"g": e.Did.KEPT}, True, False),
        (GOES | {"g": e.Did.CONFLICT}, True, False),
        ({"f": e.Did.RESTORED}, True, False),
        ({}, True, False),
    ],
)
def test_what_was_not_taken_back_as_a_whole_stays_whole(
    did: dict[str, e.Did], verified: bool, goes: bool
) -> None:
    story, records = told()
    action = ended(story, written("f"), written("g"))
    undo = rolled(story, action, did, (2,), verified=verified)
    assert gone(records) == ([action, undo] if goes else [])


@pytest.mark.parametrize(
    "did, changed, again, goes",
    [
        (GOES, ("f", "g"), GOES, True),
        (GOES, ("f", "g"), {"f": e.Did.RESTORED}, False),
        (GOES, ("f", "g", "h"), GOES, False),
        (GOES | {"g": e.Did.CONFLICT}, ("f",), {"f": e.Did.RESTORED}, False),
        (GOES | {"g": e.Did.UNVERIFIABLE}, ("f",), {"f": e.Did.RESTORED}, False),
        ({"f": e.Did.ALREADY, "g": e.Did.ALREADY}, (), {}, False),
    ],
)
def test_what_was_not_brought_back_as_a_whole_stays_whole(
    did: dict[str, e.Did], changed: tuple[str, ...], again: dict[str, e.Did], goes: bool
) -> None:
    story, records = told()
    action = ended(story, written("f"), written("g"))
    undo = rolled(story, action, did, (2,), changed=changed)
    redo = rolled(story, undo, again, kind=e.RollbackKind.REDO)
    assert gone(records) == ([action, undo, redo] if goes else [])


@pytest.mark.parametrize("again", [e.RollbackKind.REDO, e.RollbackKind.RESTORE])
def test_a_rollback_of_which_only_a_part_stands_stays_whole(again: e.RollbackKind) -> None:
    story, records = told()
    first = ended(story, written("f"), written("g"))
    did = {"f": e.Did.ALREADY, "g": e.Did.RESTORED}
    restore = rolled(story, first, did, kind=e.RollbackKind.RESTORE, changed=("g",))
    assert gone(records) == [first, restore]
    changed = "g" if again is e.RollbackKind.REDO else "f"
    rolled(story, restore, {changed: e.Did.RESTORED}, kind=again)
    assert gone(records) == []


def test_settings_stay_whole() -> None:
    story, records = told()
    ended(story, written("takeback.toml"))
    other = ended(story, written("f"))
    assert gone(records) == [other]


def test_actions_that_share_a_change_stay_whole_together() -> None:
    story, records = told()
    first = ended(story, written("f"))
    ended(story, written("g", shared_with=(first, "a?")))
    third = ended(story, written("h"))
    limit = len(records)
    assert gone(records) == [first, "a3", third]
    story.tell(e.ActionDelivered(first))
    assert gone(records, limit) == [third]


def test_an_undo_that_names_a_run_is_not_about_its_memory() -> None:
    story, records = told()
    run = story.run()
    story.tell(e.RunEnded(e.Outcome.DONE), run)
    action = ended(story, written("/a", MEMORY, run))
    process = e.Process(1, "2", "b", "h")
    undo = story.tell(e.RollbackBegan(e.RollbackKind.RESTORE, (run,), (), process=process)).id
    story.tell(e.RollbackEnded(undo, ()))
    limit = len(records)
    story.tell(e.ActionDelivered(action))
    assert gone(records, limit) == [undo]


def test_what_was_compacted_is_never_compacted_again() -> None:
    """Whatever a later version would leave of it: its digest is recorded."""
    story, records = told()
    ended(story, written())
    records[:] = [Record(record.envelope, record.digest, 7) for record in records]
    assert compacted(records, len(records)) == records


def test_what_an_undo_names_without_knowing_it_keeps_nothing() -> None:
    story, records = told()
    action = story.act({"f": "1"})
    began = e.RollbackBegan(e.RollbackKind.UNDO, ("a99",), (), process=e.Process(1, "2", "b", "h"))
    undo = story.tell(began).id
    story.tell(e.RollbackEnded(undo, ()))
    left = History.of(compacted(records, story.history.seq))
    assert left.actions[action].compacted_us and left.actions[undo].compacted_us and left.breaches == []


@pytest.mark.parametrize("resource", ["calls", MEMORY, i.RESOURCE])
def test_what_is_told_outside_actions_of_calls_and_memory_stays_whole(resource: str) -> None:
    story, records = told()
    change = Change(Target(resource, "/wanted", "r1"), ABSENT, Version("v", data={"value": 1}))
    told_of = story.tell(e.DriftSeen((change,)))
    story.tell(e.DriftSeen((Change(Target("files", "f"), ABSENT, Version("v")),)))
    first, second = compacted(records, story.history.seq)
    assert first.event == told_of.event and second.event == e.DriftSeen(())


def test_a_compaction_is_open_until_its_end_is_told() -> None:
    story, _ = told()

    def is_unsettled() -> bool:
        return story.history.is_unsettled

    assert not is_unsettled()
    began = story.tell(e.CompactionBegan(1, ((1, 1),), ("d",), 5)).seq
    assert story.history.compactions == [began] and story.history.compacting == began
    assert is_unsettled()
    for _ in range(2):  # two processes may have finished it
        story.tell(e.CompactionEnded(began))
        assert story.history.compacting == 0 and not is_unsettled()
    again = story.tell(e.CompactionBegan(2, ((1, 1),), ("d",), 5)).seq
    story.tell(e.CompactionEnded(began))
    assert story.history.compacting == again and story.history.breaches == []
    story.tell(e.CompactionEnded(99))
    assert [breach.what for breach in story.history.breaches] == ["there is no compaction 99"]


def test_an_open_run_is_unsettled_as_well() -> None:
    story, _ = told()
    story.run()
    assert story.history.is_unsettled


def test_an_action_is_unsettled_until_it_ends() -> None:
    story, _ = told()
    action = story.tell(e.ActionBegan("tool", e.Effect.NONE)).id
    assert (story.history.is_unsettled, story.history.is_unended(action)) == (True, True)
    story.tell(e.ActionEnded(action, e.Outcome.DONE))
    assert (story.history.is_unsettled, story.history.is_unended(action)) == (False, False)


def test_a_history_can_become_another() -> None:
    story, records = told()
    action = story.act({"f": "1"})
    left = History.of(compacted(records, story.history.seq))
    story.history.become(left)
    assert story.history.actions[action].compacted_us and not story.history.live(action)


def test_what_was_compacted_is_refused_unless_it_was_taken_back() -> None:
    story, records = told()
    undone, stands = story.act({"f": "1"}), story.act({"g": "1"})
    chosen = selection.of_ids(story.history, [undone])
    story.carry_out(story.plan(chosen), e.RollbackKind.UNDO)
    selection.refuse_compacted_among(story.history, [undone, stands])
    left = History.of(compacted(records, story.history.seq))
    assert left.actions[undone].compacted_us and left.actions[stands].compacted_us
    selection.refuse_compacted_among(left, [undone])
    with pytest.raises(ConflictError, match=rf"{stands} \(tool\) was compacted: .* by gc on 1970-01-01"):
        selection.refuse_compacted_among(left, [undone, stands])


def test_what_is_left_of_a_record_is_read_again() -> None:
    story, records = told()
    story.act({"f": "1"})
    for record in compacted(records, story.history.seq):
        left = unseal_remains(seal_remains(record.envelope), "record")
        assert (left.v, left.at_us, left.event) == (record.envelope.v, record.at_us, record.event)


def told() -> tuple[Story, list[Any]]:
    """A story, and the records of it as they come."""
    story = Story()
    records: list[Any] = []
    tell = story.tell

    def kept(event: e.Event, stream: str = "w") -> Any:
        records.append(tell(event, stream))
        return records[-1]

    story.tell = kept  # type: ignore[method-assign]
    return story, records
