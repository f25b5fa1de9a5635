"""Repositories to begin with, made by plain git: with work in every place where work can lie."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .picture import Picture, differences, take, unsound

FIRST_SECOND = 1_700_000_000
AFTER_PROJECT = FIRST_SECOND + 60 * 100


@dataclass(frozen=True)
class Repo:
    """A repository, and someone who works in it. Each commit is a minute later than the one before."""

    root: Path
    clock: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_SECOND, 60))

    def git(
        self, *args: str, code: int | None = 0, at: Path | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """Run git; it has to end with this code, or with any if that is None."""
        done = subprocess.run(
            ["git", *args],
            cwd=at or self.root,
            env=os.environ | self.environment() | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        assert code is None or done.returncode == code, (args, done)
        return done.stdout.decode(errors="surrogateescape").strip()

    def environment(self) -> dict[str, str]:
        """What makes git give the same commit each time, whatever the machine."""
        now = f"{next(self.clock)} +0000"
        return {
            "GIT_AUTHOR_NAME": "Test",
            "GIT_AUTHOR_EMAIL": "test@example.org",
            "GIT_AUTHOR_DATE": now,
            "GIT_COMMITTER_NAME": "Test",
            "GIT_COMMITTER_EMAIL": "test@example.org",
            "GIT_COMMITTER_DATE": now,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_EDITOR": "true",
        }

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, message: str, **files: str) -> str:
        """Commit these files, and what is already staged; gives the commit."""
        for name, text in files.items():
            self.write(name, text)
            self.git("add", "--", name)
        self.git("commit", "-qm", message, "--allow-empty")
        return self.git("rev-parse", "HEAD")

    def look(self) -> Picture:
        return take(self.root)

    def changes_since(self, before: Picture, *, but: tuple[str, ...] = ()) -> list[str]:
        """How it differs from then, and what git finds wrong with it now."""
        now = self.look()
        return unsound(now) + differences(before, now, but=but)


def lines(word: str, count: int = 12) -> str:
    return "".join(f"{word} {number}\n" for number in range(count))


def project(root: Path, *init: str) -> Repo:
    """A small history: two branches that will not merge, one that will, tags of both kinds, packed and loose."""
    if any("=/" in option for option in init):
        return _build(root, *init)
    made = _template(*init)
    shutil.copytree(made.root, root, symlinks=True)
    repo = Repo(root, itertools.count(AFTER_PROJECT, 60))
    # The copies have other inodes than those that the index knows.
    repo.git("update-index", "-q", "--refresh")
    return repo


@functools.cache
def _template(*init: str) -> Repo:
    """The same one for every test of this process: to be copied, for building it takes forty commands."""
    folder = tempfile.mkdtemp(prefix="takeback-git-world-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _build(Path(folder) / "work", *init)


def _build(root: Path, *init: str) -> Repo:
    root.mkdir(parents=True, exist_ok=True)
    repo = Repo(root)
    repo.git("init", "-q", "-b", "main", *init)
    repo.write(".gitignore", "*.log\nbuild/\n")
    repo.git("add", ".gitignore")
    repo.commit("Begin", app=lines("app"), notes=lines("notes"))
    repo.commit("Add a library", lib=lines("lib"))
    repo.git("tag", "v1")
    repo.git("tag", "-am", "the second", "v2")
    repo.git("checkout", "-qb", "topic")
    repo.commit("Topic", app=lines("topic"))
    repo.commit("Topic goes on", more=lines("more"))
    repo.git("checkout", "-qb", "easy", "main")
    repo.commit("Easy", other=lines("other"))
    repo.git("checkout", "-q", "main")
    repo.commit("Main goes on", app=lines("main"))
    repo.git("pack-refs", "--all")
    repo.commit("One more", lib=lines("library"))
    return repo


def with_stashes(repo: Repo) -> None:
    repo.write("notes", lines("stashed first"))
    repo.git("stash", "push", "-qm", "the first")
    repo.write("notes", lines("stashed second"))
    repo.write("untracked-then", "kept in the stash\n")
    repo.git("stash", "push", "-qum", "the second")


def with_changes(repo: Repo) -> None:
    """Staged, unstaged, both in one file, untracked, ignored."""
    repo.write("notes", lines("staged"))
    repo.git("add", "notes")
    repo.write("notes", lines("staged, and edited again"))
    repo.write("lib", lines("library") + "unstaged\n")
    repo.write("new-staged", "only in the index\n")
    repo.git("add", "new-staged")
    repo.write("untracked", "mine\n")
    repo.write("untracked-folder/deep", "mine\n")
    repo.write("secret.log", "ignored, and nowhere else\n")
    repo.write("build/out", "ignored\n")


def clean(repo: Repo) -> None:
    """Nothing but commits."""


def dirty(repo: Repo) -> None:
    with_stashes(repo)
    with_changes(repo)


def merging(repo: Repo) -> None:
    """In the middle of a merge with a conflict."""
    with_stashes(repo)
    repo.git("merge", "topic", code=1)
    with_changes(repo)
    repo.write("later", "to be added\n")
    repo.git("add", "-N", "later")


def rebasing(repo: Repo) -> None:
    """In the middle of a rebase that stopped in a conflict."""
    with_stashes(repo)
    repo.git("checkout", "-q", "topic")
    repo.git("rebase", "main", code=1)
    with_changes(repo)


def picking(repo: Repo) -> None:
    """In the middle of a cherry-pick of two commits."""
    with_stashes(repo)
    repo.git("cherry-pick", "topic~1", "topic", code=1)
    with_changes(repo)


def reverting(repo: Repo) -> None:
    with_stashes(repo)
    repo.git("revert", "--no-edit", "main~3", "main~1", code=1)
    with_changes(repo)


def bisecting(repo: Repo) -> None:
    with_stashes(repo)
    repo.git("bisect", "start", "main", "v1~1")
    with_changes(repo)


def detached(repo: Repo) -> None:
    with_stashes(repo)
    repo.git("checkout", "-q", "v1")
    repo.commit("On no branch", nowhere=lines("nowhere"))
    with_changes(repo)


Start = Callable[[Repo], None]
STARTS: dict[str, Start] = {
    start.__name__: start
    for start in (clean, dirty, merging, rebasing, picking, reverting, bisecting, detached)
}
