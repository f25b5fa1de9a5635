"""`run.lock`: one has it, the others wait, hear who has it, or hear that they wait for each other."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from takeback.core.intents import IntentState
from takeback.core.lifecycle import Life
from takeback.engine.locks import keeper
from takeback.errors import Deadlock, LeaseHeld, LeaseLost, UsageError
from takeback.workspace.workspace import Workspace

SHORT_S = 0.1


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


def lose(other: Workspace, name: str = "src") -> None:
    """Let a lock run out, as if its process had stood still, and have it taken."""
    time.sleep(2 * SHORT_S)
    with other.run("the other") as run, run.lock(name):
        pass


@pytest.fixture
def _asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody renews: the process stands still, as far as others can tell."""
    monkeypatch.setattr(keeper.LeaseKeeper, "keep", lambda *_: None)


def test_one_has_it_and_the_other_hears_who(tb: Workspace, other: Workspace) -> None:
    with tb.run("one", actor="ann") as run:
        with run.lock("src") as lock:
            lock.check()
            with other.run("two") as second, pytest.raises(LeaseHeld) as refused, second.lock("src/a.py"):
                pass
            assert f"src/a.py is locked by {run.id} (ann), process {os.getpid()}" in refused.value.message
            assert refused.value.holders[0].fence == lock.fence
        with other.run("three") as third, third.lock("src") as later:
            assert later.fence > 1
    assert tb.leases.live() == []


def test_the_other_waits_until_it_is_free(tb: Workspace, other: Workspace) -> None:
    order, locked = [], threading.Event()

    def hold() -> None:
        with tb.run("one") as run, run.lock("deploy"):
            locked.set()
            time.sleep(0.3)
            order.append("one lets go")

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    with other.run("two") as run, run.lock("deploy", wait_s=30):
        order.append("two has it")
    thread.join()
    assert order == ["one lets go", "two has it"]


def test_it_is_kept_as_long_as_the_block_lasts(tb: Workspace, other: Workspace) -> None:
    def left_us() -> int:
        (lease,) = other.leases.live()
        return lease.left_us

    with tb.run("one") as run, run.lock("src", ttl_s=3):
        for _ in range(2):
            lowest = left_us()
            # Time only runs out, unless somebody renews it. A lease that has run out is not live, and fails here.
            while (now := left_us()) <= lowest:
                lowest = now
                time.sleep(0.01)
        with other.run("two") as second, pytest.raises(LeaseHeld), second.lock("src"):
            pass


def test_a_run_has_its_own_twice(tb: Workspace, other: Workspace) -> None:
    with tb.run("one") as run, run.lock("src"):
        with run.lock("src/a.py"):
            pass
        with other.run("two") as second, pytest.raises(LeaseHeld), second.lock("src/a.py"):
            pass


def test_names_and_paths(tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "link").symlink_to("src")
    name = tb.leases.name
    monkeypatch.chdir(root)
    assert name("src/") == name(root / "src") == name("./src/../src") == "src"
    monkeypatch.chdir(root / "src")
    assert (name("./a.py"), name("a.py"), name("..")) == ("src/a.py", "a.py", ".")
    assert name(root / "link/a.py") == "src/a.py"
    assert name("/etc/hosts") == "/etc/hosts"
    for wrong in ("", " ", root.parent):
        with pytest.raises(UsageError):
            name(wrong)
    with tb.run("r") as run, pytest.raises(UsageError):
        run.lock("src", ttl_s=0).__enter__()


