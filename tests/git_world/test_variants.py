"""Repositories of every kind: an agent's commands in them are taken back to the picture before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .picture import differences, take
from .repo import Repo, dirty, project, with_changes, with_stashes
from .scene import USUAL, Scene, sample, taken_back

LOCAL = ("-c", "protocol.file.allow=always")


# How the objects and refs are kept


def test_sha256(tmp_path: Path) -> None:
    repo = project(tmp_path / "work", "--object-format=sha256")
    dirty(repo)
    assert len(repo.git("rev-parse", "HEAD")) == 64
    taken_back(Scene.of(repo, tmp_path / "state"), USUAL)


def test_everything_packed(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    dirty(repo)
    repo.git("gc", "-q")
    assert not list((repo.root / ".git/refs/heads").iterdir())
    taken_back(Scene.of(repo, tmp_path / "state"), USUAL)


def test_objects_of_another_repository(tmp_path: Path) -> None:
    origin = project(tmp_path / "origin")
    origin.git("clone", "-qs", str(origin.root), str(tmp_path / "work"))
    repo = Repo(tmp_path / "work")
    assert (repo.root / ".git/objects/info/alternates").exists()
    taken_back(Scene.of(repo, tmp_path / "state"), f"git branch topic origin/topic; {USUAL}; git repack -adq")


def test_a_shallow_clone(tmp_path: Path) -> None:
    origin = project(tmp_path / "origin")
    origin.git("clone", "-q", "--depth", "2", f"file://{origin.root}", str(tmp_path / "work"))
    repo = Repo(tmp_path / "work")
    taken_back(Scene.of(repo, tmp_path / "state"), f"git fetch -q --unshallow; {USUAL}")


@pytest.mark.parametrize(
    "kind", sample(["--split-index", "--index-version=4", "--untracked-cache"], "--split-index")
)
def test_an_index_of_another_kind(kind: str, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.git("update-index", *kind.split("="))
    with_changes(repo)
    taken_back(Scene.of(repo, tmp_path / "state"), "git add -A .; git commit -qm agent; git rm -q lib")


def test_sparse_and_assumed_unchanged(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.commit("Folders", **{"one/a": "a\n", "two/b": "b\n"})
    repo.git("sparse-checkout", "set", "one")
    repo.git("update-index", "--assume-unchanged", "lib")
    taken_back(
        Scene.of(repo, tmp_path / "state"), "git sparse-checkout disable; git add -A .; git commit -qm x"
    )


# Names


def test_names_that_are_folders_of_other_names(tmp_path: Path) -> None:
    """A branch `a` cannot be where `a/b` is: what is in the way goes first, in refs and in their logs."""
    repo = project(tmp_path / "work")
    repo.git("branch", "a")
    repo.git("branch", "deep/er/b")
    script = "git branch -D a deep/er/b; git branch a/b; git branch a/c/d; git branch deep/er; git branch dee"
    scene = Scene.of(repo, tmp_path / "state")
    taken_back(scene, script)
    repo.git("pack-refs", "--all")
    taken_back(scene, f"{script}; git pack-refs --all")


@pytest.mark.parametrize("name", sample(["größe/ü", "with%percent", "it's", "-dash", "x.y"], "größe/ü"))
def test_names_that_are_hard_to_spell(name: str, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    refs = f"refs/heads/x{name}"
    repo.git("update-ref", refs, "HEAD")
    scene = Scene.of(repo, tmp_path / "state")
    taken_back(scene, f'git update-ref -d "{refs}"; git update-ref "{refs}-2" HEAD~1')


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    name = os.fsdecode(b"refs/heads/caf\xe9")
    repo.git("update-ref", name, "HEAD")
    (repo.root / os.fsdecode(b"caf\xe9")).write_text("x\n")
    repo.git("add", "-A", ".")
    script = (
        """n=$(printf 'caf\\351'); git update-ref -d "refs/heads/$n"; git commit -qm x; git rm -q "$n" """
    )
    taken_back(Scene.of(repo, tmp_path / "state"), script)


def test_symbolic_refs_and_refs_of_other_kinds(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.git("symbolic-ref", "refs/heads/current", "refs/heads/main")
    repo.git("notes", "add", "-m", "a note", "HEAD")
    repo.git("replace", "main~1", "main~2")
    script = """
    git symbolic-ref refs/heads/current refs/heads/topic; git symbolic-ref HEAD refs/heads/current
    git notes append -m more HEAD; git notes add -m x HEAD~1; git replace -d main~1; git update-ref refs/x/y HEAD
    """
    taken_back(Scene.of(repo, tmp_path / "state"), script)


# Worktrees and submodules


def linked(folder: Path) -> tuple[Repo, Repo]:
    """A repository, and a linked worktree of it; both with work in them."""
    main = project(folder / "main")
    with_stashes(main)
    main.git("worktree", "add", "-q", "-b", "side", str(folder / "work"), "easy")
    side = Repo(folder / "work", main.clock)
    with_changes(side)
    return main, side


def test_the_workspace_is_a_linked_worktree(tmp_path: Path) -> None:
    _, side = linked(tmp_path)
    taken_back(Scene.of(side, tmp_path / "state"), USUAL)


def test_a_merge_stopped_in_a_linked_worktree(tmp_path: Path) -> None:
    main, side = linked(tmp_path)
    scene = Scene.of(side, tmp_path / "state")
    desk = take(main.root)
    taken_back(scene, "git add -A .; git commit -qm x; git rebase topic; git bisect start; git config x.y z")
    assert [d for d in differences(desk, take(main.root)) if d.startswith("file")] == []


def test_the_main_worktree_while_a_linked_one_exists(tmp_path: Path) -> None:
    main, _ = linked(tmp_path)
    with_changes(main)
    taken_back(Scene.of(main, tmp_path / "state"), f"{USUAL}; git -C ../work commit -qm x")


def test_a_worktree_inside_comes_and_goes(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.git("worktree", "add", "-q", "-b", "mine", "inside")
    (repo.root / "inside/app").write_text("edited\n")
    repo.git("add", "app", at=repo.root / "inside")
    (repo.root / "inside/lib").write_text("edited, and not staged\n")
    scene = Scene.of(repo, tmp_path / "state")
    taken_back(
        scene, "git worktree remove -f inside; git worktree add -q -b other outside; git branch -D mine"
    )
    taken_back(scene, "git worktree move inside moved; git worktree lock moved")


def with_submodule(folder: Path) -> Repo:
    part = project(folder / "part")
    repo = project(folder / "work")
    repo.git(*LOCAL, "submodule", "add", "-q", str(part.root), "sub")
    repo.commit("With a part")
    with_stashes(repo)
    sub = repo.root / "sub"
    (sub / "app").write_text("edited in the part\n")
    repo.git("add", "app", at=sub)
    repo.git("stash", "push", "-qm", "in the part", at=sub)
    return repo


def test_a_submodule(tmp_path: Path) -> None:
    repo = with_submodule(tmp_path)
    script = (
        f"cd sub; git stash drop; git checkout -qb deep; {USUAL}; cd ..; git add sub; git commit -qm bump"
    )
    taken_back(Scene.of(repo, tmp_path / "state"), script)


def test_a_submodule_is_thrown_away(tmp_path: Path) -> None:
    repo = with_submodule(tmp_path)
    script = "git submodule deinit -f sub; git rm -qf sub; rm -rf .git/modules/sub; git commit -qm gone"
    taken_back(Scene.of(repo, tmp_path / "state"), script)


def test_a_submodule_is_added(tmp_path: Path) -> None:
    part = project(tmp_path / "part")
    repo = project(tmp_path / "work")
    script = f"git {' '.join(LOCAL)} submodule add -q {part.root} new/part; git commit -qm part"
    taken_back(Scene.of(repo, tmp_path / "state"), script)


def test_the_workspace_is_a_submodule(tmp_path: Path) -> None:
    whole = with_submodule(tmp_path)
    part = Repo(whole.root / "sub", whole.clock)
    assert (part.root / ".git").is_file()
    taken_back(Scene.of(part, tmp_path / "state"), f"git checkout -qb deep; {USUAL}")
