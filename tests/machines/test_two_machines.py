"""A run whose machine died goes on elsewhere: files equal, memory equal, nothing done twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.core.seats import WorkspaceSeated
from takeback.errors import RollbackIncomplete, SeatHeld, SeatLost
from takeback.testing import crash
from tests.clocks import another_time
from tests.machines import tools
from tests.machines.conftest import DONE, FILES, MEMORY, Shop, memory, tree
from tests.storage.s3.server import S3Server

# Places that a run passes, with about how often: `test_nobody_disturbs_it` holds that these are all there are.
PASSES = {
    **dict.fromkeys(["journal-before-begin", "journal-inside", "journal-committed", "journal-anchored"], 35),
    **dict.fromkeys(["files-marked", "git-marked", "sqlite-marked"], 11),
    **dict.fromkeys(["call-before-record", "call-recorded", "call-made", "call-ended"], 6),
    **dict.fromkeys(["action-began", "action-ending", "action-ended"], 6),
    **dict.fromkeys(["pack-written", "pack-synced", "share-sent", "share-noted", "share-done"], 5),
    **dict.fromkeys(["sqlite-committing", "sqlite-committed", "sqlite-copying", "sqlite-copied"], 1),
    **dict.fromkeys(["database-committed", "database-recorded", "outbox-deferring", "outbox-deferred"], 1),
    "bucket-asked": 6,
    "disk-write": 40,
    "disk-sync": 6,
}
FIRST = {"journal-migrating", "lease-acquired", "share-ticket-taken", "share-listed"}
"""Passed by whoever comes first to a store, which is the first checkpoint in these tests."""
SAMPLE = [("call-made", 3), ("database-committed", 1)]
EVERY = [(point, nth) for point, most in PASSES.items() for nth in sorted({1, (most + 1) // 2, most})]


def test_nobody_disturbs_it(shop: Shop) -> None:
    with crash.at("", lambda: None) as passes, shop.one.at_work():
        tools.work(str(shop.one.folder()))
    assert set(passes) - FIRST == set(PASSES)
    with shop.two.at_work():  # a worker may be anywhere
        shop.two.folder("worker").mkdir()
        tools.deliver(str(shop.two.folder("worker")))
    assert tree(shop.one.folder()) == FILES and shop.booked() == DONE
    assert memory(shop.one, shop.one.folder()) == MEMORY


@pytest.mark.parametrize("point, nth", SAMPLE)
def test_a_machine_dies_in_the_middle(point: str, nth: int, shop: Shop) -> None:
    dies_and_goes_on(point, nth, shop)


@pytest.mark.sweep
@pytest.mark.parametrize("point, nth", [case for case in EVERY if case not in SAMPLE])
def test_a_machine_dies_anywhere(point: str, nth: int, shop: Shop) -> None:
    dies_and_goes_on(point, nth, shop)


@pytest.mark.sweep
def test_through_a_real_bucket(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    server = S3Server()
    try:
        for name, value in {**server.environment(), tools.BLOBS: f"s3://{server.make()}/team"}.items():
            monkeypatch.setenv(name, value)
        dies_and_goes_on("call-made", 3, shop)
    finally:
        server.stop()


def dies_and_goes_on(point: str, nth: int, shop: Shop) -> None:
    shop.begin()
    shop.one.killed(point, nth, "tests.machines.tools:work", shop.one.folder())
    new = shop.two.folder("new")
    shop.moved(new)
    shop.works_on(shop.two, new)
    assert tree(new) == FILES
    assert memory(shop.two, new) == MEMORY
    assert shop.booked() == DONE
    with shop.two.at_work(), takeback.open(new) as tb:
        (run,) = tb.history.runs.values()
        assert run.life is Life.DONE and tb.history.breaches == [] and tb.verify(deep=True) == []
        assert not tb.history.open_actions()
    # The dead machine comes back: it can read, and nothing else.
    before = tree(shop.one.folder())
    with shop.one.at_work():
        with pytest.raises(SeatLost, match="moved to"):
            tools.work(str(shop.one.folder()))
        with takeback.open(shop.one.folder()) as tb:
            assert tb.log()
            for refused in (tb.save, tb.undo, tb.redo, tb.gc):
                with pytest.raises(SeatLost):
                    refused()
    assert tree(shop.one.folder()) == before and shop.booked() == DONE


ASLEEP = [("call-ended", 3, 0), pytest.param("call-recorded", 5, 1, marks=pytest.mark.sweep)]


@pytest.mark.parametrize("point, nth, more", ASLEEP)
def test_one_that_was_only_asleep_is_refused(point: str, nth: int, more: int, shop: Shop) -> None:
    """Its fence is old. A call that was about to be made is made, with the key that the other one used."""
    shop.begin()
    sleeper = shop.one.start(
        "-c",
        f"from tests.machines.tools import work_until; work_until({point!r}, '{nth}', {str(shop.one.folder())!r})",
    )
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    new = shop.two.folder("new")
    shop.moved(new)
    shop.works_on(shop.two, new)
    with shop.two.at_work(), takeback.open(new) as tb:
        events = tb.journal.head().count
    before, asked = tree(shop.one.folder()), shop.asked()
    sleeper.send_signal(signal.SIGCONT)
    _, said = sleeper.communicate(timeout=60)
    assert sleeper.returncode != 0 and "SeatLost" in said and f"moved to {os.uname().nodename}:{new}" in said
    assert tree(shop.one.folder()) == before and shop.asked() == asked + more
    assert shop.booked() == DONE
    with shop.two.at_work(), takeback.open(new) as tb:
        assert tb.journal.head().count == events and tb.verify() == []


@pytest.mark.parametrize("clock", ["", "+1h"])
def test_a_machine_that_lives_keeps_its_workspace(shop: Shop, clock: str) -> None:
    """Also while it records nothing, and whatever the clock of the other one says."""
    before = another_time(clock) if clock else []
    shop.begin()
    sleeper = shop.one.start(
        "-c",
        "import sys\n"
        "from tests.machines import tools\n"
        f"with tools.opened({str(shop.one.folder())!r}) as tb, tb.run('long', key='k') as run:\n"
        "    print('at work', flush=True); sys.stdin.read()",
        stdin=True,
    )
    assert sleeper.stdout and sleeper.stdout.readline() == "at work\n"
    new = shop.two.folder("new")
    said = shop.two.takeback(*shop.resume(new), code=3, before=before)
    assert "which is still active (last sign of life" in said and "nothing was brought" in said
    assert not new.exists()
    sleeper.communicate("", timeout=60)
    assert sleeper.returncode == 0


def test_what_is_in_the_folder_stays(shop: Shop) -> None:
    shop.begin()
    new = shop.two.folder("new")
    new.mkdir()
    (new / "mine.txt").write_text("mine")
    said = shop.two.takeback(*shop.resume(new), code=3)
    assert "is not empty: it contains mine.txt. Nothing was changed" in said
    assert [path.name for path in new.iterdir()] == ["mine.txt"]
    assert not (shop.two.disk / "state" / "workspaces").exists()


def test_somebody_edits_what_was_brought(shop: Shop) -> None:
    """What is changed after the move, and before anything was settled, is theirs."""
    shop.begin()
    shop.one.killed("call-made", 2, "tests.machines.tools:work", shop.one.folder())
    new = shop.two.folder("new")
    shop.moved(new)
    (new / "kept" / "notes.txt").write_text("theirs\n")
    with shop.two.at_work(), takeback.open(new) as tb:
        tb.save("look")
        latest = next(a for a in reversed(tb.history.actions.values()) if a.made)
        assert latest.kind == "outside" and [c.target.name for c in latest.changes] == ["kept/notes.txt"]
        # And all of the run can be taken back where it is now.
        (run,) = tb.history.runs
        assert tb.undo(run).verdict == "clean"
    assert tree(new) == {name: FILES[name] for name in ("kept", "link")} | {
        "kept/notes.txt": ("0o100644", "theirs\n")
    }


def test_a_workspace_that_moves_again_and_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.begin()
    with shop.one.at_work():
        tools.work(str(shop.one.folder()))
    first, second = shop.two.folder("first"), shop.two.folder("second")
    shop.moved(first)
    (first / "more.txt").write_text("x")
    with shop.two.at_work(), takeback.open(first) as tb:
        tb.save("with more")
    shop.moved(second)
    assert tree(second) == FILES | {"more.txt": ("0o100644", "x")}
    with shop.two.at_work():
        with takeback.open(first) as tb, pytest.raises(SeatLost):
            tb.save()
        with takeback.open(second) as tb:
            assert [a.kind for a in tb.history.actions.values()][-1] == "outside"
            seats = [r.event for r in tb.journal.read() if isinstance(r.event, WorkspaceSeated)]
    assert [Path(seat.place.root).name for seat in seats] == ["work", "first", "second"]
    assert [seat.is_move for seat in seats] == [False, True, True]
    # It sits there for a minute now.
    monkeypatch.setenv("TAKEBACK_SEAT_S", "60")
    shop.moved(shop.two.folder("third"))
    with pytest.raises(SeatHeld):
        shop.moved_now(shop.two.folder("fourth"))


def test_a_copy_of_the_state_folder_is_another_place(shop: Shop) -> None:
    """As an image of a machine, or a backup that is restored on another one: two that write would both be right."""
    shop.begin()
    shutil.copytree(shop.one.disk / "state", shop.two.disk / "state", symlinks=True)
    with shop.two.at_work(), takeback.open(shop.one.folder()) as tb:
        assert tb.log()
        with pytest.raises(
            SeatLost, match="the state folder here may be a copy of that one; nothing was recorded"
        ):
            tb.save("on the other machine")
    with shop.one.at_work(), takeback.open(shop.one.folder()) as tb:
        tb.save("on the first one")


def test_the_repository_comes_along(shop: Shop) -> None:
    root, new = shop.one.folder(), shop.two.folder("new")

    def git(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
        return done.stdout

    git(root, "init", "-q", "-b", "main")
    (root / "code.py").write_text("1")
    git(root, "add", "code.py")
    git(root, "commit", "-qm", "first")
    git(root, "branch", "other")
    (root / "code.py").write_text("2")
    git(root, "add", "code.py")
    shop.begin()
    shown = [("log", "--oneline", "--all"), ("status", "--porcelain"), ("diff", "--cached"), ("branch",)]
    before = [git(root, *words) for words in shown]
    shop.moved(new)
    assert [git(new, *words) for words in shown] == before
    git(new, "fsck", "--strict")
    with shop.two.at_work(), takeback.open(new) as tb:
        tb.save("here")
        made = [change for action in tb.history.actions.values() for change in action.changes]
        assert [change for change in made if change.before != change.after] == []  # but git's own stamps
        with tb.recording("agent"):
            git(new, "commit", "-qm", "second")
        assert tb.undo().verdict == "clean"
    assert [git(new, *words) for words in shown] == before


def test_what_lies_outside_is_of_the_other_machine(shop: Shop, tmp_path: Path) -> None:
    """The same path here is another file: it is left alone, and the undo says so."""
    away = tmp_path / "away.txt"
    away.write_text("before")
    shop.begin()
    shop.one.takeback("run", "--", "sh", "-c", f"echo changed > {away}; echo x > made", cwd=shop.one.folder())
    new = shop.two.folder("new")
    shop.moved(new)
    with shop.two.at_work(), takeback.open(new) as tb:
        (run,) = tb.history.runs
        assert str(away) in {target.name for target in tb.history.targets("outside")}
        with pytest.raises(RollbackIncomplete) as left:
            tb.undo(run)
        said = {item.target.name: item.why for item in left.value.report.items}
        assert f"outside the workspace, on {os.uname().nodename}" in said[str(away)]
    assert away.read_text() == "changed\n" and not (new / "made").exists()
