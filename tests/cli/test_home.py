"""Where the state is kept: never where somebody else's link leads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from takeback.errors import BackendError
from takeback.settings.environment import state_home
from tests.world.cli import Workspace

SOMEBODY = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="not on this platform: only root can make somebody else's link")
@pytest.mark.parametrize("deep", [False, True], ids=["the link", "a link above it"])
def test_somebody_elses_link_is_not_followed(deep: bool, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "sub").mkdir(parents=True, mode=0o755)
    (mine / "sub").chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(mine if deep else mine / "sub")
    os.lchown(link, SOMEBODY, SOMEBODY)
    world = Workspace(tmp_path / "work", link / "sub" if deep else link)
    world.root.mkdir()
    done = world.do("save", code=4)
    assert "a link that does not belong to you" in done.stderr
    assert stat.S_IMODE((mine / "sub").stat().st_mode) == 0o755 and not list((mine / "sub").iterdir())


def test_a_link_of_ones_own_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("./real")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "again/../link/not/yet"))
    assert state_home() == tmp_path / "real/not/yet"
    (tmp_path / "round").symlink_to("round")
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "round"))
    with pytest.raises(BackendError, match="TAKEBACK_HOME goes through"):
        state_home()
