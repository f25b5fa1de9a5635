"""A workspace in this process, with a human and an agent at work in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


@dataclass
class Desk:
    """A folder under protection. The human writes, the agent acts, Takeback takes back."""

    root: Path
    home: Path
    tb: Workspace

    def human(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def agent(self, **written: str | None) -> str:
        """One action that writes files, or removes those that are None: agent(plan="new")."""
        with self.tb.recording("agent") as id:
            for name, text in written.items():
                if text is None:
                    (self.root / name).unlink()
                else:
                    self.human(name, text)
        return id

    def read(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None

    def reopen(self) -> None:
        """Another process, later."""
        self.tb.close()
        self.tb = open_workspace(self.root, home=self.home, watching=False)


@pytest.fixture(params=[False, True], ids=["scanning", "watching"])
def watching(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def desk(tmp_path: Path, watching: bool) -> Iterator[Desk]:
    root = tmp_path / "work"
    root.mkdir(exist_ok=True)
    (root / "plan").write_text("old")
    made = Desk(root, tmp_path / "state", open_workspace(root, home=tmp_path / "state", watching=watching))
    yield made
    made.tb.close()
