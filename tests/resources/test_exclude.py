"""Which paths a pattern means; and that what it leaves out is said, left alone, and found again when it is let in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback
from takeback.core.rollback import Verdict
from takeback.resources.files.look.exclude import excluder
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world.settings import write

# A pattern, what it leaves out, and what it does not.
PATTERNS = [
    (
        "node_modules",
        ["node_modules", "node_modules/x/y", "a/node_modules", "a/node_modules/x"],
        ["node_modules2", "a"],
    ),
    ("*.log", ["x.log", "a/b/x.log", ".log", "x.log/inside"], ["x.logs", "xlog", "log"]),
    ("build/", ["build", "build/x", "a/build"], ["builder"]),
    ("/build", ["build", "build/x"], ["other/build"]),
    ("docs/build", ["docs/build", "docs/build/x"], ["build", "a/docs/build"]),
    ("docs/*.tmp", ["docs/x.tmp"], ["docs/a/x.tmp", "x.tmp"]),
    ("docs/**/x", ["docs/x", "docs/a/x", "docs/a/b/x"], ["docs", "docs/ax", "x"]),
    ("**/cache", ["cache", "a/cache", "a/b/cache/x"], ["acache"]),
    ("data/**", ["data/a", "data/a/b"], ["datas"]),
    ("f?le", ["file", "a/f.le"], ["fle", "f/le", "fiile"]),
    ("a.b", ["a.b"], ["axb"]),
    ("[x]", ["[x]"], ["x"]),
    ("(a|b)", ["(a|b)"], ["a", "b"]),
    ("a\nb", ["a\nb"], ["a"]),
    ("ünï", ["ünï", "x/ünï"], ["uni"]),
]


@pytest.mark.parametrize("pattern, inside, outside", PATTERNS, ids=[p[0] for p in PATTERNS])
def test_a_pattern(pattern: str, inside: list[str], outside: list[str]) -> None:
    excluded = excluder([pattern])
    assert [path for path in inside if not excluded(os.fsencode(path))] == []
    assert [path for path in outside if excluded(os.fsencode(path))] == []


def test_without_patterns_only_the_own_repository_is_left_out() -> None:
    excluded = excluder([])
    assert excluded(b".git") and excluded(b".git/config") and excluded(b".git/a\nb")
    for path in (b".gitignore", b"nested/.git", b"nested/.git/config", b".env", b"\xff\xfe", b"x.git"):
        assert not excluded(path)


@pytest.mark.parametrize("pattern", ["", "/", "//"])
def test_an_empty_pattern_leaves_nothing_out(pattern: str) -> None:
    excluded = excluder([pattern])
    assert not excluded(b"a") and not excluded(b"a/b")


def test_bytes_that_are_no_text_are_matched_by_wildcards() -> None:
    excluded = excluder(["*.bin"])
    assert excluded(b"\xff\xfe.bin") and excluded(b"a\n/b\n.bin")


# In a workspace


class Project:
    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.tb: Workspace | None = None

    def open(self, *patterns: str) -> Workspace:
        """Another process, which finds these patterns in takeback.toml."""
        self.close()
        listed = ", ".join(f'"{pattern}"' for pattern in patterns)
        write(self.root, f"[files]\nexclude = [{listed}]\n", self.home)
        self.tb = open_workspace(self.root, home=self.home, watching=False)
        return self.tb

    def close(self) -> None:
        if self.tb is not None:
            self.tb.close()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    for name in ("plan", "x.log", "sub/y.log", "sub/plan"):
        (root / name).write_text("old")
    made = Project(root, tmp_path / "state")
    yield made
    made.close()


def test_excluded_files_are_left_alone(project: Project) -> None:
    tb = project.open("*.log")
    tb.save()
    with tb.recording("agent"):
        for name in ("plan", "x.log", "sub/y.log"):
            (project.root / name).write_text("new")
    assert {str(change.target) for change in tb.diff()} == {"plan"}
    tb.undo()
    assert (project.root / "plan").read_text() == "old"
    assert (project.root / "x.log").read_text() == (project.root / "sub/y.log").read_text() == "new"


def test_every_mark_says_what_is_left_out(project: Project) -> None:
    tb = project.open("*.log", "vendor/")
    for _ in range(2):
        stated = " ".join(text for mark in tb.save().taken.marks for text in mark.stated)
        assert "*.log" in stated and "vendor" in stated, stated
        assert "excluded" in stated


def test_a_folder_that_holds_excluded_files_stays(project: Project) -> None:
    tb = project.open("*.log")
    tb.save()
    with tb.recording("agent"):
        (project.root / "made").mkdir()
        (project.root / "made" / "x").write_text("x")
        (project.root / "made" / "z.log").write_text("log")
    report = tb.undo()
    assert report.verdict is Verdict.CLEAN
    assert (project.root / "made" / "z.log").read_text() == "log"
    assert not (project.root / "made" / "x").exists()


def test_what_is_let_in_again_is_protected_again(project: Project) -> None:
    """Only takeback.toml changed, and no time of any folder that holds the files."""
    project.open("*.log").save()
    tb = project.open()
    tb.save()
    with tb.recording("agent"):
        (project.root / "x.log").unlink()
        (project.root / "sub" / "y.log").unlink()
    tb.undo()
    assert (project.root / "x.log").read_text() == (project.root / "sub" / "y.log").read_text() == "old"


def test_what_is_left_out_from_now_on_is_neither_watched_nor_put_back(project: Project) -> None:
    tb = project.open()
    with tb.recording("agent"):
        (project.root / "x.log").write_text("agent")
        (project.root / "plan").write_text("agent")
    tb = project.open("*.log")
    tb.save()
    (project.root / "x.log").write_text("grown since")
    assert not [c for c in tb.drift() if str(c.target) == "x.log"]
    tb.undo(on_conflict="keep")
    assert (project.root / "plan").read_text() == "old"
    assert (project.root / "x.log").read_text() == "grown since"


def test_a_restore_leaves_excluded_files_where_they_are(project: Project) -> None:
    checkpoint = project.open("*.log").save()
    (project.root / "x.log").write_text("grown")
    (project.root / "plan").write_text("new")
    assert project.tb is not None
    project.tb.restore(checkpoint)
    assert (project.root / "x.log").read_text() == "grown"
    assert (project.root / "plan").read_text() == "old"


# What is Takeback's own


def test_checkpoints_of_workflows_are_claimed() -> None:
    excluded = excluder([])
    for path in (
        "memory/checkpoints/w.json",
        "memory/checkpoints/w.lock",
        "memory/checkpoints/.lock",
        "memory/checkpoints/.w.json.tmp",
        "memory/checkpoints/set-aside/w.1.json",
        "agents/codex/memory/checkpoints/w.json",
    ):
        assert excluded(os.fsencode(path)), path
    for path in (
        "memory",
        "memory/checkpoints",
        "memory/checkpoints/notes.md",
        "memory/checkpoints/deep/w.json",
        "memory/w.json",
        "src/memory/checkpoints/w.json",
        "agents/a/b/memory/checkpoints/w.json",
    ):
        assert not excluded(os.fsencode(path)), path


def test_the_progress_of_a_workflow_is_never_taken_back(project: Project) -> None:
    """An undo that took a checkpoint back would have the agent send its message a second time."""
    tb = project.open()
    tb.save()
    workflow = takeback.workflow("w", key="k", steps=["send", "report"], root=project.root)
    with tb.recording("agent"), workflow, workflow.step("send"):
        (project.root / "plan").write_text("new")
    assert tb.undo().verdict is Verdict.CLEAN
    assert (project.root / "plan").read_text() == "old"
    with takeback.workflow("w", key="k", steps=["send", "report"], root=project.root) as work:
        assert work.remaining == ["report"]
    before = sorted((project.root / "memory/checkpoints").iterdir())
    tb.restore(tb.log()[0].id)
    assert sorted((project.root / "memory/checkpoints").iterdir()) == before
    assert any("takeback workflow" in text for mark in tb.save().taken.marks for text in mark.stated)
