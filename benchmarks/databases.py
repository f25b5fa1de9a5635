"""What a recorded call costs beside a SQLite database that the same process has open, against a call without one.

    python benchmarks/databases.py [--quick]

Only ratios carry over to another machine. The calls take turns, each in a workspace of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import takeback
from benchmarks.journal import timed
from takeback import Run, Workspace

ROWS, ROW_BYTES = 200, 5000

OURS = "CREATE TABLE orders (thread_id, id, body)"
LANGGRAPH = """
CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata);
CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
"""


@takeback.action(effect="restorable")
def nothing(number: int) -> int:
    return number


class Beside:
    """A workspace, perhaps with a database that this process has open in WAL mode."""

    def __init__(self, folder: Path, schema: str = "", into: str = "") -> None:
        self.root = folder / "work"
        self.root.mkdir(parents=True)
        self.db: sqlite3.Connection | None = None
        self.insert = into
        if schema:
            self.db = sqlite3.connect(self.root / "app.db", isolation_level=None)
            self.db.executescript(f"PRAGMA journal_mode = wal; {schema}")
            for _ in range(ROWS):
                self.write()
        self.tb: Workspace = takeback.open(self.root, watching=False)
        self.run: Run = self.tb.run("calls", checkpoint="action").__enter__()
        self.times: list[float] = []
        self.number = 0

    def write(self) -> None:
        if self.db is not None:
            self.db.execute(self.insert, ("t", str(random.random()), os.urandom(ROW_BYTES)))

    def call(self, *, writing: bool) -> None:
        if writing:
            self.write()
        self.number += 1
        self.times.append(timed(lambda: self.run.call(nothing, self.number)))

    def close(self) -> None:
        self.run.__exit__(None, None, None)
        self.tb.close()
        if self.db is not None:
            self.db.close()


def measured(folder: Path, count: int) -> dict[str, tuple[float, float, int]]:
    """Return, for each way, the median in ms, the databases read for each call, and the processes started."""
    orders = "INSERT INTO orders VALUES (?, ?, ?)"
    checkpoints = "INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint) VALUES (?, ?, ?)"
    ways: dict[str, tuple[Beside, bool]] = {
        "no database": (Beside(folder / "none"), False),
        "open, nothing written": (Beside(folder / "still", OURS, orders), False),
        "open, a row before each call": (Beside(folder / "rows", OURS, orders), True),
        "LangGraph's store, a row before each": (Beside(folder / "store", LANGGRAPH, checkpoints), True),
    }
    for beside, writing in ways.values():
        beside.call(writing=writing)
        beside.times.clear()
    looks = {name: beside.tb.parts.sqlite.looks for name, (beside, _) in ways.items()}
    turns: list[Callable[[], None]] = [
        lambda beside=beside, writing=writing: beside.call(writing=writing)  # type: ignore[misc]
        for beside, writing in ways.values()
    ]
    for _ in range(count):
        random.shuffle(turns)
        for turn in turns:
            turn()
    found = {}
    for name, (beside, _) in ways.items():
        sqlite = beside.tb.parts.sqlite
        read = (sqlite.looks - looks[name]) / count
        found[name] = statistics.median(beside.times) * 1e3, read, sqlite.helpers
        beside.close()
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    count = 20 if options.parse_args().quick else 100
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TAKEBACK_HOME"] = f"{folder}/home"
        found = measured(Path(folder), count)
    bare = found["no database"][0]
    print(f"{'':40}{'ms':>8}{'ratio':>8}{'more ms':>9}{'read':>7}{'processes':>11}")
    for name, (ms, read, helpers) in found.items():
        print(f"{name:40}{ms:8.2f}{ms / bare:8.2f}{ms - bare:9.2f}{read:7.2f}{helpers:11}")


if __name__ == "__main__":
    main()