def test_two_who_wait_for_each_other_and_the_younger_is_told(tb: Workspace, other: Workspace) -> None:
    both = threading.Barrier(2)
    heard: list[tuple[str, str]] = []

    def work(workspace: Workspace, first: str, second: str, older: threading.Event | None) -> None:
        if older:
            older.wait()
        try:
            with workspace.run(first) as run, run.lock(first):
                began.set()
                both.wait()
                with run.lock(second, wait_s=60):
                    heard.append((run.id, "got both"))
        except Deadlock as error:
            heard.append((first, str(error)))

    began = threading.Event()
    threads = [
        threading.Thread(target=work, args=(tb, "a", "b", None)),
        threading.Thread(target=work, args=(other, "b", "a", began)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (told,) = [text for who, text in heard if who == "b"]
    assert "waiting for it would be a deadlock" in told and "The youngest of them gave up" in told
    assert [text for who, text in heard if who != "b"] == ["got both"]
    lives = {run.began.name: run.life for run in tb.history.runs.values()}
    assert lives == {"a": Life.DONE, "b": Life.FAILED}


# Lost


@pytest.mark.usefixtures("_asleep")
def test_who_has_lost_it_begins_nothing_more_and_nothing_is_lost(
    tb: Workspace, other: Workspace, root: Path
) -> None:
    run = tb.run("one")

    def work() -> None:
        with run, run.lock("src", ttl_s=SHORT_S):
            run.call(write, str(root / "src/a.py"), "two\n")
            lose(other)
            run.call(write, str(root / "src/a.py"), "three\n")

    with pytest.raises(LeaseLost, match="the lock on src was lost") as refused:
        work()
    assert "takeback locks list" in refused.value.hint
    assert (root / "src/a.py").read_text() == "two\n"
    assert tb.history.runs[run.id].life is Life.HANDED_OVER
    tb.undo(run.id)
    assert (root / "src/a.py").read_text() == "one\n"


@pytest.mark.usefixtures("_asleep")
def test_nor_does_it_commit_or_send(tb: Workspace, other: Workspace, root: Path) -> None:
    run = tb.run("one")

    def work() -> None:
        with run:
            run.lock("src", ttl_s=SHORT_S).__enter__()
            run.defer("command", ["true"])
            (root / "src/a.py").write_text("two\n")
            lose(other)

    with pytest.raises(LeaseLost):
        work()
    assert tb.history.runs[run.id].life is Life.HANDED_OVER
    assert [queued.state for queued in tb.outbox.page()] == [IntentState.HELD]
    assert (root / "src/a.py").read_text() == "two\n"


@pytest.mark.usefixtures("_asleep")
@pytest.mark.parametrize("late", [False, True])
def test_nor_does_a_step(
    tb: Workspace, other: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    """Also where it is lost between the last look and the record of the end."""
    run = tb.run("one")
    if late:
        monkeypatch.setattr(run._context, "check_invariants", lambda: None)

    def work() -> None:
        with run, run.lock("src", ttl_s=SHORT_S), run.step("edit"):
            run.defer("command", ["true"], release="step")
            (root / "src/a.py").write_text("two\n")
            lose(other)

    with pytest.raises(LeaseLost):
        work()
    assert [queued.state for queued in tb.outbox.page()] == [IntentState.HELD]
    assert [step.life for step in tb.history.runs[run.id].steps.values()] == [Life.FAILED]
    assert tb.history.runs[run.id].life is Life.HANDED_OVER
    assert tb.history.open_actions() == []
    assert (root / "src/a.py").read_text() == "two\n"


@pytest.mark.usefixtures("_asleep")
def test_the_end_of_its_block_says_so(tb: Workspace, other: Workspace) -> None:
    with tb.run("one") as run:
        with (
            pytest.raises(LeaseLost, match="Its block ran on until now"),
            run.lock("src", ttl_s=SHORT_S),
        ):
            lose(other)
        run.call(os.getpid)  # without the lock it may go on with something else


@pytest.mark.usefixtures("_asleep")
def test_what_has_run_out_and_nobody_took_is_not_lost(tb: Workspace) -> None:
    with tb.run("one") as run, run.lock("src", ttl_s=SHORT_S):
        time.sleep(2 * SHORT_S)
        run.call(os.getpid)
    assert tb.history.runs[run.id].life is Life.DONE


def test_a_human_who_lets_go_of_it_stops_the_run(tb: Workspace, other: Workspace) -> None:
    run = tb.run("one")

    def work() -> None:
        with run, run.lock("src"):
            other.leases.release([lease.fence for lease in other.leases.live()])
            run.call(os.getpid)

    with pytest.raises(LeaseLost, match=r"src was lost: .* or a human released it"):
        work()
    assert tb.history.runs[run.id].life is Life.HANDED_OVER
