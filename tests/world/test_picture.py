"""The witness is examined first: it must see every kind of damage, and see nothing where there is none."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from . import torture, wreck
from .picture import ROOT, differences, picture

NAMES = list(torture.properties())
BEYOND_TAR = {"deep-longer-than-a-path-may-be", "deep-deleted-whole"}
if os.geteuid() != 0:
    BEYOND_TAR.add("xattr-on-read-only-file")


def possible(names: list[str], where: Path) -> list[str]:
    return [n for n in names if not torture.missing(torture.properties()[n].needs, where)]


def test_there_are_many_properties() -> None:
    assert len(NAMES) >= 60


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything at once that tar can copy too; read only."""
    root = tmp_path_factory.mktemp("torture") / "tree"
    root.mkdir()
    torture.build(root, [name for name in possible(NAMES, root.parent) if name not in BEYOND_TAR])
    return root


def test_a_tree_that_nobody_touched_has_no_differences(tree: Path) -> None:
    assert differences(picture(bytes(tree)), picture(bytes(tree))) == []


def test_a_true_copy_has_no_differences(tree: Path, tmp_path: Path) -> None:
    """GNU tar shares no code with anything here, and keeps all but sockets and the root's own time."""
    if (
        not shutil.which("tar")
        or b"GNU tar" not in subprocess.run(["tar", "--version"], capture_output=True).stdout
    ):
        pytest.skip("not on this platform: GNU tar is not installed")
    keep = ["--xattrs", "--xattrs-include=*", "--acls", "--sparse", "--numeric-owner"]
    with subprocess.Popen(
        ["tar", "-C", tree, *keep, "--format=posix", "-cf", "-", "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as pack:
        subprocess.run(
            ["tar", "-C", tmp_path, *keep, "--warning=no-timestamp", "-xpf", "-"],
            stdin=pack.stdout,
            check=True,
        )
    before, after = picture(bytes(tree)), picture(bytes(tmp_path))
    sockets = [path for path, entry in before.items() if entry.kind == "socket"]
    parents = [os.path.dirname(path) for path in sockets]
    for path in (*sockets, *parents, ROOT):
        before.pop(path, None)
        after.pop(path, None)
    assert differences(before, after) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_wreck_is_seen(name: str, tmp_path: Path) -> None:
    """A property whose destruction the picture does not show would prove nothing."""
    if reason := torture.missing(torture.properties()[name].needs, tmp_path):
        pytest.skip(f"not on this platform: {reason}")
    torture.build(tmp_path, [name])
    before = picture(bytes(tmp_path))
    torture.wreck(tmp_path, [name])
    assert differences(before, picture(bytes(tmp_path)))


@pytest.mark.parametrize("way", list(wreck.WHOLESALE))
def test_every_wholesale_wreck_is_seen(way: str, tmp_path: Path) -> None:
    names = possible(
        ["mode-0600", "swap-file-for-fifo", "symlink-loop", "fifo-deleted", "env-file"], tmp_path
    )
    torture.build(tmp_path, names)
    before = picture(bytes(tmp_path))
    with contextlib.chdir(tmp_path):
        wreck.main([way])
    assert len(differences(before, picture(bytes(tmp_path)))) >= len(names)


def _turn_into_directory() -> None:
    os.unlink("file")
    os.mkdir("file")


def _point_elsewhere() -> None:
    os.unlink("link")
    os.symlink("b", "link")


def _break_link() -> None:
    os.unlink("twin")
    shutil.copy2("file", "twin")


def _fill_holes() -> None:
    Path("holes").write_bytes(b"\x01" * (1 << 20))


def _change_content() -> None:
    Path("file").write_bytes(b"0ther")


SMALL_DAMAGE: dict[str, Callable[[], None]] = {
    "content": _change_content,
    "size": partial(os.truncate, "file", 3),
    "mode": partial(os.chmod, "file", 0o601),
    "kind": _turn_into_directory,
    "link": _point_elsewhere,
    "mtime_ns": partial(os.utime, "file", ns=(0, 1)),
    "hardlinks": _break_link,
    "sparse": _fill_holes,
    "gone": partial(os.unlink, "twin"),
    "new": partial(os.mkdir, "extra"),
}


@pytest.mark.parametrize("field", list(SMALL_DAMAGE))
def test_it_names_what_differs(field: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        Path("file").write_bytes(b"other")
        os.link("file", "twin")
        os.symlink("a", "link")
        with open("holes", "wb") as file:
            file.truncate(1 << 20)
        before = picture(bytes(tmp_path))
        SMALL_DAMAGE[field]()
    assert any(f": {field} " in line for line in differences(before, picture(bytes(tmp_path))))


def test_it_neither_waits_for_a_fifo_nor_follows_a_link(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    os.symlink("/", tmp_path / "everything")
    begun = time.monotonic()
    assert set(picture(bytes(tmp_path))) == {ROOT, b"fifo", b"everything"}
    assert time.monotonic() - begun < 60


def test_the_roots_git_can_be_left_out_but_not_a_nested_one(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub/.git").mkdir(parents=True)
    assert b".git" in picture(bytes(tmp_path))
    assert set(picture(bytes(tmp_path), git=False)) == {ROOT, b"sub", b"sub/.git"}
