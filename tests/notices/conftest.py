"""A workspace whose notifier writes down what it is told."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.cli.processes import wait_for
from tests.world import cli


@dataclass
class Desk:
    """A folder with [notify], its state, and everything that its notifier heard."""

    root: Path
    heard: Path

    @property
    def home(self) -> Path:
        return Path(os.environ["TAKEBACK_HOME"])

    def configure(self, *to: str, more: str = "") -> None:
        """Write takeback.toml as a human does."""
        (self.root / "takeback.toml").write_text(
            f"{more}[notify]\nto = {json.dumps(to or [self.command()])}\n"
        )

    def command(self, before: str = "") -> str:
        """A notifier that does something first, and then writes down what it is told."""
        code = f"import sys,time; {before}open({str(self.heard)!r}, 'a').write(sys.stdin.read() + chr(10))"
        return f'command:{sys.executable} -c "{code}"'

    def open(self, *, accept: bool = True) -> Workspace:
        return open_workspace(self.root, watching=False, accept_config=accept)

    def takeback(self, *words: str, code: int = 0, **env: str) -> cli.Result:
        done = cli.run(words, cwd=self.root, home=self.home, env=env)
        assert done.code == code, done.said
        return done

    def messages(self) -> list[dict[str, Any]]:
        if not self.heard.exists():
            return []
        return [json.loads(line) for line in self.heard.read_text().splitlines()]

    def wait(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many messages."""
        wait_for(lambda: len(self.messages()) >= count)
        return self.messages()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    root = tmp_path / "desk"
    root.mkdir()
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    # The process that tells is started by this one, and imports from where this one does.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entry for entry in sys.path if entry))
    return Desk(root, tmp_path / "heard")
