from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback


@pytest.fixture(params=["", pytest.param("off", marks=pytest.mark.sweep)], ids=["overlay", "copy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Views as this machine makes them, and without namespaces: by default only where EACH_WAY says so."""
    monkeypatch.setenv("TAKEBACK_NAMESPACES", request.param)
    return str(request.param)


@pytest.fixture
def tb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[takeback.Workspace]:
    root = tmp_path / "work"
    root.mkdir()
    (root / "plan.md").write_text("old\n")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.chdir(root)
    with takeback.open(root) as opened:
        yield opened
        assert not opened.verify()
