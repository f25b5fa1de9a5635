"""A view: a private picture of the workspace, accepted or dropped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import takeback
from takeback.errors import ConflictError, UsageError

WAYS = ("", "user", "off")
"""As root may, as an ordinary user may, and without namespaces."""


@pytest.fixture(params=WAYS, ids=["overlay", "user", "copy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", request.param)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "a").write_text("one\n")
    (root / "b").write_text("two\n")
    (root / "src" / "c").write_text("three\n")
    return root


def listed(root: Path) -> dict[str, str]:
    """Return every file with its content, by an independent look."""
    return {
        str(path.relative_to(root)): path.read_text() if path.is_file() else ""
        for path in sorted(root.rglob("*"))
        if ".git" not in path.parts
    }


CHANGE = "echo new > n; echo more >> a; rm b; mkdir d; echo q > d/q; chmod 755 src/c"


def test_nothing_changes_outside_until_a_view_is_accepted(root: Path, way: str) -> None:
    before = listed(root)
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert stage.card.kind == ("copy" if way == "off" else "overlay"), stage.card.why_copy
        done = stage.run(["sh", "-c", CHANGE])
        assert (done.code, done.unrecorded) == (0, "")
        assert listed(root) == before
        names = {str(change.target) for change in stage.changes() if change.before != change.after}
        assert names == {"n", "a", "b", "d", "d/q", "src/c"}

        assert stage.accept().is_complete
        assert listed(root) == {
            "a": "one\nmore\n",
            "n": "new\n",
            "d": "",
            "d/q": "q\n",
            "src": "",
            "src/c": "three\n",
        }
        assert os.stat(root / "src" / "c").st_mode & 0o777 == 0o755
        assert tb.stages.names() == []

        assert tb.undo().is_complete
        assert listed(root) == before
        assert tb.redo().is_complete
        assert "n" in listed(root)


def test_a_dropped_view_leaves_nothing(root: Path, way: str) -> None:
    before = listed(root)
    with takeback.open(root) as tb:
        stage = tb.stages.new("x")
        stage.run(["sh", "-c", CHANGE])
        stage.drop()
        assert listed(root) == before
        assert tb.stages.names() == []
        assert not list((tb.state / "stages").iterdir())


def test_what_you_did_meanwhile_is_a_conflict(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        stage.run(["sh", "-c", "echo theirs > a; echo new > n"])
        (root / "a").write_text("mine\n")
        with pytest.raises(ConflictError):
            stage.accept().require_complete()
        assert listed(root)["a"] == "mine\n"
        assert "n" not in listed(root)
        stage.accept(on_conflict="keep").require_complete()
        assert (listed(root)["a"], listed(root)["n"]) == ("mine\n", "new\n")
        assert tb.stages.names() == ["t1"], "what was not taken over is still there"
        stage.accept(on_conflict="overwrite").require_complete()
        assert listed(root)["a"] == "theirs\n"
        tb.undo()
        assert listed(root)["a"] == "mine\n"


def test_a_taken_name_is_refused_and_names_are_made_up(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        assert [tb.stages.new(name).name for name in ("", "", "x", "")] == ["t1", "t2", "x", "t3"]
        with pytest.raises(UsageError, match="there is a view 'x' already"):
            tb.stages.new("x")
        with pytest.raises(UsageError, match="cannot be the name"):
            tb.stages.new("../x")


def test_what_is_done_in_a_view_is_recorded_there_and_can_be_taken_back_there(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        stage.run(["sh", "-c", "echo 1 > one"])
        stage.run(["sh", "-c", "echo 2 > two; rm a"])
        assert stage.inside(lambda inner: str(inner.undo().verdict), str) in ("clean", "unknown")
        names = {str(change.target) for change in stage.changes() if change.before != change.after}
        assert names == {"one"}
        assert not tb.history.actions, "the journal outside knows nothing of it"


def test_a_commit_in_a_view_is_accepted(root: Path, way: str) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        words = "git add -A; git -c user.name=x -c user.email=x@example.org commit -qm second"
        assert stage.run(["sh", "-c", f"{CHANGE}; {words}"]).code == 0
        stage.accept().require_complete()
    log = subprocess.run([*git, "log", "--format=%s"], check=True, capture_output=True, text=True)
    assert log.stdout.split() == ["second", "first"]
    assert not subprocess.run([*git, "status", "--short"], check=True, capture_output=True).stdout
    subprocess.run([*git, "fsck", "--strict"], check=True)
