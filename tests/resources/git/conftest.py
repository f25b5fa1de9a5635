"""A repository with two commits, under protection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .desk import Desk, git


def made(root: Path, home: Path, *init: str) -> Desk:
    root.mkdir()
    git(root, "init", "-q", "-b", "main", *init)
    desk = Desk(root, home)
    desk.commit("a", "one\n")
    desk.commit("b", "two\n")
    desk.git("branch", "feature")
    return desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = made(tmp_path / "work", tmp_path / "state")
    yield desk
    desk.tb.close()


@pytest.fixture
def sha256(tmp_path: Path) -> Iterator[Desk]:
    desk = made(tmp_path / "work", tmp_path / "state", "--object-format=sha256")
    yield desk
    desk.tb.close()
