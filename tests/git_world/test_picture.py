"""The witness can be relied on: it writes nothing, equals itself, and names every kind of damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.world import picture as trees

from .picture import Picture, differences, take, unsound
from .repo import STARTS, Repo, dirty, merging, project, rebasing, with_stashes
from .scene import sample


def whole(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything below a folder, `.git` included, with inode and times."""
    return {
        path: (
            *entry,
            *(getattr(os.lstat(os.path.join(bytes(root), path)), n) for n in ("st_ino", "st_ctime_ns")),
        )
        for path, entry in trees.picture(bytes(root)).items()
    }


@pytest.mark.parametrize("start", sample(list(STARTS), "merging"))
def test_looking_changes_nothing_and_gives_the_same_again(start: str, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    STARTS[start](repo)
    # An index that git would gladly refresh.
    os.utime(repo.root / "app")
    before = whole(tmp_path)
    first = repo.look()
    assert unsound(first) == []
    assert differences(first, repo.look()) == []
    assert whole(tmp_path) == before


@pytest.mark.parametrize(
    "start",
    sample([name for name in STARTS if name not in ("clean", "dirty", "detached")], "picking", "bisecting"),
)
def test_an_operation_in_progress_is_in_the_picture(start: str, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    before = repo.look()
    STARTS[start](repo)
    found = repo.changes_since(before)
    assert any(line.startswith("operation ") for line in found)
    assert any(line.startswith("status ") for line in found)
    assert any(line.startswith("stash ") for line in found)


def _write_git(repo: Repo, name: str, text: str) -> None:
    path = repo.root / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _lose_an_object(repo: Repo) -> None:
    name = repo.git("rev-parse", "HEAD:lib")
    (repo.root / ".git/objects" / name[:2] / name[2:]).unlink()


def _commit_in_submodule(repo: Repo) -> None:
    repo.git("commit", "-qm", "x", "--allow-empty", at=repo.root / "sub")


def _other_head_in_linked(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach", at=repo.root / "linked")


def _stage_in_linked(repo: Repo) -> None:
    (repo.root / "linked/app").write_text("x")
    repo.git("add", "app", at=repo.root / "linked")


DAMAGE: dict[str, tuple[Callable[[Repo], object], str]] = {
    "branch moved": (lambda r: r.git("branch", "-f", "topic", "main"), "ref main refs/heads/topic"),
    "branch gone": (lambda r: r.git("branch", "-D", "topic"), "ref main refs/heads/topic"),
    "tag new": (lambda r: r.git("tag", "v9"), "ref main refs/tags/v9"),
    "note": (lambda r: r.git("notes", "add", "-m", "x"), "ref main refs/notes/commits"),
    "HEAD elsewhere": (lambda r: r.git("symbolic-ref", "HEAD", "refs/heads/easy"), "HEAD main"),
    "HEAD detached": (lambda r: r.git("update-ref", "--no-deref", "HEAD", "easy"), "HEAD main"),
    "symbolic ref": (
        lambda r: r.git("symbolic-ref", "refs/x/y", "refs/heads/main"),
        "symbolic ref main refs/x/y",
    ),
    "staged": (lambda r: r.git("add", "lib"), "entries main"),
    "index bytes": (lambda r: r.git("update-index", "--index-version", "4"), "index main"),
    "assumed unchanged": (lambda r: r.git("update-index", "--assume-unchanged", "lib"), "entries main"),
    "stash dropped": (lambda r: r.git("stash", "drop", "-q"), "stash main"),
    "stash order": (lambda r: r.git("stash", "drop", "-q", "stash@{1}"), "stash main"),
    "reflog expired": (lambda r: r.git("reflog", "expire", "--expire=now", "--all"), "reflog main"),
    "config": (lambda r: r.git("config", "x.y", "z"), "config main"),
    "hook": (lambda r: _write_git(r, "hooks/pre-commit", "exit 1"), "hook main"),
    "hook mode": (lambda r: (r.root / ".git/hooks/here").chmod(0o644), "hook main"),
    "exclude": (lambda r: _write_git(r, "info/exclude", "*"), "info main"),
    "lock": (lambda r: _write_git(r, "refs/heads/main.lock", ""), "lock main"),
    "merge given up": (lambda r: r.git("update-ref", "-d", "MERGE_HEAD"), "operation main"),
    "worktree added": (lambda r: r.git("worktree", "add", "-q", "--detach", "w"), "worktrees main"),
    "worktree gone": (lambda r: r.git("worktree", "remove", "-f", "linked"), "worktrees main"),
    "head of worktree": (_other_head_in_linked, "HEAD worktree linked"),
    "index of worktree": (_stage_in_linked, "entries worktree linked"),
    "commit in submodule": (_commit_in_submodule, "ref module sub refs/heads/main"),
    "submodule": (_commit_in_submodule, "submodules main"),
    "object lost": (_lose_an_object, "fsck main"),
    "mentioned object": (lambda r: r.git("prune", "--expire=now"), "mentioned main"),
    "object of nobody": (lambda r: r.git("prune", "--expire=now"), "object main"),
    "file edited": (lambda r: r.write("app", "x"), "file 'app'"),
    "ignored file gone": (lambda r: r.git("clean", "-qfdX"), "file 'secret.log'"),
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, Path, Picture]:
    """A repository with everything in it, and a copy of it to begin with again."""
    folder = tmp_path_factory.mktemp("full")
    sub = project(folder / "origin")
    repo = project(folder / "work")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(sub.root), "sub")
    repo.commit("With a submodule")
    repo.git("worktree", "add", "-q", "linked", "easy")
    _write_git(repo, "hooks/here", "exit 1\n")
    (repo.root / ".git/hooks/here").chmod(0o755)
    repo.write("x", "of nobody")
    repo.git("hash-object", "-w", "x")
    merging(repo)
    shutil.copytree(repo.root, folder / "copy", symlinks=True)
    return repo, folder / "copy", repo.look()


@pytest.mark.parametrize("name", DAMAGE)
def test_every_kind_of_damage_is_named(name: str, full: tuple[Repo, Path, Picture]) -> None:
    repo, copy, before = full
    shutil.rmtree(repo.root)
    shutil.copytree(copy, repo.root, symlinks=True)
    damage, told = DAMAGE[name]
    damage(repo)
    after = repo.look()
    assert any(line.startswith(told) for line in differences(before, after)), differences(before, after)
    assert bool(unsound(after)) == (name in ("object lost", "lock"))


def test_it_names_a_rebase_that_went_on(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    rebasing(repo)
    before = repo.look()
    repo.git("rebase", "--abort")
    found = repo.changes_since(before)
    assert any("rebase-merge/onto: gone" in line for line in found)


def test_aspects_can_be_left_out(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    dirty(repo)
    before = repo.look()
    repo.git("config", "x.y", "z")
    with_stashes(repo)
    told = {line.split()[0] for line in repo.changes_since(before)}
    assert {"config", "stash", "index", "file", "reflog"} <= told
    assert not {"config", "stash"} & {
        line.split()[0] for line in repo.changes_since(before, but=("config", "stash"))
    }


def test_no_repository_is_a_picture_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert take(tmp_path).facts == {}
    Repo(tmp_path).git("init", "-q")
    assert unsound(take(tmp_path)) == []
    assert "HEAD main" in differences(Picture({}, {}, frozenset()), take(tmp_path), but=("file",))[0]
