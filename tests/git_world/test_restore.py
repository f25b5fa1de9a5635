"""`restore` makes the folder equal to a checkpoint. Branches, commits and what is staged stay where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from .picture import differences
from .repo import project
from .scene import Scene


def test_a_restore_moves_no_branch(tmp_path: Path) -> None:
    scene = Scene.of(project(tmp_path / "work"), tmp_path / "state")
    checkpoint = scene.world.save()
    then = scene.look()
    scene.repo.git("checkout", "-q", "-b", "mine")
    scene.repo.commit("My own work", app="mine\n")
    before = scene.look()
    assert scene.quick("restore", checkpoint) == 0
    now = scene.look()
    assert differences(before, now, but=("file", "folder", "status")) == []
    assert now.tree == then.tree


def test_a_restored_checkpoint_with_a_database_has_its_rows_again(tmp_path: Path) -> None:
    import sqlite3

    repo = project(tmp_path / "work")
    database = sqlite3.connect(repo.root / "app.db")
    database.executescript("create table t (x); insert into t values (1);")
    scene = Scene.of(repo, tmp_path / "state")
    checkpoint = scene.world.save()
    database.executescript("delete from t; create table u (x);")
    assert scene.quick("restore", checkpoint) == 0
    assert [row for row in database.iterdump() if "INSERT" in row] == ['INSERT INTO "t" VALUES(1);']
    database.close()


def test_a_restore_says_that_the_repository_is_not_as_it_was(tmp_path: Path) -> None:
    scene = Scene.of(project(tmp_path / "work"), tmp_path / "state")
    checkpoint = scene.world.save()
    assert "the repository" not in scene.world.do("restore", checkpoint).stdout
    scene.repo.commit("My own work", app="mine\n")
    assert (
        "kept       the repository: a restore does not move branches"
        in scene.world.do("restore", checkpoint).stdout
    )


@pytest.mark.parametrize("named", [False, True])
def test_a_worktree_outside_goes_if_it_was_named_and_else_is_said_to_stay(
    named: bool, tmp_path: Path
) -> None:
    scene = Scene.of(project(tmp_path / "work"), tmp_path / "state")
    scene.agent("git worktree add -q ../beside" if named else "x=$(printf ../beside); git worktree add -q $x")
    said = " ".join(scene.world.do("undo").stdout.split())
    assert ("beside is outside the workspace, and stays" in said) is not named
    assert (tmp_path / "beside").exists() is not named
