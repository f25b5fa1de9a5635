"""A repository under protection, with an agent and a human at work in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.world.cli import Result, Workspace
from tests.world.kill import finish, killed_at, places_of

from .picture import Picture, differences
from .repo import Repo

USUAL = """\
echo a > made; git add -A .; git commit -qm agent; echo b >> lib; git commit -qa --amend -m again
git checkout -q -b agents; git branch -D topic easy; git tag -d v1; git tag -f v2 HEAD
git reset -q --hard HEAD~1; echo x > y; git stash push -qu; git stash clear; git merge -q v1
git reflog expire --expire=now --all; git gc -q --prune=now; git pack-refs --all\
"""
"""Enough of an agent's commands to change everything that a repository has."""


@dataclass(frozen=True)
class Scene:
    """Commands in processes of their own, or in forks of this one where only the exit code matters."""

    repo: Repo
    world: Workspace

    @classmethod
    def of(cls, repo: Repo, home: Path) -> Scene:
        return cls(repo, Workspace(repo.root, home))

    # The agent

    def agent(self, script: str) -> None:
        """The agent runs a shell script as one action; it may fail as it likes."""
        code = self.quick("run", "--", "sh", "-c", f"{script}\ntrue")
        assert code == 0, (script, code)

    # Takeback

    def quick(self, *command: str) -> int:
        """A command in a fork: no output, but a fraction of the time."""
        return finish(command, cwd=self.repo.root, home=self.world.home)

    def killed(self, place: int, *command: str) -> bool:
        return killed_at(place, command, cwd=self.repo.root, home=self.world.home)

    def places(self, *command: str) -> list[str]:
        return places_of(command, cwd=self.repo.root, home=self.world.home)

    def undo(self, *args: str, code: int = 0) -> Result:
        """Take back; exit code 0 means that every item was verified."""
        return self.world.undo(*args, code=code)

    # The witness

    def look(self) -> Picture:
        return self.repo.look()

    def is_at(self, before: Picture, *, but: tuple[str, ...] = (), beside: str = "\n") -> None:
        """Everything is as it was then, and git finds nothing wrong. `beside`: how lines begin that do not count."""
        found = [line for line in self.repo.changes_since(before, but=but) if not line.startswith(beside)]
        assert not found, "\n".join(found)


BROKEN = ("fsck",)
"""A redo throws no objects away again."""


def report(result: Result) -> dict[str, Any]:
    """An undo's report, also where it ended with an error."""
    said: dict[str, Any] = json.loads(result.stdout)
    return said


@contextmanager
def thrown_away(folder: Path) -> Iterator[Path]:
    """A folder that is removed at once, so that repositories do not pile up."""
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    shutil.rmtree(folder)


def everything() -> bool:
    """Whether the long way was asked for."""
    return bool(os.environ.get("TAKEBACK_TEST_ALL"))


def sample(names: Sequence[str], *usual: str) -> list[Any]:
    """These as parameters; those that are not usual wait for --all."""
    return [name if name in usual else pytest.param(name, marks=pytest.mark.sweep) for name in names]


def taken_back(scene: Scene, script: str) -> None:
    """The agent does this, and after undo nobody could tell; with --all, nor after redo and undo."""
    before = scene.look()
    scene.agent(script)
    after = scene.look()
    assert differences(before, after), "the agent did nothing"
    assert scene.quick("undo") == 0
    scene.is_at(before)
    if not everything():
        return
    assert scene.quick("redo") == 0
    # What the agent had broken is broken again, but for objects, which stay.
    found = differences(after, scene.look(), but=BROKEN)
    assert not found, "\n".join(found)
    assert scene.quick("undo") == 0
    scene.is_at(before)
