"""What the engine does around a plan: whom it refuses, what it says and records, how it goes on after a crash."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import ABSENT, OUTSIDE, Change, Target, Version
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.engine.ledger import Ledger
from takeback.engine.rollback import rollback
from takeback.engine.rollback.report import ReportItem, RollbackReport
from takeback.engine.runs.actions import Action
from takeback.errors import ConflictError, RunBusy, SeatLost
from takeback.resources.files.put_back import restore
from takeback.system import linux, processes
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.engine import remote
from tests.engine.conftest import Desk
from tests.engine.recorded import appended, begun, started_by

pytestmark = pytest.mark.parametrize("watching", [False], ids=["scanning"], indirect=True)


@pytest.fixture(autouse=True)
def _remote() -> Iterator[None]:
    for seen in (remote.WORLD, remote.ASKED, remote.CANCELLED, remote.BROKEN):
        seen.clear()
    yield
    remote.BROKEN.clear()


def interrupt() -> None:
    raise KeyboardInterrupt


def ended(desk: Desk, id: str, *changes: Change) -> str:
    stream = desk.tb.history.actions[id].stream
    appended(desk, e.ActionEnded(id, e.Outcome.DONE, changes), stream)
    return id


def ran(tb: Workspace, work: Callable[[Any], object], **options: Any) -> str:
    """A run that has committed; its id."""
    with tb.run("agent", **options) as run:
        work(run)
    return str(run.id)


def item_of(report: RollbackReport, name: str) -> ReportItem:
    return next(item for item in report.items if str(item.target).startswith(name))


def stopped(desk: Desk, *of: str, **options: Any) -> RollbackReport:
    with pytest.raises(ConflictError) as caught:
        desk.tb.undo(*of, **options)
    assert isinstance(caught.value.report, RollbackReport)
    return caught.value.report


def from_outside(desk: Desk) -> list[str]:
    """The names of what is recorded as changed by nobody's action."""
    outside = [action for action in desk.tb.history.actions.values() if action.kind == "outside"]
    return sorted(change.target.name for action in outside for change in action.changes)


@contextmanager
def elsewhere(desk: Desk) -> Iterator[Workspace]:
    """The same workspace in another process."""
    with open_workspace(desk.root, home=desk.home, watching=False) as other:
        yield other


@contextmanager
def somebody() -> Iterator[e.Process]:
    """A process that lives for as long as this block lasts."""
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield processes.describe(process.pid)
        process.communicate()


# Whom it waits for, and whom not


def test_what_another_process_recorded_is_taken_back_and_nothing_else_is_asked(desk: Desk) -> None:
    rollbacks = desk.tb.parts.rollbacks
    checkpoint = desk.tb.save()
    with elsewhere(desk) as other, other.recording("agent"):
        desk.human("plan", "new")
    report = rollbacks.undo()
    assert (report.preview, report.finished_earlier, report.verdict) == (False, False, Verdict.CLEAN)
    assert desk.read("plan") == "old"
    assert from_outside(desk) == [], "what the other process had recorded was not found once more"
    report = rollbacks.redo()
    assert (report.preview, report.finished_earlier, desk.read("plan")) == (False, False, "new")
    report = rollbacks.restore(checkpoint.id)
    assert (report.preview, report.finished_earlier, desk.read("plan")) == (False, False, "old")


def test_what_a_crash_left_open_is_settled_and_not_waited_for(desk: Desk) -> None:
    id = begun(desk, marks=desk.tb.parts.tracker.observe())
    assert desk.tb.parts.rollbacks.undo().verdict is Verdict.NOTHING
    assert desk.tb.history.actions[id].life is Life.SETTLED


def test_an_interrupted_undo_is_finished_while_others_are_at_work(desk: Desk) -> None:
    desk.agent(plan="new")
    with crash.at(rollback.RECORDED, interrupt), pytest.raises(KeyboardInterrupt):
        desk.tb.undo()
    with somebody() as other:
        id = begun(desk, process=other)
        report = desk.tb.parts.rollbacks.undo()
        assert desk.tb.history.actions[id].life is Life.OPEN
    assert report.finished_earlier and desk.read("plan") == "old"


def test_whoever_asks_from_inside_of_its_own_action_hears_of_that_one(desk: Desk) -> None:
    with somebody() as other:
        begun(desk, process=other)
        mine = begun(desk, process=processes.this_process())
        with pytest.raises(RunBusy, match=mine):
            desk.tb.parts.rollbacks.undo()
        ended(desk, mine)


