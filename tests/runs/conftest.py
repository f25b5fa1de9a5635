from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.resources.calls import resource
from takeback.workspace.opening import open_workspace
from tests.runs import service
from tests.runs.scene import Scene


@pytest.fixture(scope="session")
def _service() -> Iterator[None]:
    with service.running():
        yield


@pytest.fixture
def scene(tmp_path: Path, _service: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A folder with one file in it. Afterwards the journal is sound, whatever happened."""
    monkeypatch.setattr(resource, "PAUSE_S", 0.0)
    service.ask("reset")
    root = tmp_path / "work"
    root.mkdir()
    (root / "plan").write_text("old")
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    made = Scene(root, tmp_path / "state", open_workspace(root, watching=False))
    yield made
    made.sound()
    made.tb.close()
