"""Undo, redo and restore in every order; both where the tree is scanned and where it is watched."""

from __future__ import annotations

import os

import pytest

from takeback.core.rollback import Verdict
from takeback.engine.rollback.report import RollbackReport
from takeback.errors import ConflictError, RunBusy, UsageError
from takeback.testing import crash
from takeback.workspace.opening import open_workspace

from .conftest import Desk


def did(report: RollbackReport) -> dict[str, str]:
    return {str(item.target): item.did for item in report.items if str(item.target) != "."}


def test_saving_twice_with_nothing_changed(desk: Desk) -> None:
    first, second = desk.tb.save("one"), desk.tb.save("two")
    assert first.id != second.id
    assert [m.state for m in first.taken.marks] == [m.state for m in second.taken.marks]
    assert desk.tb.history.actions == {}
    assert not desk.tb.diff(first, second)


def test_nothing_to_take_back(desk: Desk) -> None:
    desk.tb.save()
    desk.human("own", "mine")
    for report in (desk.tb.undo(), desk.tb.redo()):
        assert (report.verdict, report.rollback, report.items) == (Verdict.NOTHING, "", ())
    assert desk.read("own") == "mine"


def test_an_action_that_changed_nothing_is_passed_over(desk: Desk) -> None:
    desk.agent(plan="new")
    desk.agent()
    assert did(desk.tb.undo()) == {"plan": "restored"}


def test_undo_walks_back_and_redo_walks_forward(desk: Desk) -> None:
    for text in ("one", "two", "three"):
        desk.agent(plan=text)
    seen = []
    for step in (
        desk.tb.undo,
        desk.tb.undo,
        desk.tb.undo,
        desk.tb.redo,
        desk.tb.redo,
        desk.tb.undo,
        desk.tb.redo,
    ):
        assert step().verdict is Verdict.CLEAN
        seen.append(desk.read("plan"))
    assert seen == ["two", "one", "old", "one", "two", "one", "two"]
    assert desk.tb.redo().verdict is Verdict.CLEAN
    assert desk.read("plan") == "three"
    assert desk.tb.redo().verdict is Verdict.NOTHING


def test_undo_goes_on_after_another_start(desk: Desk) -> None:
    desk.agent(plan="one")
    desk.agent(plan="two")
    desk.tb.undo()
    desk.reopen()
    desk.tb.undo()
    assert desk.read("plan") == "old"
    desk.reopen()
    desk.tb.redo()
    desk.reopen()
    desk.tb.redo()
    assert desk.read("plan") == "two"


def test_a_new_action_in_between_does_not_forbid_redo(desk: Desk) -> None:
    desk.agent(plan="one")
    desk.tb.undo()
    desk.agent(other="x")
    assert desk.tb.redo().verdict is Verdict.CLEAN
    assert (desk.read("plan"), desk.read("other")) == ("one", "x")


def test_redo_over_a_new_version_is_a_conflict(desk: Desk) -> None:
    desk.agent(plan="one")
    desk.tb.undo()
    desk.agent(plan="another")
    with pytest.raises(ConflictError) as caught:
        desk.tb.redo()
    assert did(caught.value.report) == {"plan": "conflict"}
    assert desk.read("plan") == "another"


def test_everything_after_a_checkpoint(desk: Desk) -> None:
    desk.agent(plan="one", a="a")
    checkpoint = desk.tb.save()
    desk.agent(plan="two", b="b")
    desk.human("own", "mine")
    desk.agent(a=None, c="c")
    report = desk.tb.undo(to=checkpoint)
    assert did(report) == {"plan": "restored", "a": "restored", "b": "removed", "c": "removed"}
    assert [desk.read(name) for name in ("plan", "a", "b", "c", "own")] == ["one", "a", None, None, "mine"]
    desk.tb.redo()
    assert [desk.read(name) for name in ("plan", "a", "b", "c", "own")] == ["two", None, "b", "c", "mine"]


def test_only_one_path(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.root)
    first = desk.agent(plan="one", other="one")
    desk.agent(other="two")
    assert did(desk.tb.undo(paths=["plan"])) == {"plan": "restored"}
    assert (desk.read("plan"), desk.read("other")) == ("old", "two")
    # What is left of the action is taken back by its turn.
    desk.tb.undo()
    assert desk.read("other") == "one"
    assert did(desk.tb.undo()) == {"other": "removed"}
    assert desk.tb.history.live(first) == []


