"""Questions to a history, with their answers written out: of the fold of a whole journal, and of an index."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core import intents as i
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.lifecycle import Life
from takeback.core.postings import Flag, Topic
from takeback.core.record import Record
from tests.core.told import Told, change

F, G, H = Target("files", "f"), Target("files", "g"), Target("files", "h")


def undo(told: Told, *items: e.Item, of: str, kind: e.RollbackKind = e.RollbackKind.UNDO) -> str:
    began = told.tell(e.RollbackBegan(kind, (of,))).id
    told.tell(e.RollbackEnded(began, items))
    return began


def dealt_with(did: e.Did, end: Record, target: Target = F) -> e.Item:
    """What a rollback did about the change of a target in this record."""
    return e.Item(target, did, settles=(owner(end),), seqs=(end.seq,))


def owner(end: Record) -> str:
    assert isinstance(end.event, e.ActionEnded)
    return end.event.action


# Runs


def test_which_runs_are_at_work_and_which_wait() -> None:
    told = Told()
    one, two, three, four = (told.tell(e.RunBegan(name), "").id for name in ("1", "2", "3", "4"))
    told.tell(e.RunHandedOver("stuck"), two)
    told.tell(e.RunInterrupted("gone"), one)
    told.tell(e.RunEnded(e.Outcome.DONE), three)
    for history in told.every_way():
        assert [run.id for run in history.open_runs()] == [four]
        assert [run.id for run in history.waiting_runs()] == [one, two], "in the order of their beginnings"
    told.tell(e.RunResumed(), one)
    told.tell(e.RunEnded(e.Outcome.STOPPED), two)
    for history in told.every_way():
        assert [run.id for run in history.open_runs()] == [four, one]
        assert history.waiting_runs() == []


def test_a_thread_goes_on_after_its_end_and_a_run_does_not() -> None:
    told = Told()
    run, thread = told.tell(e.RunBegan("run"), "").id, told.tell(e.RunBegan("thread", thread=True), "").id
    failed = told.tell(e.RunBegan("failed", thread=True), "").id
    ends = [told.tell(e.RunEnded(e.Outcome.DONE), id).seq for id in (run, thread)]
    told.tell(e.RunEnded(e.Outcome.FAILED), failed)
    for history in told.every_way():
        assert [history.runs[id].committed_at for id in (run, thread, failed)] == [*ends, 0]
    resumed = [told.tell(e.RunResumed(), id).seq for id in (run, thread, failed)]
    for history in told.every_way():
        assert [history.runs[id].life for id in (run, thread, failed)] == [Life.DONE, Life.OPEN, Life.OPEN]
        assert [breach.seq for breach in history.breaches] == resumed[:1]
        assert [history.runs[id].committed_at for id in (run, thread, failed)] == [*ends, 0]


def test_a_run_is_listed_once_it_is_more_than_one_command() -> None:
    told = Told()
    command, steps, session = (told.tell(e.RunBegan(n, detached=n == "s"), "").id for n in ("c", "x", "s"))
    keyed = told.tell(e.RunBegan("k", "K"), "").id
    program = told.tell(e.RunBegan("p", folder="/w"), "").id

    def listed() -> list[list[str]]:
        found = []
        for history in told.every_way():
            found.append([run.id for run in history.listed_runs()])
            assert history.count(Topic.LISTED_RUNS) == len(found[-1])
        return found

    assert listed() == 3 * [[program, keyed]]
    told.act(stream=command)
    assert listed() == 3 * [[program, keyed]]
    for _ in range(2):
        told.tell(e.StepBegan("edit"), steps)
        assert listed() == 3 * [[program, keyed, steps]]
    for _ in range(2):
        told.act(stream=session)
        assert listed() == 3 * [[program, keyed, session, steps]]
    told.act(stream=command)
    assert listed() == 3 * [[program, keyed, session, steps, command]]


def test_the_steps_of_all_runs_the_latest_first() -> None:
    told = Told()
    one, two = told.tell(e.RunBegan("one"), "").id, told.tell(e.RunBegan("two"), "").id
    first, second = told.tell(e.StepBegan("a"), one).id, told.tell(e.StepBegan("b"), two).id
    told.tell(e.StepEnded(first, e.Outcome.DONE), one)
    began = told.tell(e.ActionBegan("tool", e.Effect.NONE, step=first), one)
    stray = told.tell(e.StepBegan("of no run")).id
    for history in told.every_way():
        assert [(run.id, step.id) for run, step in history.steps()] == [(two, second), (one, first)]
        assert (history.run_of_step(first), history.run_of_step(second)) == (one, two)
        assert history.run_of_step(stray) == history.run_of_step("s99") == history.run_of_step("s1") == ""
        assert (history.actions_in(first), history.actions_in(second)) == ([began.id], [])


def test_what_a_run_called_asked_and_has_not_ended() -> None:
    told = Told()
    run, other = told.tell(e.RunBegan("one"), "").id, told.tell(e.RunBegan("two"), "").id
    calls = [e.ActionBegan("x", e.Effect.NONE, tool="mail", key=key) for key in ("k", "l", "k")]
    one, two, three = (told.tell(call, run).id for call in calls)
    told.tell(e.ActionEnded(two, e.Outcome.DONE), run)
    told.tell(e.ActionDetached(three), run)
    told.tell(e.ActionNoted("look", e.Outcome.DONE), run)  # without a key, and not of a tool
    told.tell(e.ActionNoted("look", e.Outcome.DONE, key="k", tool="mail"))  # in no run
    asked = told.tell(e.ApprovalAsked("push", e.Effect.IRREVERSIBLE, "p", 5), run).id
    told.tell(e.ApprovalAsked("push", e.Effect.IRREVERSIBLE, "p", 5))
    for history in told.every_way():
        assert (history.times_called(run, "mail"), history.times_called(other, "mail")) == (3, 0)
        assert history.times_called(run, "") == history.times_called("w", "mail") == 0
        assert (history.calls_of(run, "k"), history.calls_of(other, "k")) == ([one, three], [])
        assert history.calls_of(run, "") == history.calls_of("w", "k") == []
        assert [approval.id for approval in history.approvals_of(run)] == [asked]
        assert history.approvals_of(other) == []
        assert [action.id for action in history.unended_in(run)] == [one, three]
        assert history.unended_in(other) == []


def test_which_questions_wait_and_how_the_others_were_answered() -> None:
    told = Told()
    open_, granted, denied, used = (
        told.tell(e.ApprovalAsked("push", e.Effect.IRREVERSIBLE, "p", 5)).id for _ in range(4)
    )
    told.tell(e.ApprovalAnswered(granted, True, "ann", "fine"))
    told.tell(e.ApprovalAnswered(denied, False, "bob", "not today"))
    told.tell(e.ApprovalAnswered(used, True, "ann"))
    told.tell(e.ApprovalUsed(used))
    for history in told.every_way():
        assert [approval.id for approval in history.unused_approvals()] == [open_, granted]
        found = [history.approvals[id] for id in (open_, granted, denied, used)]
        assert [(approval.life, approval.actor, approval.why) for approval in found] == [
            (Life.OPEN, "", ""),
            (Life.GRANTED, "ann", "fine"),
            (Life.DENIED, "bob", "not today"),
            (Life.USED, "ann", ""),
        ]


def test_what_humans_decided_about_dead_letters() -> None:
    told = Told()
    run = told.tell(e.RunBegan("one"), "").id
    action = told.tell(e.ActionBegan("tool", e.Effect.NONE), run).id
    intent = told.tell(i.IntentDeferred("email", "email", "k", action, "d"), run).id
    for event in (i.IntentsReleased((intent,)), i.IntentDied(intent, 1, "no")):
        told.tell(event, run)
    decided = []
    for decision in (i.IntentRevived(intent, "ann"), i.IntentDropped(intent, "bob")):
        record = told.tell(decision, run)
        decided.append(i.Decided(record.seq, record.at_us, decision))
        for history in told.every_way():
            assert history.intents.decided == decided
            assert [found.id for found in history.intents.of_key(run, "k")] == [intent]


# Actions


def test_a_result_is_delivered_once_it_is_said_to_be() -> None:
    told = Told()
    one, two = owner(told.act()), owner(told.act())
    told.tell(e.ActionDelivered(one))
    for history in told.every_way():
        assert (history.actions[one].delivered, history.actions[two].delivered) == (True, False)


def test_a_change_that_another_action_may_have_made_is_one_of_both() -> None:
    told = Told()
    one, two = (told.tell(e.ActionBegan("tool", e.Effect.RESTORABLE)).id for _ in range(2))
    odd = ("a99", "apple", "r1", "", one)  # no such actions, and the one that ends
    told.tell(e.ActionEnded(one, e.Outcome.DONE, (Change(F, ABSENT, Version("1"), (two, *odd)),)))
    for history in told.every_way():
        assert [entry.action for entry in history.entries(one)] == [one]
        assert [entry.action for entry in history.entries(two)] == [one]
        assert [action.id for action in history.flagged(Flag.UNDOABLE)] == [two, one]
    told.tell(e.ActionEnded(two, e.Outcome.DONE))
    late = told.act(Change(G, ABSENT, Version("1"), (two,)), Change(H, ABSENT, Version("1"), (two,)))
    for history in told.every_way():
        assert [entry.target for entry in history.entries(two)] == [F, G, H], "though it was over by then"
        assert [action.id for action in history.flagged(Flag.UNDOABLE)] == [owner(late), two, one]
        assert "a99" not in history.actions and history.breaches == []


def test_what_happens_outside_is_beside_a_session_while_it_is_open() -> None:
    told = Told()
    session = told.tell(e.RunBegan("agent", detached=True), "").id
    inside, beside = owner(told.act(stream=session)), told.tell(e.DriftSeen(())).id
    told.tell(e.RunInterrupted("gone"), session)
    later = told.tell(e.DriftSeen(())).id
    for history in told.every_way():
        assert [history.actions[id].beside for id in (inside, beside, later)] == [False, True, False]


def test_an_action_is_undone_by_an_undo_that_is_over() -> None:
    told = Told()
    action = owner(told.act())
    undo(told, of=action, kind=e.RollbackKind.RESTORE)
    told.tell(e.RollbackBegan(e.RollbackKind.UNDO, (action,)))
    for history in told.every_way():
        assert not history.is_undone(action) and not history.is_half_undone(action)
    undo(told, of=action)
    for history in told.every_way():
        assert history.is_undone(action)


def test_what_can_be_undone_and_redone() -> None:
    told = Told()
    end, nothing = told.act(change(F, "", "1")), told.act()
    own = told.tell(e.ActionBegan("init", e.Effect.RESTORABLE, tool="takeback:install"))
    told.tell(e.ActionEnded(own.id, e.Outcome.DONE, (change(G, "", "1"),)))

    def flagged() -> list[list[list[str]]]:
        return [[[a.id for a in history.flagged(flag)] for flag in Flag] for history in told.every_way()]

    assert owner(nothing) and flagged() == 3 * [[[owner(end)], [], [], []]]
    for history in told.every_way():
        assert history.count_flagged(Flag.UNDOABLE) == 1
    checkpoint = told.tell(e.CheckpointTaken("here")).id
    took_back = undo(told, dealt_with(e.Did.REMOVED, end), of=checkpoint, kind=e.RollbackKind.RESTORE)
    assert flagged() == 3 * [[[], [took_back], [], []]]
    item = e.Item(F, e.Did.RESTORED, settles=(took_back,), seqs=(0,))
    undo(told, item, of=took_back, kind=e.RollbackKind.REDO)
    assert flagged() == 3 * [[[owner(end)], [], [], []]]
    for history in told.every_way():
        assert (history.count_flagged(Flag.UNDOABLE), history.count_flagged(Flag.REDOABLE)) == (1, 0)


def test_an_unknown_effect_stays_so_until_it_is_taken_back() -> None:
    told = Told()
    known, unknown = (
        told.tell(e.ActionBegan("x", effect)).id for effect in (e.Effect.NONE, e.Effect.UNKNOWN)
    )
    for id in (known, unknown):
        told.tell(e.ActionEnded(id, e.Outcome.DONE))
    for history in told.every_way():
        assert [action.id for action in history.flagged(Flag.UNKNOWN)] == [unknown]
    undone = undo(told, of=unknown)
    undo(told, of=known)
    for history in told.every_way():
        assert list(history.flagged(Flag.UNKNOWN)) == [] and history.count_flagged(Flag.UNKNOWN) == 0
    undo(told, of=undone, kind=e.RollbackKind.REDO)
    for history in told.every_way():
        assert [action.id for action in history.flagged(Flag.UNKNOWN)] == [unknown]


def test_what_an_undo_could_not_look_at_is_unsettled_once_nothing_else_is_left() -> None:
    told = Told()
    both = told.act(change(F, "", "1"), change(G, "", "1"))
    told.act(change(H, "", "1"))
    undo(told, dealt_with(e.Did.UNVERIFIABLE, both), of=owner(both))
    for history in told.every_way():
        assert history.unsettled() == []
        assert [entry.target for entry in history.untried(owner(both))] == [G]
    undo(told, dealt_with(e.Did.REMOVED, both, G), of=owner(both))
    for history in told.every_way():
        assert history.unsettled() == [owner(both)] and history.count_flagged(Flag.UNSETTLED) == 1
        assert history.is_half_undone(owner(both))
    undo(told, dealt_with(e.Did.REMOVED, both), of=owner(both))
    for history in told.every_way():
        assert history.unsettled() == [] and history.is_undone(owner(both))


def test_what_is_in_doubt_in_order() -> None:
    told = Told()
    doubt = Version("call", data={"in_doubt": True})
    ids = [owner(told.act(Change(Target("calls", f"c{n}"), ABSENT, doubt))) for n in range(3)]
    told.act(Change(Target("calls", "sure"), ABSENT, Version("call", data={"in_doubt": False})))
    for history in told.every_way():
        assert [action.id for action in history.in_doubt()] == ids


def test_what_came_after_a_record_is_without_what_that_record_tells() -> None:
    told = Told()
    ends = [told.act(change(F, str(n), str(n + 1))) for n in range(12)]
    drift = told.tell(e.DriftSeen((change(F, "12", "13"),)))
    rollback = undo(told, e.Item(F, e.Did.RESTORED), of=owner(ends[-1]))
    calls = [owner(end) for end in ends]
    for history in told.every_way():
        after = [action.id for action in history.since(history.actions[calls[1]].seq)]
        assert after == [*calls[2:], drift.id, rollback]
        assert history.changed_since(ends[0].seq) == calls[1:], "only tools, and only later"
        assert history.changed_since(ends[0].seq - 1) == calls
        assert history.changed_since(ends[-1].seq) == []
        assert [action.id for action in history.rollbacks()] == [rollback]


def test_the_paths_that_changed_are_those_in_the_workspace() -> None:
    told = Told()
    others = Target("git", "HEAD"), Target("calls", "book"), Target("files", "f", "elsewhere")
    told.act(change(F, "", "1"), *(change(target, "", "1") for target in others))
    for history in told.every_way():
        assert [list(history.targets(name)) for name in ("files", "git", "calls")] == [[F], [], []]
        assert history.resources == ["files", "git", "calls"]


def test_an_index_that_has_taken_in_everything_is_given_nothing_more() -> None:
    told = Told()
    told.act(change(F, "", "1"))
    history = told.indexed()
    assert list(history.flagged(Flag.UNDOABLE)) and list(history.targets("files")) == [F]
    told.act(change(F, "1", "2"))
    for record in told.records[history.seq :]:
        history.apply(record)
    assert list(history.targets("files")) == [F], "once, though the index has it too"
    told.index.take_in(history)
    more = history.unindexed()
    assert (more.position, more.postings, more.flags, more.targets) == (4, {}, {}, {})
