"""Looking writes nothing: until something is taken back, the repository is as git left it, byte and inode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .repo import STARTS, project
from .scene import Scene, sample


def whole(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file and folder below, with bytes, inode and times. Objects may have one more name elsewhere."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        info = path.lstat()
        name = str(path.relative_to(folder))
        known: tuple[object, ...] = (info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns)
        if path.is_file() and not path.is_symlink():
            known += (path.read_bytes(),)
        if not name.startswith("objects"):
            # A further hard link changes the ctime, and nothing else of a file.
            known += (info.st_ctime_ns, info.st_nlink)
        found[name] = known
    return found


@pytest.mark.parametrize("start", sample(list(STARTS), "rebasing"))
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_nothing_is_written_until_something_is_taken_back(start: str, packed: bool, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    STARTS[start](repo)
    if packed:
        repo.git("gc", "-q")
    scene = Scene.of(repo, tmp_path / "state")
    # An index that git itself would refresh at once.
    os.utime(repo.root / "app")
    before = whole(repo.root / ".git")
    for command in (
        ["save"],
        ["run", "--", "sh", "-c", "echo x > made; echo y > app"],
        ["status"],
        ["diff"],
        ["log"],
        ["save"],
        ["undo", "--preview"],
        ["verify", "--deep"],
        ["gc"],
    ):
        assert scene.quick(*command) == 0, command
        assert whole(repo.root / ".git") == before, command


def test_taking_files_back_writes_nothing_to_the_repository(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    STARTS["merging"](repo)
    scene = Scene.of(repo, tmp_path / "state")
    before = whole(repo.root / ".git")
    scene.agent("echo x > made; echo y > app; rm notes")
    assert scene.quick("undo") == 0
    assert whole(repo.root / ".git") == before
    assert (repo.root / "notes").exists()


def test_taking_one_ref_back_touches_no_other(tmp_path: Path) -> None:
    """Only what the agent changed is written; all the rest keeps even its inode."""
    repo = project(tmp_path / "work")
    STARTS["dirty"](repo)
    scene = Scene.of(repo, tmp_path / "state")
    scene.world.save()
    before = whole(repo.root / ".git")
    scene.agent("git tag agents")
    assert scene.quick("undo") == 0
    after = whole(repo.root / ".git")
    folders = {".", "refs", "refs/tags"}
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in changed if not name.startswith("objects")} <= folders