def moved(_: Ledger) -> None:
    raise SeatLost("the workspace sits in another folder")


def test_nothing_is_taken_back_where_the_workspace_does_not_sit_any_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.agent(plan="new")
    monkeypatch.setattr(Ledger, "refuse_elsewhere", moved)
    with pytest.raises(SeatLost):
        desk.tb.parts.rollbacks.undo()
    assert desk.read("plan") == "new"


def test_an_undo_goes_on_only_where_the_workspace_sits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.agent(plan="new")
    with crash.at(rollback.RECORDED, interrupt), pytest.raises(KeyboardInterrupt):
        desk.tb.undo()
    monkeypatch.setattr(Ledger, "refuse_moved", moved)
    with pytest.raises(SeatLost):
        desk.tb.parts.rollbacks.finish()
    assert desk.read("plan") == "new"


def in_background(desk: Desk, id: str, process: subprocess.Popen[bytes]) -> None:
    left = (processes.describe(process.pid),)
    appended(desk, e.ActionDetached(id, processes=left), desk.tb.history.actions[id].stream)


def test_what_is_at_work_in_the_background_is_not_taken_back(desk: Desk) -> None:
    id = begun(desk, marks=desk.tb.parts.tracker.observe())
    with started_by(desk, id) as process:
        desk.human("plan", "new")
        desk.tb.parts.tracker.observe()
        in_background(desk, id, process)
        with pytest.raises(RunBusy, match=f"{id} still has processes running"):
            desk.tb.undo(id)
        assert desk.read("plan") == "new"


# What is said beside the items


def test_actions_that_an_undo_passes_over_are_named_by_what_is_known_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.root)
    desk.agent(plan="new", other="new")
    unknown = ended(desk, begun(desk, effect=e.Effect.UNKNOWN))
    beyond = ended(desk, begun(desk, effect=e.Effect.IRREVERSIBLE))
    ended(desk, begun(desk))
    report = desk.tb.undo(paths=["other"], preview=True)
    assert (report.unknown, report.beyond, report.verdict) == ((), (), Verdict.CLEAN)
    report = desk.tb.undo()
    assert (report.unknown, report.beyond) == ((unknown,), (beyond,))
    assert report.verdict is Verdict.UNKNOWN


def test_what_an_earlier_undo_left_unknown_is_named_for_its_agent_alone(desk: Desk) -> None:
    left = []
    for actor in ("alpha", "beta"):
        target = Target("files", actor)
        id = ended(desk, begun(desk, actor=actor), Change(target, ABSENT, Version("1")))
        left.append(id)
        undone = appended(desk, e.RollbackBegan(e.RollbackKind.UNDO, (id,), ()), ids.WORKSPACE)
        seqs = tuple(entry.seq for entry in desk.tb.history.live(id))
        item = e.Item(target, e.Did.UNVERIFIABLE, settles=(id,), seqs=seqs)
        appended(desk, e.RollbackEnded(undone, (item,), ()), ids.WORKSPACE)
    rollbacks = desk.tb.parts.rollbacks
    assert rollbacks.undo(agent="alpha").unsettled == (left[0],)
    assert rollbacks.undo(agent="beta").unsettled == (left[1],)
    assert rollbacks.undo().unsettled == tuple(left)


def test_a_restore_of_everything_says_what_stays_outside(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.root)
    checkpoint = desk.tb.save()
    outside = Target(OUTSIDE, "/elsewhere")
    ended(desk, begun(desk), Change(outside, ABSENT, Version("1")))
    for name in ("plan", "other"):
        desk.human(name, "new")
    assert [item.target for item in desk.tb.restore(checkpoint, paths=["other"]).items] == [
        Target("files", "other")
    ]
    report = desk.tb.parts.rollbacks.restore(checkpoint.id)
    assert item_of(report, "/elsewhere").did == e.Did.KEPT
    assert desk.tb.history.latest(outside) == Version("1"), "nothing was found to be different there"


