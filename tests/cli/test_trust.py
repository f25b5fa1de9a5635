"""An agent cannot loosen its own protection by editing takeback.toml."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.world.cli import Workspace

LOOSE = r'printf "[files]\nexclude = [\"src\"]\n" > takeback.toml'


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    root.mkdir()
    return Workspace(root, tmp_path / "state")


def test_settings_that_an_agent_wrote_do_not_hold_until_a_human_accepts_them(world: Workspace) -> None:
    world.human("src/a", "mine")
    world.agent(LOOSE)
    world.agent("rm src/a")
    done = world.do("undo")
    assert world.read("src/a") == "mine"
    assert "takeback init --accept-config" in done.stderr
    world.do("init", "--accept-config")
    assert "excluded by takeback.toml: src" in world.do("save", "--json").json["not_covered"]


def test_settings_that_a_human_wrote_hold_at_once(world: Workspace) -> None:
    world.human("src/a", "mine")
    world.do("save")
    world.human("takeback.toml", '[files]\nexclude = ["src"]\n')
    assert "excluded by takeback.toml: src" in world.do("save", "--json").json["not_covered"]


def test_an_agent_cannot_accept_its_own_settings(world: Workspace) -> None:
    world.human("src/a", "mine")
    world.agent(LOOSE)
    done = world.run("run", "--", sys.executable, "-m", "takeback", "init", "--accept-config")
    assert done.code == 3 and "cannot accept its own settings" in done.stderr