def test_a_folder_as_path(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.root)
    with desk.tb.recording("agent"):
        desk.human("src/a", "x")
        desk.human("src/deep/b", "x")
        desk.human("src2", "x")
    report = desk.tb.undo(paths=["src"])
    assert set(did(report)) == {"src", "src/a", "src/deep", "src/deep/b"}
    assert desk.read("src2") == "x" and not (desk.root / "src").exists()


def test_an_action_in_the_middle_stands_alone_where_its_files_do(desk: Desk) -> None:
    first = desk.agent(plan="one")
    desk.agent(other="x")
    desk.tb.undo(first)
    assert (desk.read("plan"), desk.read("other")) == ("old", "x")


def test_an_action_in_the_middle_whose_file_was_changed_again(desk: Desk) -> None:
    first = desk.agent(plan="one")
    later = desk.agent(plan="two")
    with pytest.raises(ConflictError) as caught:
        desk.tb.undo(first)
    (item,) = (item for item in caught.value.report.items if item.did == "conflict")
    assert item.blockers == (later,)
    assert desk.read("plan") == "two"
    desk.tb.undo(first, later)
    assert desk.read("plan") == "old"


# Restore


def test_restore_takes_the_humans_edits_too_and_redo_brings_them_back(desk: Desk) -> None:
    checkpoint = desk.tb.save()
    desk.agent(plan="new", made="x")
    desk.human("own", "mine")
    report = desk.tb.restore(checkpoint)
    assert did(report) == {"plan": "restored", "made": "removed", "own": "removed"}
    assert (desk.read("plan"), desk.read("made"), desk.read("own")) == ("old", None, None)
    desk.tb.redo()
    assert (desk.read("plan"), desk.read("made"), desk.read("own")) == ("new", "x", "mine")


def test_a_restore_marks_what_it_reversed_as_taken_back(desk: Desk) -> None:
    before = desk.agent(early="x")
    checkpoint = desk.tb.save()
    after = desk.agent(plan="new")
    desk.tb.restore(checkpoint)
    history = desk.tb.history
    assert history.live(after) == [] and history.live(before) != []
    # So the next undo is of the action before the checkpoint, and never of the restore.
    assert did(desk.tb.undo()) == {"early": "removed"}
    desk.tb.redo()
    desk.tb.redo()
    assert (desk.read("plan"), desk.read("early")) == ("new", "x")
    assert desk.tb.history.live(after) != []


def test_restore_of_one_path(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.root)
    desk.human("own", "first")
    checkpoint = desk.tb.save()
    desk.human("own", "second")
    desk.human("plan", "second")
    assert did(desk.tb.restore(checkpoint, paths=["own"])) == {"own": "restored"}
    assert (desk.read("own"), desk.read("plan")) == ("first", "second")


def test_restore_where_nothing_changed(desk: Desk) -> None:
    checkpoint = desk.tb.save()
    assert desk.tb.restore(checkpoint).verdict is Verdict.NOTHING
    assert desk.tb.history.actions == {}


def test_restore_of_a_restore(desk: Desk) -> None:
    first = desk.tb.save()
    desk.human("plan", "second")
    second = desk.tb.save()
    desk.tb.restore(first)
    desk.tb.restore(second)
    assert desk.read("plan") == "second"
    desk.tb.restore(first)
    assert desk.read("plan") == "old"


# Undo of undo


def test_undo_of_an_undo_by_its_id(desk: Desk) -> None:
    desk.agent(plan="new")
    undone = desk.tb.undo().rollback
    report = desk.tb.undo(undone)
    assert report.verdict is Verdict.CLEAN and desk.read("plan") == "new"
    # The action stands again, so it can be taken back again.
    assert desk.tb.undo().verdict is Verdict.CLEAN
    assert desk.read("plan") == "old"


def test_undo_without_an_id_never_picks_a_rollback(desk: Desk) -> None:
    desk.agent(plan="new")
    desk.tb.undo()
    assert desk.tb.undo().verdict is Verdict.NOTHING
    desk.tb.redo()
    desk.tb.undo()
    assert desk.read("plan") == "old"


def test_taking_back_the_same_action_twice(desk: Desk) -> None:
    action = desk.agent(plan="new")
    desk.tb.undo(action)
    assert desk.tb.undo(action).verdict is Verdict.NOTHING
    assert desk.read("plan") == "old"


