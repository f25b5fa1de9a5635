"""What git tracks and ignores is read from its files; git itself is the judge of that."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.listing import ListPlace, Rank
from takeback.resources.git.format import ignore_file
from takeback.resources.git.known_files import KnownFiles

FILE = Version("f:644:x")


def git(root: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(["git", *words], cwd=root, input=given, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def places(root: Path, *names: str) -> dict[str, ListPlace]:
    known = KnownFiles(root, lambda _: None, lambda _: None)
    found = known.places(Change(Target("files", name), FILE, ABSENT) for name in names)
    return {target.name: place for target, place in found.items()}


PATTERNS = (
    "*.log\n!keep.log\n",
    "/top\nsub/deep\n**/any\n",
    "a/**/z\nb/**\n",
    "dir/\n",
    "*\n!*/\n!*.py\n",
    "[ab].txt\n[!c].md\n[[:digit:]].n\n",
    "x\\ \nsp \n\\#hash\n\\!bang\n# comment\n",
    "fo?.c\n*~\n.*\n",
    "a*b/c\n",
    "/*\n!/src\n",
    "[\n[]a].q\n\\\n",
)
NAMES = [
    "keep.log",
    "x.log",
    "src/x.log",
    "top",
    "sub/top",
    "sub/deep",
    "a/sub/deep",
    "any",
    "a/b/any",
    "a/z",
    "a/b/z",
    "a/b/c/z",
    "b/1",
    "b/c/2",
    "dir/f",
    "a/dir/f",
    "dir2/f",
    "m.py",
    "a/m.py",
    "m.txt",
    "a.txt",
    "c.txt",
    "a.md",
    "c.md",
    "5.n",
    "#hash",
    "!bang",
    "foo.c",
    "fo.c",
    "x~",
    ".hid",
    "a/.hid/f",
    "axb/c",
    "src/1",
    "other/1",
    "].q",
    "a.q",
    "src/dir",
]


@pytest.mark.parametrize("patterns", PATTERNS, ids=repr)
def test_the_patterns_mean_what_they_mean_to_git(patterns: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text(patterns)
    names = [*NAMES, "x ", "sp"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    answered = git(tmp_path, "check-ignore", "--no-index", "-z", "--stdin", given="\0".join(names))
    expected = set(filter(None, answered.split("\0")))
    known = places(tmp_path, *names)
    plain = {n for n in names if not n.endswith((".log", ".o"))}  # those look generated whatever git says
    found = {name for name in plain if known[name].rank in (Rank.IGNORED, Rank.GENERATED)}
    assert found == expected & plain


def test_a_log_looks_generated_whatever_git_says(tmp_path: Path) -> None:
    assert places(tmp_path, "x.log", "x.py") == {
        "x.log": ListPlace(Rank.GENERATED),
        "x.py": ListPlace(Rank.FILE),
    }


def test_patterns_of_a_folder_come_before_those_above(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "sub/.gitignore").write_text("!mine.txt\n")
    found = places(tmp_path, "sub/mine.txt", "sub/other.txt")
    assert [found[name].rank for name in ("sub/mine.txt", "sub/other.txt")] == [Rank.FILE, Rank.IGNORED]


def test_a_folder_of_dependencies_is_generated_without_git_too(tmp_path: Path) -> None:
    home = ListPlace(Rank.GENERATED, "web/node_modules")
    assert places(tmp_path, "web/node_modules/x/y.js", "web/app.js") == {
        "web/node_modules/x/y.js": home,
        "web/app.js": ListPlace(),
    }


@pytest.mark.parametrize("version", [2, 4])
def test_what_was_added_by_force_is_tracked(version: int, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "node_modules").mkdir()
    for name in ("node_modules/ours.js", "node_modules/theirs.js", ".env", "other.env"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("node_modules\n*.env\n")
    git(tmp_path, "add", "--force", "node_modules/ours.js", ".env")
    git(tmp_path, "update-index", "--index-version", str(version))
    found = places(tmp_path, "node_modules/ours.js", "node_modules/theirs.js", ".env", "other.env")
    assert found == {
        "node_modules/ours.js": ListPlace(),
        "node_modules/theirs.js": ListPlace(Rank.GENERATED, "node_modules"),
        ".env": ListPlace(),
        "other.env": ListPlace(Rank.IGNORED),
    }


def test_in_a_linked_worktree_its_own_index_counts(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", str(tree))
    (tree / ".gitignore").write_text(".env\n")
    (tree / ".env").touch()
    assert places(tree, ".env")[".env"].rank is Rank.IGNORED
    git(tree, "add", "--force", ".env")
    assert places(tree, ".env")[".env"].rank is Rank.FILE


def test_a_link_or_a_pipe_is_not_read_as_patterns(tmp_path: Path) -> None:
    """Neither leads out of the workspace, nor waits for a writer."""
    (tmp_path / "secret").write_text("*\n")
    (tmp_path / "a").mkdir()
    (tmp_path / ".gitignore").symlink_to("secret")
    os.mkfifo(tmp_path / "a/.gitignore")
    assert places(tmp_path, "a/x.py")["a/x.py"].rank is Rank.FILE


@given(st.binary(max_size=40), st.binary(max_size=12))
def test_no_patterns_are_too_strange(data: bytes, path: bytes) -> None:
    for rule in ignore_file.read(data):
        assert ignore_file.decision([rule], path, is_folder=True) in (True, False, None)


def test_the_cost_depends_on_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitignore").write_text("node_modules\n")
    opened: list[object] = []
    really = os.open

    def counted(path: bytes, flags: int) -> int:
        opened.append(path)
        return really(path, flags)

    monkeypatch.setattr(os, "open", counted)
    names = [f"node_modules/{n}/lib/{m}.js" for n in range(100) for m in range(10)]
    assert {place.home for place in places(tmp_path, *names).values()} == {"node_modules"}
    assert len(opened) <= 3, "nothing below an ignored folder is looked at"
