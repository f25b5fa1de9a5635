"""Databases that any process changes are taken back, whatever it did to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.workspace.workspace import Workspace

from .tool import RUN_STATEMENTS, Statements, fill, picture, tool

MODES = ["delete", "wal", "truncate", "persist"]


@pytest.mark.parametrize("mode", MODES)
def test_500_random_statements_are_taken_back(tb: Workspace, root: Path, mode: str) -> None:
    path = root / "app.db"
    fill(path, mode)
    before = picture(path)
    tb.save()

    seed = 6 + MODES.index(mode)
    with tb.recording("agent"):
        tool(path, RUN_STATEMENTS, *Statements(seed).some(500))
    after = picture(path)
    assert after != before

    assert tb.undo().verdict == "clean"
    assert picture(path) == before
    assert tb.redo().verdict == "clean"
    assert picture(path) == after
    assert tb.undo().verdict == "clean"
    assert picture(path) == before
    assert tb.verify(deep=True) == []
    assert {entry.name for entry in root.iterdir()} <= {"app.db", "app.db-journal"}


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40))
def test_many_random_histories(tb: Workspace, root: Path, seed: int) -> None:
    path = root / "app.db"
    fill(path, MODES[seed % len(MODES)])
    pictures = [picture(path)]
    statements = Statements(seed)
    for _ in range(5):
        with tb.recording("agent"):
            tool(path, RUN_STATEMENTS, *statements.some(100))
        pictures.append(picture(path))
    for before in reversed(pictures[:-1]):
        assert tb.undo().verdict == "clean"
        assert picture(path) == before