def database(desk: Desk, *statements: str) -> None:
    with sqlite3.connect(desk.root / "shop.db") as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def test_what_is_done_to_a_database_is_said_before_and_after(desk: Desk) -> None:
    database(
        desk, "create table orders (id integer primary key, item)", "insert into orders values (1, 'boots')"
    )
    desk.tb.save()
    with desk.tb.recording("agent"):
        database(desk, "delete from orders")
    assert item_of(desk.tb.undo(preview=True), "shop.db").says == "shop.db (1 row of orders)"
    assert item_of(desk.tb.undo(), "shop.db").says == "shop.db (1 row of orders)"


def test_rows_that_a_human_added_stay_without_asking(desk: Desk) -> None:
    database(
        desk, "create table orders (id integer primary key, item)", "insert into orders values (1, 'boots')"
    )
    desk.tb.save()
    with desk.tb.recording("agent"):
        database(desk, "delete from orders")
    database(desk, "insert into orders values (7, 'hat')")
    assert desk.tb.undo().verdict is Verdict.CLEAN
    with sqlite3.connect(desk.root / "shop.db") as db:
        assert db.execute("select * from orders order by id").fetchall() == [(1, "boots"), (7, "hat")]
    db.close()


def test_what_was_sent_is_named_by_its_words(desk: Desk) -> None:
    run = ran(desk.tb, lambda run: run.defer("command", ["true"]), deliver=True)
    for report in (desk.tb.try_undo(run, preview=True), desk.tb.try_undo(run)):
        (item,) = report.items
        assert (item.did, item.says) == (e.Did.KEPT, "command true")
        assert "was delivered" in item.why


def test_what_is_not_sent_yet_is_cancelled_and_named(desk: Desk) -> None:
    run = ran(desk.tb, lambda run: run.defer("command", ["true"]))
    for report in (desk.tb.undo(run, preview=True), desk.tb.undo(run)):
        (item,) = report.items
        assert (item.did, item.says) == (e.Did.CANCELLED, "command true")


# Who is in the way


def test_of_a_later_action_on_the_same_file_it_is_said_that_it_is_in_the_way(desk: Desk) -> None:
    first = desk.agent(plan="one", other="one")
    later = desk.agent(plan="two")
    report = stopped(desk, first)
    assert (report.others, report.others_too) == ((later,), True)
    assert not report.rollback and desk.read("plan") == "two"


def test_those_that_are_in_the_way_are_named_in_their_order(desk: Desk) -> None:
    first = desk.agent(a="one", b="one")
    second = desk.agent(b="two")
    third = desk.agent(a="two")
    assert stopped(desk, first).others == (second, third)


def test_where_a_human_is_in_the_way_nobody_else_is_named(desk: Desk) -> None:
    first = desk.agent(plan="one")
    desk.agent(plan="two")
    desk.human("plan", "mine")
    report = stopped(desk, first)
    assert (report.others, report.others_too) == ((), False)


def test_where_nobody_is_known_to_be_in_the_way_nobody_is_named(desk: Desk) -> None:
    """Of one file it is in doubt who changed it; that another one is in the way of the second helps nobody."""
    first = begun(desk, marks=desk.tb.parts.tracker.observe())
    desk.human("a", "one")
    desk.human("b", "one")
    desk.tb.recover()
    desk.agent(b="two")
    assert stopped(desk, first).others == ()


def test_with_whom_a_file_is_shared_is_in_the_way_of_that_file(desk: Desk) -> None:
    with desk.tb.recording("one") as one:
        desk.human("own", "one")
        other = begun(desk, marks=desk.tb.parts.tracker.observe())
        desk.human("plan", "both")
    ended(desk, other)
    assert stopped(desk, one).others == (other,)


def test_two_that_cannot_be_taken_back_together_either(desk: Desk) -> None:
    first = desk.agent(plan="one")
    later = begun(desk, marks=desk.tb.parts.tracker.observe())
    desk.human("plan", "two")
    desk.tb.recover()
    report = stopped(desk, first)
    assert (report.others, report.others_too) == ((later,), False), (
        "it is in doubt whose change the second is"
    )


def test_one_that_still_writes_cannot_be_taken_back_too(desk: Desk) -> None:
    first = desk.agent(plan="one")
    me = processes.this_process()
    later = begun(desk, marks=desk.tb.parts.tracker.observe(), process=me)
    desk.human("plan", "two")
    desk.tb.parts.tracker.observe()
    with started_by(desk, later) as process:
        in_background(desk, later, process)
        report = stopped(desk, first)
        assert (report.others, report.others_too) == ((later,), False)
    report = stopped(desk, first)
    assert (report.others, report.others_too) == ((later,), True)


