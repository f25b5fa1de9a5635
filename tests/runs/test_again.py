"""A run that is continued: what of it happens once, what happens again, and what is said about that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from takeback.testing.crash import child_environment
from tests.house.repository import document
from tests.house.transcript import steps as blocks
from tests.runs.scene import Scene

NATURAL = """
import os, signal, sys, takeback
from pathlib import Path

with takeback.open(sys.argv[1]) as tb, tb.run("roll out", key="roll-out") as run:
    for name in ("www", "api", "mail"):
        with run.step(name):
            with open("done.txt", "a") as file:
                file.write(f"{name}\\n")
            run.memory["done"] = [*run.memory.get("done", []), name]
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)
"""

KILLING = """
import os, pathlib, signal, sys
when, at, written, count = sys.argv[1], int(sys.argv[2]), pathlib.Path.write_text, 0
def die(moment):
    if (moment, count) == (when, at):
        os.kill(os.getpid(), signal.SIGKILL)
def write_text(self, *args, **kwargs):
    global count
    count += 1
    die("before")
    written(self, *args, **kwargs)
    with open("../calls", "a") as calls:
        calls.write(f"{self.name}\\n")
    die("after")
pathlib.Path.write_text = write_text
exec(compile(open("../example.py").read(), "example.py", "exec"), {"__name__": "__main__"})
"""


def start(scene: Scene, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=scene.root,
        env=child_environment() | {"TAKEBACK_HOME": str(scene.home)},
        capture_output=True,
        text=True,
    )


def the_example() -> str:
    """The program in the tour that is said to go on after a crash, exactly as it stands there."""
    (found,) = [step.code for step in blocks(document("docs/TOUR.md")) if "run.steps(" in step.code]
    return found


FILES = ["www.conf", "api.conf", "mail.conf"]


@pytest.mark.parametrize(
    "when, at, made",
    [
        ("never", 0, FILES),
        ("before", 1, FILES),
        ("before", 3, FILES),
        ("after", 2, ["www.conf", "api.conf", "api.conf", "mail.conf"]),
    ],
)
def test_the_example_in_the_tour_is_killed_anywhere_and_goes_on(
    scene: Scene, when: str, at: int, made: list[str]
) -> None:
    (scene.root.parent / "example.py").write_text(the_example())
    killed = start(scene, "-c", KILLING, when, str(at))
    assert killed.returncode == (-signal.SIGKILL if at else 0), killed.stderr
    again = start(scene, "-c", KILLING, "never", "0")
    assert (again.returncode, again.stderr) == (0, "")
    assert [scene.read(name) for name in FILES] == ["version = 7\n"] * 3
    (memory,) = [memory for memory in scene.memories().values() if memory]
    assert memory == {"www": "version 7", "api": "version 7", "mail": "version 7"}
    # A step that was done is not done again; one that was cut short begins again.
    assert (scene.root.parent / "calls").read_text().split() == made


def test_natural_code_that_does_a_step_again_is_warned(scene: Scene) -> None:
    killed = start(scene, "-c", NATURAL, str(scene.root), "www")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = start(scene, "-c", NATURAL, str(scene.root), "none")
    assert again.returncode == 0, again.stderr
    assert scene.read("done.txt") == "www\nwww\napi\nmail\n", "code in a block runs again"
    assert "step 'www' was already done, and its block changed done.txt again" in again.stderr
    assert "step 'www' was already done, and its block changed done in memory again" in again.stderr
    assert "run.steps(" in again.stderr, "it says how to do better"
    assert "'api'" not in again.stderr and "'mail'" not in again.stderr


def interrupted(scene: Scene) -> None:
    """A run with two steps of three done, whose process died."""
    program = (
        "import os, signal, sys, takeback\n"
        "with takeback.open(sys.argv[1]) as tb, tb.run('x', key='k') as run:\n"
        "    for step in run.steps(['one', 'two', 'three']):\n"
        "        with step:\n"
        "            open(step.name, 'w').close()\n"
        "            if step.name == 'three': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = start(scene, "-c", program, str(scene.root))
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def test_steps_are_those_that_are_still_open(scene: Scene) -> None:
    interrupted(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scene.tb.run("x", key="k") as run:
            left = list(run.steps(["one", "two", "three", "four"]))
            assert [step.name for step in left] == ["three", "four"]
            for step in left:
                with step:
                    assert not step.done
        with scene.tb.run("x", key="k") as run:
            assert list(run.steps(["one", "two", "three", "four"])) == []


def test_a_done_step_that_changes_nothing_is_not_warned_about(scene: Scene) -> None:
    interrupted(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scene.tb.run("x", key="k") as run:
            with run.step("one") as step:
                if not step.done:
                    Path(scene.root, "one").write_text("again")
            scene.human("elsewhere", "in the run, and not in the step")
            with run.step("two") as step:
                assert step.done
            with run.step("three") as step, open(os.path.join(scene.root, "three"), "w") as file:
                file.write("the first time")


def test_a_step_that_was_committed_is_warned_about_too(scene: Scene) -> None:
    def attempt() -> None:
        with scene.tb.run("x", key="k") as run, run.step("one"), open(scene.root / "list", "a") as file:
            file.write("x")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attempt()
    with pytest.warns(UserWarning, match="step 'one' was already done, and its block changed list again"):
        attempt()
