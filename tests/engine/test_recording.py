"""A block that is recorded has the guarantees of `takeback run`: signs of life, rules, and the locks of others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from takeback.core.events import Effect
from takeback.core.leases import Holder
from takeback.engine.tracking import signs_of_life
from takeback.errors import RefusedError
from takeback.system import processes
from takeback.testing import forks as kill
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world import settings


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "a.py").write_text("one\n")
    return tmp_path / "work"


@pytest.fixture
def tb(root: Path) -> Iterator[Workspace]:
    with open_workspace(root, watching=False) as tb:
        yield tb


def write_and_wait(root: Path) -> None:
    """Write something in the middle of a block, and go on until killed."""
    with open_workspace(root, watching=False) as tb, tb.recording("agent") as id:
        alive = tb.state / "alive" / id
        first_ns = alive.stat().st_mtime_ns
        while alive.stat().st_mtime_ns == first_ns:
            time.sleep(0.02)
        (root / "made.txt").write_text("mine")
        made_ns = (root / "made.txt").stat().st_mtime_ns
        while alive.stat().st_mtime_ns <= made_ns:
            time.sleep(0.02)
        (root.parent / "shown").touch()
        signal.pause()


def test_what_a_block_wrote_before_it_was_killed_is_its_own(root: Path, tmp_path: Path) -> None:
    with open_workspace(root, watching=False) as tb:
        tb.save("before")
    errors = tmp_path / "errors"
    pid = kill.start(write_and_wait, root, errors=errors)
    while not (tmp_path / "shown").exists():
        assert not errors.exists(), errors.read_text()
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    assert kill.end(pid) == kill.KILLED
    with open_workspace(root, watching=False) as tb:
        tb.recover()
        (action,) = tb.history.actions.values()
        assert [(c.target.name, c.in_doubt) for c in action.changes if c.target.name == "made.txt"] == [
            ("made.txt", False)
        ]
        tb.undo()
    assert not (root / "made.txt").exists()


def test_signs_of_life_end_with_the_block(tb: Workspace) -> None:
    with tb.recording("agent") as id:
        assert (tb.state / "alive" / id).exists()
    assert not (tb.state / "alive" / id).exists()


def test_what_a_block_changed_under_the_lock_of_another_is_told(tb: Workspace, root: Path) -> None:
    tb.leases.store.acquire("src", Holder("r999", "ann"), 600)
    with tb.recording("agent") as id:
        (root / "src/a.py").write_text("two\n")
    assert tb.notices == [f"{id} changed what another run has locked: src/a.py is locked by r999 (ann)"]


def test_a_command_that_another_has_locked_is_refused_before_the_block(tb: Workspace, root: Path) -> None:
    tb.leases.store.acquire("src", Holder("r999", "ann"), 600)
    with (
        pytest.raises(RefusedError, match=r"is locked by r999 \(ann\)\. It was not started"),
        tb.recording("agent", command=["rm", "-rf", str(root / "src")]),
    ):
        raise AssertionError("the block began")
    assert not tb.history.actions


def test_a_command_that_a_rule_denies_is_refused_before_the_block(root: Path) -> None:
    settings.write(root, '[rules.commands]\ndeny = ["npm publish"]\n')
    with (
        open_workspace(root, watching=False) as tb,
        pytest.raises(RefusedError, match=r"the rule is commands\.deny"),
        tb.recording("agent", command="npm publish"),
    ):
        raise AssertionError("the block began")


def test_a_command_is_foreseen(tb: Workspace) -> None:
    with tb.recording("agent", command=["git", "push"]) as id:
        pass
    with tb.recording("agent", command="echo x > made.txt") as other:
        pass
    effects = [getattr(tb.history.actions[one].began, "effect", None) for one in (id, other)]
    assert effects == [Effect.IRREVERSIBLE, Effect.RESTORABLE]


@pytest.mark.parametrize("begin", [Workspace.recording, Workspace.run])
def test_the_thread_of_a_block_does_not_count_as_started_in_it(
    tb: Workspace, monkeypatch: pytest.MonkeyPatch, begin: Callable[..., AbstractContextManager[object]]
) -> None:
    """Otherwise every process of the machine would be looked at when the block ends."""
    # What others left at work keeps the thread of theirs.
    monkeypatch.setattr(signs_of_life, "_pulse", signs_of_life.Pulse())
    before = set(threading.enumerate())
    started_at_count: list[int] = []

    def count(real: Callable[[], processes.Count] = processes.count) -> processes.Count:
        started_at_count.append(len(set(threading.enumerate()) - before))
        return real()

    monkeypatch.setattr(processes, "count", count)
    for _ in range(2):  # the second block finds the thread of the first one
        with begin(tb, "agent"):
            in_block = len(set(threading.enumerate()) - before)
        assert started_at_count[0] == in_block == 1
        started_at_count.clear()


def test_nothing_shows_an_action_after_its_end(tb: Workspace) -> None:
    beat = signs_of_life.Heartbeat(tb.parts.tracker.life)
    for id in ("a1", "a2"):
        beat.add(id)
    beat.remove("a1")
    beat.show(last=True)
    assert os.listdir(tb.state / "alive") == ["a2"]
    beat.stop()
    (tb.state / "alive/a2").unlink()
    beat.show(last=True)
    assert not os.listdir(tb.state / "alive")
