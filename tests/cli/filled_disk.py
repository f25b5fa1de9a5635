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
    filled_by_a_human(world)


def filled_by_a_human(world: Inside) -> None:
    """Undo does its work; and nothing of a human's that cannot be kept is removed or overwritten."""
    for script in (f"{FILL} > theirs", f"{FILL} >> notes.md"):
        world.human("plan.md", "old\n")
        world.human("theirs", "")
        first, before = world.save(), world.look()
        world.agent("echo new > plan.md; echo more > other.md; echo more >> notes.md")
        subprocess.run(["sh", "-c", script], cwd=world.root, stderr=subprocess.DEVNULL)
        full = world.look()
        for words in (["restore", first], ["undo", "--on-conflict", "overwrite"]):
            if "notes" in script or "restore" in words:
                done = world.do(*words, "--json", code=3)
                assert "it would be lost" in done.stdout, (script, words, done)
                assert world.changes_since(full) == [], (script, words, done)
        world.undo("--on-conflict", "keep")
        changed = [
            line
            for line in world.changes_since(before)
            if not line.startswith(("'theirs'", "'notes.md'", "'.'"))
        ]
        assert changed == [], (script, changed)
        for name in ("theirs", "notes.md"):
            (world.root / name).unlink()
        world.human("notes.md", "a human's\n" * 5_000)


if __name__ == "__main__":
    main(sys.argv[1])