def test_with_whom_another_file_is_shared_is_not_in_the_way_of_this_one(desk: Desk) -> None:
    """Of `a` it is in doubt who changed it, so that no other undo helps."""
    tracker = desk.tb.parts.tracker
    first = begun(desk, marks=tracker.observe())
    desk.human("a", "one")
    other = begun(desk, marks=tracker.observe(), process=processes.this_process())
    desk.human("b", "one")
    desk.tb.recover()
    ended(desk, other)
    shared = {change.target.name: change.shared_with for change in made(desk, first)}
    assert (shared["a"], shared["b"]) == ((), (other,))
    assert stopped(desk, first).others == ()


# A run that waits


def waiting(desk: Desk) -> tuple[str, str]:
    """A run that was interrupted before it had changed anything, and its action."""
    run = appended(desk, e.RunBegan("agent"))
    id = begun(desk, run, marks=desk.tb.parts.tracker.observe())
    desk.tb.recover()
    assert desk.tb.history.runs[run].life is Life.INTERRUPTED
    return run, id


def test_a_run_that_waits_is_over_with_its_undo_also_where_it_had_changed_nothing(desk: Desk) -> None:
    run, _ = waiting(desk)
    desk.tb.undo(run, preview=True)
    assert desk.tb.history.runs[run].life is Life.INTERRUPTED
    assert desk.tb.undo(run).rollback
    assert desk.tb.history.runs[run].life is Life.STOPPED


def test_a_run_that_waits_is_not_over_where_it_was_not_named(desk: Desk) -> None:
    checkpoint = desk.tb.save()
    run, _ = waiting(desk)
    assert not desk.tb.undo(to=checkpoint).rollback
    assert desk.tb.history.runs[run].life is Life.INTERRUPTED


def test_where_nothing_is_to_be_done_nothing_is_recorded(desk: Desk) -> None:
    id = desk.agent()
    for report in (desk.tb.undo(id), desk.tb.undo(), desk.tb.redo()):
        assert (report.rollback, report.verdict) == ("", Verdict.NOTHING)
    assert not list(desk.tb.history.rollbacks())


# Of a run, while it goes on


def test_a_run_is_taken_back_as_another_process_recorded_it(desk: Desk) -> None:
    desk.tb.save()
    with elsewhere(desk) as other:
        run = ran(other, lambda _: desk.human("plan", "new"))
    report = desk.tb.parts.rollbacks.of_run(run)
    assert (report.verdict, report.preview, desk.read("plan")) == (Verdict.CLEAN, False, "old")
    assert from_outside(desk) == [], "what the other process had recorded was not found once more"


def test_a_run_is_not_taken_back_over_a_humans_edit(desk: Desk) -> None:
    run = ran(desk.tb, lambda _: desk.human("plan", "new"))
    desk.human("plan", "mine")
    with pytest.raises(ConflictError):
        desk.tb.parts.rollbacks.of_run(run)
    assert desk.read("plan") == "mine" and not list(desk.tb.history.rollbacks())


def test_an_undo_that_was_cut_short_is_finished_before_a_run_is_taken_back(desk: Desk) -> None:
    first = desk.agent(plan="one")
    run = ran(desk.tb, lambda _: desk.human("other", "new"))
    with crash.at(rollback.RECORDED, interrupt), pytest.raises(KeyboardInterrupt):
        desk.tb.undo(first)
    desk.tb.parts.rollbacks.of_run(run)
    assert (desk.read("plan"), desk.read("other")) == ("old", None)
    assert not desk.tb.history.open_actions()


# Other systems


def test_what_another_system_does_not_have_any_more_is_recorded_as_such(desk: Desk) -> None:
    run = ran(desk.tb, lambda run: run.call(remote.book, "room"))
    (target,) = [change.target for id in desk.tb.history.runs[run].actions for change in made(desk, id)]
    remote.WORLD.clear()
    (item,) = desk.tb.undo(run).items
    assert (item.target, item.did) == (target, e.Did.ALREADY)
    assert from_outside(desk) == [target.name]
    assert not desk.tb.history.latest(target)


def made(desk: Desk, id: str) -> tuple[Change, ...]:
    return desk.tb.history.actions[id].changes