# The human


def test_drift_is_the_humans_and_stays(desk: Desk) -> None:
    desk.tb.save()
    desk.human("before", "mine")
    desk.agent(plan="new")
    desk.human("after", "mine")
    desk.tb.undo()
    assert [desk.read(name) for name in ("before", "plan", "after")] == ["mine", "old", "mine"]
    outside = [action for action in desk.tb.history.actions.values() if action.kind == "outside"]
    seen = {str(change.target) for action in outside for change in action.changes}
    assert {"before", "after"} <= seen and "plan" not in seen


@pytest.mark.parametrize(
    "choice, plan", [("keep", "human"), ("overwrite", "old"), ("merge", None), ("stop", None)]
)
def test_where_both_wrote(choice: str, plan: str | None, desk: Desk) -> None:
    desk.agent(plan="agent", other="x")
    desk.human("plan", "human")
    if plan is None:
        with pytest.raises(ConflictError) as caught:
            desk.tb.undo(on_conflict=choice)
        assert did(caught.value.report)["plan"] == "conflict"
        assert (desk.read("plan"), desk.read("other")) == ("human", "x")
    else:
        assert desk.tb.undo(on_conflict=choice).verdict is Verdict.CLEAN
        assert (desk.read("plan"), desk.read("other")) == (plan, None)
        desk.tb.redo()
        assert (desk.read("plan"), desk.read("other")) == ("human", "x")


@pytest.mark.parametrize(
    "mine, chosen, choices",
    [
        ("mine\n2\n3\n4\n5\n", "stop", {"keep", "overwrite"}),
        ("mine\n2\n3\n4\n5\n", "merge", {"keep", "overwrite"}),
        ("new\n2\n3\n4\nmine\n", "stop", {"keep", "merge", "overwrite"}),
    ],
)
def test_only_what_helps_is_offered(mine: str, chosen: str, choices: set[str], desk: Desk) -> None:
    desk.human("plan", "1\n2\n3\n4\n5\n")
    desk.tb.save()
    desk.agent(plan="new\n2\n3\n4\n5\n")
    desk.human("plan", mine)
    with pytest.raises(ConflictError) as caught:
        desk.tb.undo(on_conflict=chosen)
    assert isinstance(caught.value.report, RollbackReport)
    assert set(caught.value.report.choices) == choices
    assert desk.read("plan") == mine


def test_a_merge_takes_out_the_agents_lines_and_leaves_the_humans(desk: Desk) -> None:
    desk.human("plan", "1\n2\n3\n4\n5\n")
    desk.tb.save()
    desk.agent(plan="new\n2\n3\n4\n5\n")
    desk.human("plan", "new\n2\n3\n4\nmine\n")
    report = desk.tb.undo(on_conflict="merge")
    assert report.verdict is Verdict.CLEAN and desk.read("plan") == "1\n2\n3\n4\nmine\n"
    (why,) = [item.why for item in report.items if str(item.target) == "plan"]
    assert why == "other changes stayed, the agent's were taken out"


def test_what_another_process_recorded_meanwhile_is_taken_back(desk: Desk) -> None:
    desk.tb.save()
    other = open_workspace(desk.root, home=desk.home, watching=False)
    with other.recording("agent"):
        desk.human("plan", "new")
    other.close()
    assert did(desk.tb.undo()) == {"plan": "restored"} and desk.read("plan") == "old"
    desk.human("plan", "mine")
    checkpoint = desk.tb.save()
    other = open_workspace(desk.root, home=desk.home, watching=False)
    with other.recording("agent"):
        desk.human("plan", "new")
    other.close()
    assert did(desk.tb.undo(to=checkpoint)) == {"plan": "restored"} and desk.read("plan") == "mine"


@pytest.mark.parametrize("words", ["ids", "--agent"])
def test_a_checkpoint_and_another_choice_exclude_each_other(words: str, desk: Desk) -> None:
    checkpoint = desk.tb.save()
    id = desk.agent(plan="new")
    chosen = (id,) if words == "ids" else ()
    with pytest.raises(UsageError, match=f"^{words} and --to exclude each other"):
        desk.tb.undo(*chosen, to=checkpoint, agent="" if chosen else "agent")
    assert desk.read("plan") == "new"


