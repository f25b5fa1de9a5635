"""Objects that went while every ref stayed: seen, told and brought back; and what cannot be brought back is said."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from takeback.errors import RollbackIncomplete
from takeback.ports.progress import silent
from takeback.resources.git import entry
from takeback.resources.git.format import packs
from takeback.resources.git.mirror.mirror import Mirror

from .desk import Desk, git, says

OBJECTS = entry.target_of(b"objects")
PRUNE = "git reflog expire --expire=now --all; git gc -q --prune=now"


def objects(root: Path) -> set[str]:
    return set(git(root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_objects_thrown_away_are_counted_and_come_back(desk: Desk, packed: bool) -> None:
    if packed:
        desk.git("gc", "-q")
    before, there = desk.picture(), objects(desk.root)
    desk.agent("rm -rf .git/objects/pack .git/objects/??")
    report = desk.undo()
    assert says(report) == [f"{len(there)} objects back"]
    assert desk.picture() == before and objects(desk.root) == there


def test_the_folder_itself_comes_back(desk: Desk) -> None:
    before, there = desk.picture(), objects(desk.root)
    desk.agent("rm -rf .git/objects")
    assert says(desk.undo()) == ["objects back"]
    assert desk.picture() == before and objects(desk.root) == there
    desk.tb.redo()
    assert desk.picture() == before, "a redo throws nothing away"


def test_packing_is_no_loss(desk: Desk) -> None:
    """How objects are packed makes no difference, however often that changes."""
    desk.tb.save()
    for script in (
        "git gc -q",
        "git repack -adq",
        "git repack -adq --depth=1",
        "git repack -q; git prune-packed",
    ):
        desk.commit(f"{len(script)}")
        action = desk.agent(script)
        assert "objects" not in {e.target.name for e in desk.tb.history.entries(action)}, script
    assert desk.tb.parts.git.seen([OBJECTS]) == {OBJECTS: entry.WHOLE}


def test_what_somebody_else_cleaned_up_stays_away(desk: Desk) -> None:
    """The human pruned a commit of their own before, and another after: only what the agent pruned comes back."""

    def dropped(name: str) -> str:
        made = desk.commit(name, f"{name}\n")
        desk.git("reset", "-q", "--hard", "HEAD~1")
        desk.tb.save()
        return made

    def prune() -> None:
        desk.git("reflog", "expire", "--expire=now", "--all")
        desk.git("gc", "-q", "--prune=now")
        desk.tb.save()

    first = dropped("first")
    prune()
    second = dropped("second")
    desk.agent(PRUNE)
    third = dropped("third")
    prune()
    desk.undo()
    assert [name in objects(desk.root) for name in (first, second, third)] == [False, True, False]


def test_a_damaged_copy_is_said_and_the_others_come_back(desk: Desk) -> None:
    there = objects(desk.root)
    desk.agent("rm -rf .git/objects/??")
    damaged = desk.at("main") or min(there)
    kept = next(desk.home.rglob(f"{damaged[:2]}/{damaged[2:]}"))
    kept.chmod(0o600)
    kept.write_bytes(b"damaged")
    with pytest.raises(RollbackIncomplete) as incomplete:
        desk.undo()
    failed = {i.target.name: i.why for i in incomplete.value.report.items if i.did == "failed"}
    assert "damaged" in failed["objects"]
    assert there - objects(desk.root) == {damaged}


def test_a_copy_is_counted_from_when_its_loss_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy has no other name: its time is when it was copied, which may be long ago."""

    def refuse(*_args: object) -> None:
        raise OSError(18, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    name = "ab" + "c" * 38
    folder = tmp_path / "objects" / "ab"
    folder.mkdir(parents=True)
    (folder / name[2:]).write_bytes(b"x")
    mirror = Mirror(os.fsencode(tmp_path / "objects"), tmp_path / "kept", silent)
    assert mirror.keep_new() == b""
    time.sleep(0.03)
    copied = time.time_ns()
    time.sleep(0.03)
    shutil.rmtree(folder)
    assert mirror.keep_new().hex() == name
    mirror.drop_lost(copied)
    mirror.drop_lost(copied)
    assert (tmp_path / "kept/ab" / name[2:]).exists()
    time.sleep(0.03)
    mirror.drop_lost(time.time_ns())
    assert not (tmp_path / "kept/ab" / name[2:]).exists()
    assert mirror.keep_new() == b""


def test_names_in_indexes_of_both_kinds(desk: Desk) -> None:
    desk.git("gc", "-q")
    folder = desk.root / ".git/objects/pack"
    (stem,) = packs.stems(os.listdir(folder))
    for version in ("1", "2"):
        (folder / f"{stem}.idx").unlink()
        desk.git("index-pack", f"--index-version={version}", str(folder / f"{stem}.pack"))
        with packs.Packs(folder, [stem]) as found:
            names = {name.hex() for fan in range(256) for name in found.names(fan)}
        assert names == objects(desk.root), version


def test_objects_behind_a_link_are_stated_and_stay(desk: Desk, tmp_path: Path) -> None:
    """The human has them elsewhere: nothing of them is kept, and nothing is ever written there."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(desk.root / ".git/objects", elsewhere)
    (desk.root / ".git/objects").symlink_to(elsewhere)
    desk.tb.save()
    assert any("its objects are not saved" in line for line in desk.tb.history.marks["git"].stated)
    before = desk.picture()
    desk.agent("git commit -q --allow-empty -m agent")
    desk.undo()
    assert desk.picture() == before
    assert (desk.root / ".git/objects").is_symlink()
