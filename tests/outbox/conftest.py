from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from takeback.core.intents import IntentState, Queued
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.outbox import tools
from tests.outbox.sink import Sink

QUICK = "[outbox]\nfirst-pause-s = 0.01\nlongest-pause-s = 0.05\n"


@dataclass
class Place:
    """A workspace, and the folders around it."""

    root: Path
    tb: Workspace

    def deliver(self) -> Any:
        """A worker comes by, and takes what is due now."""
        return self.tb.courier().run(once=True)

    def intents(self) -> list[Queued]:
        return list(self.tb.outbox.page())

    def states(self) -> list[IntentState]:
        return [queued.state for queued in self.intents()]

    def sound(self) -> None:
        assert self.tb.verify() == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    root = tmp_path / "work"
    root.mkdir()
    (root / "takeback.toml").write_text(QUICK)
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))
    with open_workspace(root, watching=False) as tb:
        made = Place(root, tb)
        yield made
        made.sound()


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path / "sink")
    yield made
    made.kill()