def test_a_call_that_is_taken_back_is_no_change_from_outside(desk: Desk) -> None:
    run = ran(desk.tb, lambda run: run.call(remote.book, "room"))
    remote.ASKED.clear()
    (item,) = desk.tb.undo(run).items
    assert item.did == e.Did.COMPENSATED and not remote.WORLD
    assert len(remote.ASKED) == 3, "for the plan, and before and after the deed"
    assert from_outside(desk) == []


def test_what_could_not_be_taken_back_is_named_each_time_and_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.root)

    def work(run: Any) -> None:
        run.call(remote.wire, 5)
        desk.human("plan", "new")

    run = ran(desk.tb, work, approve=lambda _: True)
    for why in ("it cannot be taken back", "it could not be taken back earlier either"):
        report = desk.tb.try_undo(run)
        wired = [item for item in report.items if str(item.target).startswith("wire")]
        assert [(item.did, item.why, item.verified) for item in wired] == [(e.Did.KEPT, why, False)]
    assert desk.tb.try_undo(run, paths=["plan"]).items == ()


def test_what_is_gone_since_is_not_named_any_more(desk: Desk) -> None:
    """A human had it undone elsewhere, after an undo had to leave it."""
    run = ran(desk.tb, lambda run: run.call(remote.sign, "a lease"), approve=lambda _: True)
    (item,) = desk.tb.try_undo(run).items
    assert item.did == e.Did.KEPT
    remote.WORLD.clear()
    assert desk.tb.try_undo(run).items == ()


def test_what_could_not_be_taken_back_is_tried_once_more(desk: Desk) -> None:
    run = ran(desk.tb, lambda run: run.call(remote.book, "room"))
    remote.BROKEN.add("cancel")
    (item,) = desk.tb.try_undo(run).items
    assert item.did == e.Did.FAILED and remote.WORLD
    remote.BROKEN.clear()
    (id,) = [id for id in desk.tb.history.runs[run].actions if made(desk, id)]
    with elsewhere(desk) as other:
        other.parts.rollbacks.once_more(id)
    assert not remote.WORLD


def test_what_another_process_recorded_is_tried_once_more(desk: Desk) -> None:
    desk.tb.save()
    with elsewhere(desk) as other:
        run = ran(other, lambda run: run.call(remote.book, "room"))
        (id,) = [id for id in other.history.runs[run].actions if other.history.actions[id].changes]
    desk.tb.parts.rollbacks.once_more(id)
    assert not remote.WORLD


@pytest.mark.parametrize("first", [e.Did.COMPENSATED, e.Did.FAILED])
def test_another_system_is_not_asked_again_for_what_it_did_before_a_crash(desk: Desk, first: e.Did) -> None:
    def work(run: Any) -> None:
        run.call(remote.book, "room")
        run.call(remote.book, "hall")

    run = ran(desk.tb, work)
    if first is e.Did.FAILED:
        remote.BROKEN.add("cancel")
    with crash.at(rollback.PROGRESSED, interrupt), pytest.raises(KeyboardInterrupt):
        desk.tb.undo(run)
    remote.BROKEN.clear()
    asked = list(remote.CANCELLED)
    report = desk.tb.try_undo(run)
    assert report.finished_earlier
    assert [key for key in remote.CANCELLED[len(asked) :] if key in asked] == []
    assert sorted(item.did for item in report.items) == sorted([first, e.Did.COMPENSATED])
    assert len(remote.WORLD) == (first is e.Did.FAILED)
    taken = [change.target for change in desk.tb.history.actions[report.rollback].changes]
    assert taken == [item.target for item in report.items if item.did == e.Did.COMPENSATED]


# What is recorded


def test_what_was_not_put_back_is_not_recorded_as_changed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.agent(plan="new", other="new")
    real, calls = linux.renameat2, iter(range(100))

    def human(*args: Any) -> None:
        if next(calls) == 0:
            desk.human("plan", "mine")
            desk.human("other", "mine")
        real(*args)

    monkeypatch.setattr(linux, "renameat2", human)
    report = desk.tb.try_undo()
    assert {item.did for item in report.items if str(item.target) in ("plan", "other")} == {"conflict"}
    assert not [
        c for c in desk.tb.history.actions[report.rollback].changes if c.target.name in ("plan", "other")
    ]


