"""Run inside a mount namespace of its own: workspace and state are on one disk, which an agent fills.

unshare -m python -m tests.cli.filled_disk FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.inside import Inside

FILL = "head -c 1000000000 /dev/urandom"
SCRIPTS = {
    "one file": f"echo new > plan.md; {FILL} > big 2> /dev/null; true",
    "a file that was there": f"{FILL} >> plan.md 2> /dev/null; true",
    "many files": f"rm notes.md; {FILL} 2> /dev/null | split -b 500000 - part- 2> /dev/null; true",
}


def main(folder: str) -> None:
    disk = Path(folder) / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(disk)], check=True)
    world = Inside(disk / "work", disk / "state")
    world.root.mkdir()
    world.human("plan.md", "old\n")
    world.human("notes.md", "a human's\n" * 5_000)
    world.save("first")
    reserve = next(world.home.rglob("reserve"))
    for name, script in SCRIPTS.items():
        before = world.look()
        done = world.run("run", "--", "sh", "-c", script)
        assert done.code == 0, (name, done)
        report = world.undo()
        assert world.changes_since(before) == [], name
        whys = {item["target"]: item["why"] for item in report.json["items"]}
        assert name != "one file" or "cannot be brought back" in whys["big"], whys
        world.do("verify", "--deep")
        # There is room again, so all is as it always was.
        world.agent("echo more >> notes.md")
        assert reserve.exists(), name
        world.undo()
        assert world.changes_since(before) == [], name


if __name__ == "__main__":
    main(sys.argv[1])
