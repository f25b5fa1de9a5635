"""A project under protection, set up as a user does it: `takeback install`, and nothing by hand."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from takeback.agents.settings import apply
from tests.world.cli import Result, Workspace, run
from tests.world.picture import Picture, differences, picture

from . import clients, stories

# These trust what stands in the user's own settings; a project's they have to be told to trust.
USER_LEVEL = ("codex", "gemini")


def of_npm(agent: str) -> Any:
    """For the long runs: these are slow to start. test_e2e_npm.py has them in every run."""
    return pytest.param(agent, marks=pytest.mark.sweep)


@dataclass(frozen=True)
class Protected:
    """One agent in one project, with the state of Takeback beside it."""

    agent: str
    desk: clients.Desk
    world: Workspace

    @property
    def project(self) -> Path:
        return self.desk.project

    @property
    def settings(self) -> Path:
        """The file with the agent's hooks."""
        return apply.place(
            self.agent, project=self.project, home=self.desk.home, user=self.agent in USER_LEVEL
        )

    def install(self) -> None:
        self.takeback("install", self.agent, *(["--user"] if self.agent in USER_LEVEL else []))

    def also(self, agent: str) -> Protected:
        """The same project, with another agent in it too."""
        made = replace(self, agent=agent)
        made.install()
        return made

    def takeback(self, *args: str, code: int | None = 0) -> Result:
        """A command of the human, in another terminal."""
        env = {"HOME": str(self.desk.home)}
        done = run(args, cwd=self.project, home=self.world.home, env=env)
        assert code is None or done.code == code, (args, done)
        return done

    def undo(self, *args: str) -> Any:
        """Take back, and hold it to its word."""
        report = self.takeback("undo", *args, "--json").json
        assert report["verdict"] in ("clean", "unknown"), report
        assert all(item["verified"] for item in report["items"]), report
        return report

    def look(self) -> Picture:
        return picture(os.fsencode(self.project))

    def changes_since(self, before: Picture) -> list[str]:
        return differences(before, self.look())

    def entries(self) -> list[dict[str, Any]]:
        """All that is recorded since the hooks were installed, oldest first."""
        found: list[dict[str, Any]] = self.takeback("log", "-n", "0", "--json").json["entries"]
        return [entry for entry in found[::-1] if not entry.get("name", "").startswith("takeback install")]

    def command(self, event: str) -> str:
        """What the client starts for an event, as its settings say."""
        (group,) = json.loads(self.settings.read_text(encoding="utf-8"))["hooks"][event]
        hook: dict[str, Any] = group["hooks"][0] if "hooks" in group else group
        return str(hook["command"])

    def tell(
        self, event: str, payload: Mapping[str, Any], env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One event through the command in the settings, as a client starts it: by a shell, with JSON."""
        return subprocess.run(
            ["sh", "-c", self.command(event)],
            cwd=self.project,
            env=_plain_environment(self.desk) | dict(env or {}),
            input=json.dumps(payload),
            capture_output=True,
            text=True,
            timeout=clients.TIME_S_MAX,
        )


def _plain_environment(desk: clients.Desk) -> dict[str, str]:
    return {"HOME": str(desk.home), "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"} | desk.more


@contextmanager
def protected(folder: Path, agent: str, *, state: Path | None = None) -> Iterator[Protected]:
    """A project with some files, and the agent's hooks in its settings. Its daemon ends with it."""
    desk = clients.Desk.at(folder)
    stories.begin(desk.project)
    home = state or folder / "state"
    desk.more["TAKEBACK_HOME"] = str(home)
    made = Protected(agent, desk, Workspace(desk.project, home))
    made.install()
    try:
        yield made
    finally:
        end_daemon(home)


def apart_from_times(before: Picture, after: Picture) -> list[str]:
    """The differences, but for the times of folders: an entry that came and went shows there."""
    changed = differences(before, after)
    folders = {path for path in before if before[path].kind == "directory"}
    times = tuple(f"{path.decode()!r}: mtime_ns" for path in folders)
    return [line for line in changed if not line.startswith(times)]


def daemon_pid(state: Path) -> int:
    """The daemon that is at work now, or 0. Its lock tells, since a number may be another process's meanwhile."""
    lock = state / "daemon.lock"
    if not lock.exists():
        return 0
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return 0
        except BlockingIOError:
            words = file.read().split()
            return int(words[0]) if words else 0


def end_daemon(state: Path, how: int = signal.SIGKILL) -> int:
    """End the daemon, if there is one; which it was."""
    if pid := daemon_pid(state):
        os.kill(pid, how)
    return pid
