"""Checks after a rollback, as a user sees them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.world.cli import Workspace


def test_a_check_of_takeback_toml_is_part_of_the_verdict(tmp_path: Path) -> None:
    (root := tmp_path / "work").mkdir()
    world = Workspace(root, tmp_path / "state")
    check = f"{sys.executable} -c 'import os, sys; sys.exit(os.path.exists(\\\"closed\\\"))'"
    world.human("takeback.toml", f'[checks]\nafter-rollback = ["{check}"]\n')
    world.do("init", "--accept-config")
    world.agent("echo new > made")
    done = world.do("undo")
    assert "checked" in done.stdout and not (root / "made").exists()
    world.agent("echo new > made")
    world.human("closed", "for repairs")
    done = world.run("undo")
    assert done.code == 6
    assert "check failed" in done.stdout and "exit code 1" in done.stdout
    assert "Incomplete: all recorded changes are taken back, and a check failed." in done.stdout + done.stderr
    world.agent("echo new > made")
    found = world.run("undo", "--json").json
    assert found["verdict"] == "partial"
    assert [one["passed"] for one in found["checks"]] == [False]
