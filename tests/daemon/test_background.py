"""What a call leaves behind, with the daemon watching, and without it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from takeback.core.entities import RecordedAction
from takeback.core.lifecycle import Life
from takeback.daemon import control
from takeback.workspace.opening import open_workspace
from tests.cli.processes import wait_for, wait_for_file
from tests.world.cli import REPOSITORY, Workspace

from . import agent as player
from .agent import Agent

LOOSE = '[agents]\nautopilot = true\n[rules.effects]\nirreversible = "allow"\n'


class Playing:
    """An agent that is a process of its own, which waits between its scenes."""

    def __init__(self, world: Workspace, how: str) -> None:
        self.world = world
        self._how = how
        self._started: list[subprocess.Popen[bytes]] = []
        self._go = world.root.parent / "go"
        os.mkfifo(self._go)
        self._gate = os.open(self._go, os.O_RDWR)

    def play(self, *scenes: tuple[str, str]) -> None:
        """Play them, and stay."""
        waiting = self.world.root.parent / "waiting"
        agent = Agent(self.world)
        words = [
            sys.executable,
            "-m",
            player.__name__,
            self._how,
            json.dumps([*scenes, ("wait", str(waiting))]),
        ]
        env = agent.environment() | {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"}
        self._started.append(
            subprocess.Popen(
                words, cwd=self.world.root, env=env, stdin=subprocess.PIPE, start_new_session=True
            )
        )
        wait_for_file(waiting)

    def later(self, work: str) -> str:
        """A command that goes on when it is let."""
        return f"env -i setsid sh -c 'read go < {self._go}; {work}' < /dev/null > /dev/null 2>&1 &"

    def let(self) -> None:
        os.write(self._gate, b"go\n")

    def actions(self) -> list[RecordedAction]:
        """What is recorded, without a look at the world."""
        with open_workspace(self.world.root, home=self.world.home, watching=False) as opened:
            return list(opened.history.actions.values())

    def lives(self) -> list[Life]:
        return [action.life for action in self.actions() if action.is_tool]

    def close(self) -> None:
        self._go.unlink()
        os.close(self._gate)
        for process in self._started:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


@pytest.fixture
def playing(world: Workspace) -> Iterator[Playing]:
    made = Playing(world, "daemon")
    yield made
    made.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_daemon_looks_when_it_has_ended(playing: Playing, world: Workspace) -> None:
    playing.play(("bash", playing.later(f"rm -rf {world.root}/sub")))
    assert playing.lives() == [Life.BACKGROUND]
    playing.let()
    wait_for(lambda: playing.lives() == [Life.DONE])
    # So what comes after it is the human's.
    world.human("a.txt", "mine\n")
    world.undo()
    assert world.read("sub/b.txt") == "two\n" and world.read("a.txt") == "mine\n"


def test_a_daemon_that_is_killed_meanwhile_loses_nothing(playing: Playing, world: Workspace) -> None:
    playing.play(("bash", playing.later(f"rm -rf {world.root}/sub")))
    os.kill(control.holder(world.home), signal.SIGKILL)
    wait_for(lambda: not control.holder(world.home))
    assert playing.lives() == [Life.BACKGROUND]
    playing.let()
    wait_for(lambda: not (world.root / "sub").exists())
    wait_for(lambda: world.run("undo").code == 0)
    assert world.read("sub/b.txt") == "two\n"
    assert not [
        action for action in playing.actions() if action.kind == "outside" and "sub" in str(action.changes)
    ]


def test_a_daemon_that_was_started_during_a_call_is_not_left_behind_by_it(
    playing: Playing, world: Workspace
) -> None:
    lock = world.home / "daemon.lock"
    left = ("bash", playing.later(f"rm -rf {world.root}/sub"))
    playing.play(left, ("sh", f"kill -9 $(cat {lock})"), ("bash", "echo y > y"))
    assert control.holder(world.home) and playing.lives() == [Life.BACKGROUND, Life.DONE]
    playing.let()
    wait_for(lambda: playing.lives() == [Life.DONE, Life.DONE])
    (run,) = {action.stream for action in playing.actions() if action.is_tool}
    world.undo(run)
    assert not world.has("y") and world.has("sub/b.txt")


@pytest.mark.parametrize("how", ["daemon", "alone"])
def test_settings_that_it_wrote_do_not_hold(how: str, world: Workspace) -> None:
    playing = Playing(world, how)
    try:
        world.human("takeback.toml", "[agents]\nautopilot = true\n")
        (world.root.parent / "loose").write_text(LOOSE)
        write = playing.later(f"cat {world.root.parent}/loose > {world.root}/takeback.toml")
        playing.play(("bash", write))
        playing.let()
        wait_for(lambda: world.read("takeback.toml") == LOOSE)
        said = Agent(world, session="s2", how=how).bash("git push --force")
        assert "refused" in said.refusal, said
        assert "irreversible" not in said.refusal.partition("To allow")[2]
    finally:
        playing.close()
