"""Run inside a mount namespace of its own: the state folder is a disk of two megabytes, which fills up.

unshare -m python -m tests.cli.small_disk FOLDER
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.inside import Inside


def main(folder: str) -> None:
    world = Inside(Path(folder) / "work", Path(folder) / "state")
    world.home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(world.home)], check=True)
    world.human("plan.md", "old\n")
    first = world.save("first")
    world.agent("echo new > plan.md")
    acknowledged = [entry["id"] for entry in world.do("log", "--json").json["entries"]]

    # Some places lie before the record, some after it: each must be a sentence.
    for blocks_left in (*range(12), 16, 24, 40, 60, 80):
        ballast = fill(world.home, blocks_left)
        meet(world, f"{blocks_left} blocks left")
        ballast.unlink()
        done = world.run("verify", "--deep")
        assert done.code == 0, (blocks_left, done)

    # Nothing that was acknowledged is lost, and all of it can be taken back.
    told = [entry["id"] for entry in world.do("log", "--json", "-n", "0").json["entries"]]
    assert set(acknowledged) <= set(told)
    world.save("there is room again")
    world.do("restore", first)
    assert world.read("plan.md") == "old\n"


def fill(disk: Path, blocks_left: int) -> Path:
    """Take all room on a disk but these few blocks."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        file.write(bytes(4096) * max(0, os.statvfs(disk).f_bavail - blocks_left))
    return ballast


def meet(world: Inside, where: str) -> None:
    """Whatever is done on a full disk succeeds, or says that the disk is full, and leaves the files alone."""
    world.human("big.bin", os.urandom(300_000))
    before = world.look()
    for words, allowed in (
        (("save",), (0, 4)),
        (("run", "--", "true"), (0, 125)),
        (("status",), (0, 4)),
        (("undo", "--json"), (0, 3, 4)),
    ):
        done = world.run(*words)
        assert done.code in allowed, (where, words, done)
        if done.code == 4:
            assert "space" in done.said or "room" in done.said or "full" in done.said, (where, words, done)
        if words[0] != "undo":
            assert world.changes_since(before) == [], (where, words)
    (world.root / "big.bin").unlink()


if __name__ == "__main__":
    main(sys.argv[1])