@pytest.mark.parametrize("names", [["plan"], ["beside"], ["beside", "plan"]], ids=str)
def test_what_a_human_writes_after_the_swap_is_recorded_as_theirs(desk: Desk, names: list[str]) -> None:
    desk.agent(plan="new")

    def write() -> None:
        for name in names:
            desk.human(name, "mine")

    with crash.at(rollback.SWAPPED, write):
        report = desk.tb.try_undo()
    assert report.verdict is Verdict.CLEAN
    assert [item.did for item in report.items if str(item.target) in ("plan", "beside")] == ["restored"]
    assert [name for name in from_outside(desk) if name != "."] == names


def test_what_a_human_puts_into_a_folder_that_came_back_is_theirs(desk: Desk) -> None:
    """Only below a folder that was closed before may something be the agent's."""
    desk.human("sub/plan", "old")
    desk.tb.save()
    with desk.tb.recording("agent"):
        shutil.rmtree(desk.root / "sub")
    with crash.at(rollback.SWAPPED, lambda: desk.human("sub/mine", "mine")):
        report = desk.tb.try_undo()
    assert report.verdict is Verdict.CLEAN
    assert {str(item.target) for item in report.items} - {"."} == {"sub", "sub/plan"}
    assert "sub/mine" in from_outside(desk)


def test_an_undo_names_who_may_have_changed_what_it_keeps_and_nobody_for_the_rest(desk: Desk) -> None:
    thread = desk.tb.thread(key="T")

    def both(name: str) -> str:
        """Return one of two calls that may have written a file."""
        where = {"path": str(desk.root / name)}
        one, two = (thread.begin("write", where, effect="restorable") for _ in range(2))
        desk.human(name, "by one of them")
        assert isinstance(one, Action) and isinstance(two, Action)
        one.end()
        two.end()
        return one.id

    for name, choice in (("kept", "keep"), ("gone", "overwrite")):
        one = both(name)
        expected = ((one,), Verdict.UNKNOWN) if choice == "keep" else ((), Verdict.CLEAN)
        for preview in (True, False):
            report = desk.tb.undo(one, on_conflict=choice, preview=preview)
            assert (report.doubtful, report.verdict) == expected, report
            assert report.data()["unknown"] == list(expected[0])
    assert desk.read("kept") and desk.read("gone") is None


def test_the_anchor_is_durable_when_the_end_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.agent(plan="new")
    synced: list[int] = []
    journal = type(desk.tb.journal)
    real = journal.sync

    def sync(self: Any) -> None:
        real(self)
        synced.append(desk.tb.history.seq)

    monkeypatch.setattr(journal, "sync", sync)
    report = desk.tb.undo()
    last = [record.seq for record in desk.tb.journal.read() if isinstance(record.event, e.RollbackEnded)]
    assert report.rollback and synced == last


# After a crash


def test_a_folder_looks_as_before_although_the_undo_was_cut_short(desk: Desk) -> None:
    """What was put back before the crash changed the time of its folder; the memory of a run comes first."""
    desk.human("sub/plan", "old")
    os.utime(desk.root / "sub", ns=(10**18, 10**18))
    desk.tb.save()

    def work(run: Any) -> None:
        run.memory["at"] = "work"
        desk.human("sub/plan", "new")

    run = ran(desk.tb, work)
    with crash.at(restore.SWAPPED, interrupt), pytest.raises(KeyboardInterrupt):
        desk.tb.undo(run)
    assert (desk.root / "sub").stat().st_mtime_ns != 10**18
    assert desk.tb.undo(run).finished_earlier
    assert desk.read("sub/plan") == "old" and (desk.root / "sub").stat().st_mtime_ns == 10**18


def test_a_database_comes_back_with_its_folder(desk: Desk) -> None:
    (desk.root / "shop.db").unlink(missing_ok=True)
    database(
        desk, "create table orders (id integer primary key, item)", "insert into orders values (1, 'boots')"
    )
    desk.human("data/readme", "old")
    (desk.root / "shop.db").rename(desk.root / "data/shop.db")
    desk.tb.save()
    with desk.tb.recording("agent"):
        (desk.root / "data/readme").unlink()
        (desk.root / "data/shop.db").unlink()
        (desk.root / "data").rmdir()
    assert desk.tb.undo().verdict is Verdict.CLEAN
    with sqlite3.connect(desk.root / "data/shop.db") as db:
        assert db.execute("select item from orders").fetchall() == [("boots",)]
    db.close()
