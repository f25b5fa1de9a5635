"""What a look costs, and what it never misses."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from takeback.core.change import ABSENT, Version
from takeback.resources.git.look import manifest
from takeback.resources.git.resource import Git
from tests.world.settings import write

from .desk import Desk


def calm() -> None:
    """Until nothing is so young that it has to be read again."""
    time.sleep(0.05)


def git_of(desk: Desk) -> Git:
    return desk.tb.parts.git


def test_an_unchanged_mark_starts_nothing_and_reads_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm()
    desk.tb.save()
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "run", lambda *args, **_: started.append(args))
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **_: started.append(args))
    files = len(git_of(desk)._observer.targets.keys() - {"objects"})
    for _ in range(2):
        desk.tb.save()
        assert git_of(desk)._observer.read_files == files
        desk.reopen()
        desk.tb.save()
        assert git_of(desk)._observer.read_files == 0
        git_of(desk)._observer.read_files = files
    assert started == []


def test_one_moved_branch_reads_only_what_it_is_made_of(desk: Desk) -> None:
    for number in range(200):
        desk.git("update-ref", f"refs/tags/t{number}", "HEAD")
    calm()
    desk.tb.save()
    calm()
    before = git_of(desk)._observer.read_files
    desk.git("commit", "-q", "--allow-empty", "-m", "x")
    desk.tb.save()
    assert git_of(desk)._observer.read_files - before <= 6


def test_a_ref_that_is_written_in_place_is_seen(desk: Desk) -> None:
    """Not only git writes refs: the folder's time does not tell."""
    calm()
    desk.tb.save()
    ref = desk.root / ".git/refs/heads/feature"
    older = desk.at("main~1")
    id = desk.agent(f"printf '%s\\n' {older} > .git/refs/heads/feature")
    assert [c.target.name for c in desk.tb.history.actions[id].changes] == ["refs/heads/feature"]
    desk.undo()
    assert ref.read_text().strip() == desk.at("main")


def test_a_log_that_changes_without_its_ref_is_seen(desk: Desk) -> None:
    desk.git("branch", "deep/er/topic")
    desk.git("pack-refs", "--all")
    calm()
    desk.tb.save()
    logged = (desk.root / ".git/logs/refs/heads/deep/er/topic").read_text()
    id = desk.agent("git reflog expire --expire=now --all")
    names = [c.target.name for c in desk.tb.history.actions[id].changes]
    assert "logs/refs/heads/deep/er/topic" in names
    desk.undo()
    assert (desk.root / ".git/logs/refs/heads/deep/er/topic").read_text() == logged


def test_a_deep_look_finds_what_times_hide(desk: Desk) -> None:
    calm()
    desk.tb.save()
    head = desk.root / ".git/description"
    info, text = head.stat(), head.read_bytes()
    observer = git_of(desk)._observer
    head.write_bytes(text[::-1])
    os.utime(head, ns=(info.st_atime_ns, info.st_mtime_ns))
    # A change time cannot be set back: what is known is made to fit instead.
    from takeback.resources.git.look import scan

    assert observer._known is not None
    observer._known.keys[b""][b"description"] = scan.key_of(head.stat())
    (finding,) = desk.tb.verify(deep=True)
    assert finding.place == ".git/description"


def test_content_that_was_pruned_is_named(desk: Desk) -> None:
    write(desk.root, "[store]\nkeep-checkpoints = 1\n", desk.tb.state.parent.parent)
    desk.reopen()
    desk.agent("git config x.y z")
    desk.agent("echo later > later")
    desk.tb.gc()
    from takeback.errors import ConflictError

    desk.undo()
    with pytest.raises(ConflictError, match="config"):
        desk.undo()


def test_kept_objects_go_when_they_are_too_old(desk: Desk, tmp_path: Path) -> None:
    desk.commit("c", "c\n")
    lost = desk.at("HEAD")
    desk.tb.save()
    desk.agent("git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now")
    mirror = git_of(desk)._mirror(b"")
    kept = mirror.kept / lost[:2] / lost[2:]
    assert kept.exists() and kept.stat().st_nlink == 1
    mirror.drop_lost(time.time_ns() - 60 * 10**9)
    assert kept.exists()
    calm()
    mirror.drop_lost(time.time_ns())
    assert not kept.exists()
    assert not mirror.lost()


def test_parts_of_a_manifest_that_did_not_change_are_not_written() -> None:
    stored: dict[bytes, bytes] = {}

    def put(data: bytes) -> bytes:
        name = len(stored).to_bytes(4, "big")
        stored[name] = data
        return name

    targets = {f"refs/heads/{n}": Version(f"r:{n}") for n in range(5000)}
    first = manifest.store(targets, put)
    count = len(stored)
    changed = {"refs/heads/7": Version("r:other"), "refs/heads/8": ABSENT}
    moved = {name: version for name, version in (targets | changed).items() if version}
    second = manifest.store_again(moved, changed, first, stored.__getitem__, put)
    assert len(stored) - count <= 3
    found = {name: (a, b) for name, a, b in manifest.differences(first, second, stored.__getitem__)}
    assert found == {
        "refs/heads/7": (Version("r:7"), Version("r:other")),
        "refs/heads/8": (Version("r:8"), ABSENT),
    }
    assert dict(second.targets(stored.__getitem__)) == moved
    few = {"HEAD": Version("r:x")}
    third = manifest.store_again(few, dict.fromkeys(moved, ABSENT) | few, second, stored.__getitem__, put)
    assert len(list(manifest.differences(second, third, stored.__getitem__))) == 5000
