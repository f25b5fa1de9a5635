"""The power fails, on a real file system.

An ext4 in a file is mounted with everything off that would hide a missing sync: no flush on rename, data not
ordered with the journal, no commit by itself. A writer works in it. It is stopped at some moment, and what has
reached the disk by then (the file, copied) is what a machine would find after the power came back. Two writers
that leave a sync out show that this loses work.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.workflows.checkpoints import Checkpoints

from .helpers import EVERYTHING

CUTS = 100 if EVERYTHING else 6
HARSH = "loop,noauto_da_alloc,data=writeback,commit=300,noatime"
WRITER = """
import itertools, os, signal, stat, sys
from takeback.workflows import disk
from takeback.workflows.checkpoints import Checkpoints

real, left_out = disk.sync, sys.argv[1]
def sync(fd):
    kind = "folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
    if left_out not in (kind, "both"):
        real(fd)
disk.sync = sync
with Checkpoints(".") as checkpoints:
    for number in itertools.count():
        id = f"w{number // 20}"
        if number % 20 == 0:
            checkpoints.start(id, agent="a", step="s", key=id)
        checkpoints.update(id, complete=f"step-{number}", notes="x" * 3000)
        os.write(1, f"{id} step-{number}\\n".encode())
        if left_out != "nothing":
            os.kill(os.getpid(), signal.SIGSTOP)  # before the next sync makes good what this one left out
"""


def can_mount() -> bool:
    tools = all(shutil.which(name, path=f"{os.defpath}:/usr/sbin:/sbin") for name in ("mkfs.ext4", "mount"))
    return os.geteuid() == 0 and tools and Path("/dev/loop-control").exists()


pytestmark = pytest.mark.skipif(not can_mount(), reason="not on this platform: no root, or no loop devices")


@contextlib.contextmanager
def mounted(image: Path, options: str) -> Iterator[Path]:
    place = image.with_suffix(".mnt")
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", options, str(image), str(place)], check=True)
    try:
        yield place
    finally:
        for _ in range(50):
            if not subprocess.run(["umount", str(place)], stderr=subprocess.DEVNULL).returncode:
                break
            time.sleep(0.05)


def at_one_instant(image: Path) -> bytes:
    """Return the disk as it was at one instant. The kernel writes to it by itself, also while it is read."""
    found = image.read_bytes()
    while (again := image.read_bytes()) != found:
        found = again
    return found


def cut(
    tmp_path: Path, left_out: str, cuts: int
) -> Iterator[tuple[dict[str, set[str]], dict[str, set[str] | None]]]:
    """For each power cut: the steps that had been acknowledged, and those that the disk has (None: unreadable)."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", str(image)], check=True)
    chance, acknowledged = random.Random(7), dict[str, set[str]]()
    with mounted(image, HARSH) as root:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, left_out], cwd=root, stdout=subprocess.PIPE)
        assert writer.stdout
        try:
            for _ in range(cuts):
                note(acknowledged, writer.stdout.readline())
                if left_out == "nothing":
                    time.sleep(chance.uniform(0, 0.03))
                    writer.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, writer.pid, os.WSTOPPED)
                copy = tmp_path / "copy.img"
                copy.write_bytes(at_one_instant(image))
                os.set_blocking(writer.stdout.fileno(), False)
                while line := writer.stdout.readline():
                    note(acknowledged, line)
                os.set_blocking(writer.stdout.fileno(), True)
                with mounted(copy, "loop") as after:
                    yield acknowledged, found(after)
                writer.send_signal(signal.SIGCONT)
        finally:
            writer.kill()
            writer.communicate()


def note(acknowledged: dict[str, set[str]], line: bytes) -> None:
    id, step = line.decode().split()
    acknowledged.setdefault(id, set()).add(step)


def found(root: Path) -> dict[str, set[str] | None]:
    with Checkpoints(str(root)) as checkpoints:
        entries = checkpoints.entries()
    return {entry.id: set(entry.record["completedSteps"]) if entry.record else None for entry in entries}


@pytest.mark.timeout(300)
def test_no_acknowledged_checkpoint_is_lost_and_none_is_torn(tmp_path: Path) -> None:
    total = 0
    for acknowledged, kept in cut(tmp_path, "nothing", CUTS):
        assert None not in kept.values(), "no file is torn"
        for id, steps in acknowledged.items():
            assert steps <= (kept.get(id) or set()), f"{id} lost {steps - (kept.get(id) or set())}"
        total = sum(map(len, acknowledged.values()))
    assert total >= CUTS


def test_without_the_sync_of_the_folder_work_is_lost(tmp_path: Path) -> None:
    assert any(
        not steps <= (kept.get(id) or set())
        for acknowledged, kept in cut(tmp_path, "folder", 4)
        for id, steps in acknowledged.items()
    )


def test_without_the_sync_of_the_file_it_is_torn_but_never_believed(tmp_path: Path) -> None:
    torn = 0
    for _, kept in cut(tmp_path, "file", 4):
        torn += list(kept.values()).count(None)
    assert torn, "a torn file was there, and was not read as valid"
