"""A home folder, and everything above it, is not protected by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Call


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "users" / "me"
    made.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.mark.parametrize("words", [("init",), ("save",)])
@pytest.mark.parametrize("where", [".", "..", "/"])
def test_refused(where: str, words: tuple[str, ...], call: Call, home: Path) -> None:
    said = call(*words, "-C", str(home / where))
    assert said.code == 3
    assert "home folder" in said.stderr and "nothing was recorded" in said.stderr
    assert "--allow-home" in said.stderr


def test_a_command_is_not_started_there(call: Call, home: Path) -> None:
    assert call("run", "-C", str(home), "--", "touch", "made.md").code == 125
    assert not (home / "made.md").exists()


def test_a_home_that_is_a_link(
    call: Call, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert call("save", "-C", str(home)).code == 3
    assert call("save", "-C", str(tmp_path / "link")).code == 3


def test_whoever_insists_can_also_work_there(call: Call, home: Path) -> None:
    (home / "plan.md").write_text("old")
    assert call("init", "--allow-home", "-C", str(home)).code == 0
    assert call("save", "-C", str(home)).code == 0
    assert call("run", "-C", str(home), "--", "sh", "-c", "echo new > plan.md").code == 0
    assert call("undo", "-C", str(home)).code == 0
    assert (home / "plan.md").read_text() == "old"


def test_a_project_in_the_home_folder_is_fine(call: Call, home: Path) -> None:
    (home / "project").mkdir()
    assert call("save", "-C", str(home / "project")).code == 0


def test_a_git_of_the_home_folder_does_not_make_it_the_root(call: Call, home: Path) -> None:
    """Some keep their settings in a repository at HOME; a folder below is a project of its own."""
    (home / ".git").mkdir()
    (home / "project").mkdir()
    said = call("init", "--json", "-C", str(home / "project"))
    assert said.json["root"] == str(home / "project")