def test_a_checkpoint_that_there_is_not(desk: Desk) -> None:
    desk.agent(plan="new")
    with pytest.raises(UsageError, match="no checkpoint c99"):
        desk.tb.restore("c99")
    assert desk.read("plan") == "new"


@pytest.mark.parametrize("again", ["undo", "redo", "restore"])
def test_whoever_comes_after_an_interrupt_finishes_it_and_does_nothing_else(again: str, desk: Desk) -> None:
    desk.agent(plan="one")
    checkpoint = desk.tb.save()
    desk.agent(plan="two", other="two")

    def interrupt(name: str) -> None:
        if name == "rollback-recorded":
            raise KeyboardInterrupt

    with crash.hooked(interrupt), pytest.raises(KeyboardInterrupt):
        desk.tb.undo()
    assert desk.read("plan") == "two", "the plan is recorded, and nothing of it is done"
    desk.reopen()
    do = {"undo": desk.tb.undo, "redo": desk.tb.redo, "restore": lambda: desk.tb.restore(checkpoint)}
    report = do[again]()
    assert report.finished_earlier and (report.kind, report.verdict) == ("undo", Verdict.CLEAN)
    assert (desk.read("plan"), desk.read("other")) == ("one", None)
    assert [rollback.id for rollback in desk.tb.history.rollbacks()] == [report.rollback]


def test_a_choice_that_there_is_not(desk: Desk) -> None:
    with pytest.raises(UsageError, match="stop, keep, merge, overwrite"):
        desk.tb.undo(on_conflict="hope")


def test_a_preview_writes_nothing_and_promises_nothing(desk: Desk) -> None:
    desk.agent(plan="new")
    seq = desk.tb.history.seq
    for report in (desk.tb.undo(preview=True), desk.tb.undo(preview=True)):
        assert report.preview and not report.rollback
        assert did(report) == {"plan": "restored"}
        assert not any(item.verified for item in report.items)
    assert desk.read("plan") == "new"
    assert desk.tb.history.seq == seq


def test_undo_inside_an_action_of_the_same_process_is_refused_at_once(desk: Desk) -> None:
    desk.agent(plan="new")
    with desk.tb.recording("outer") as outer, pytest.raises(RunBusy, match=outer):
        desk.tb.undo()
    assert desk.read("plan") == "new"


def test_an_exception_is_recorded_and_goes_on(desk: Desk) -> None:
    def fail() -> None:
        with desk.tb.recording("agent"):
            desk.human("plan", "half")
            raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        fail()
    (action,) = desk.tb.history.actions.values()
    assert (action.life, action.why) == ("failed", "ZeroDivisionError: by zero")
    assert desk.read("plan") == "half"
    desk.tb.undo()
    assert desk.read("plan") == "old"


def test_a_link_that_leads_nowhere_or_elsewhere_is_taken_back(desk: Desk) -> None:
    """What is looked at, moved and put back is the link, never what it leads to."""
    (desk.root / "there").symlink_to("plan")
    (desk.root / "gone").symlink_to("nowhere")
    desk.tb.save()
    with desk.tb.recording("agent"):
        for name, target in (("there", "nowhere"), ("gone", "plan"), ("new", "plan")):
            (desk.root / name).unlink(missing_ok=True)
            (desk.root / name).symlink_to(target)
    assert desk.tb.undo().verdict == "clean"
    found = {path.name: os.readlink(path) for path in desk.root.iterdir() if path.is_symlink()}
    assert found == {"there": "plan", "gone": "nowhere"} and desk.read("plan") == "old"


def test_a_link_and_a_pipe_that_are_replaced_leave_nothing_beside_them(desk: Desk) -> None:
    """What is not a file has no writers whose last words would have to be kept."""
    os.symlink("plan", desk.root / "link")
    os.mkfifo(desk.root / "pipe", 0o600)
    desk.tb.save()
    with desk.tb.recording("agent"):
        (desk.root / "link").unlink()
        os.symlink("elsewhere", desk.root / "link")
        (desk.root / "pipe").unlink()
        os.mkfifo(desk.root / "pipe", 0o640)
    names = sorted(os.listdir(desk.root))
    report = desk.tb.undo()
    assert report.verdict is Verdict.CLEAN and not any(item.why for item in report.items)
    assert os.readlink(desk.root / "link") == "plan"
    assert sorted(os.listdir(desk.root)) == names
