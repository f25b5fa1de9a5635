"""What the code of a run leaves running stays the run's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.engine.tracking import tracker
from takeback.errors import RunBusy
from takeback.testing import crash
from takeback.workspace.workspace import Workspace
from tests.cli.processes import wait_for

Let = Callable[[], object]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.py").write_text("work of months\n")
    return made


@pytest.fixture
def tb(work: Path) -> Iterator[Workspace]:
    with takeback.open(work, watching=False) as opened:
        yield opened


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Let]:
    path = tmp_path / "go"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    yield lambda: os.write(fd, b"go\n")
    path.unlink()
    os.close(fd)


@takeback.action(effect="restorable")
def start(place: str) -> None:
    """Something that goes on, and detaches in one way or the other."""
    work = f"read go < {place}/../go; rm -rf {place}/src"
    subprocess.run(["sh", "-c", f"env -i setsid sh -c '{work}' < /dev/null > /dev/null 2>&1 &"], check=True)


@pytest.mark.parametrize("where", ["body", "step", "after a step"])
def test_what_a_run_left_behind_is_taken_back_with_it(
    where: str, tb: Workspace, work: Path, gate: Let
) -> None:
    with tb.run("serve") as run:
        if where == "body":
            run.call(start, str(work))
        with run.step("one"):
            if where == "step":
                run.call(start, str(work))
        if where == "after a step":
            run.call(start, str(work))
        with run.step("two"):
            (work / "made").write_text("made\n")
    (action,) = tb.history.open_actions(Life.BACKGROUND)
    assert action.name == ("one" if where == "step" else "serve")
    with pytest.raises(RunBusy, match="still has processes running"):
        tb.undo(run.id)
    # What is started after the run is not the run's.
    other = subprocess.Popen(["sleep", "600"])
    try:
        gate()
        wait_for(lambda: not tb.parts.tracker.living(action.id))
    finally:
        other.kill()
        other.wait()
    assert not (work / "src").exists()
    report = tb.undo(run.id)
    assert report.verdict == "clean"
    assert (work / "src" / "main.py").exists() and not (work / "made").exists()


def test_a_run_that_fails_is_taken_back_although_something_of_it_lives(
    tb: Workspace, work: Path, gate: Let
) -> None:
    with pytest.raises(ZeroDivisionError), tb.run("serve") as run:
        (work / "made").write_text("made\n")
        run.call(start, str(work))
        raise ZeroDivisionError
    assert not (work / "made").exists()
    (action,) = tb.history.open_actions(Life.BACKGROUND)
    gate()
    wait_for(lambda: not tb.parts.tracker.living(action.id))
    assert tb.undo().verdict == "clean"
    assert (work / "src" / "main.py").exists()


def test_what_it_left_running_ends_while_the_run_is_taken_back(tb: Workspace, work: Path, gate: Let) -> None:
    def end_it() -> None:
        (action,) = tb.history.open_actions(Life.BACKGROUND)
        gate()
        wait_for(lambda: not tb.parts.tracker.living(action.id))

    with pytest.raises(ZeroDivisionError), crash.at(tracker.ENDED, end_it), tb.run("serve") as run:
        run.call(start, str(work))
        raise ZeroDivisionError
    assert (work / "src" / "main.py").exists()
    assert tb.history.runs[run.id].life is Life.FAILED and tb.history.breaches == []
