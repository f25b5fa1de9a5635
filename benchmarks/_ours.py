"""Takeback as the benchmarks use it: through its public interface, in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import takeback


class Ours:
    """A workspace that stays open, as inside a running agent."""

    name = "takeback"

    def __init__(self, tree: Path, home: Path, *, watching: bool = True) -> None:
        self.tree = tree
        self.home = home
        self.tb = takeback.open(tree, home=home, watching=watching)

    def first(self) -> None:
        self.tb.save("first")

    def checkpoint(self) -> None:
        self.tb.save()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Record what changes in the block as one action."""
        with self.tb.recording("bench"):
            yield

    def undo(self) -> None:
        report = self.tb.undo()
        assert report.verdict == "clean", report

    def verify_tree(self) -> None:
        """Read and hash every file, and compare it with what is recorded."""
        assert not self.tb.parts.files.audit()

    def verify(self) -> None:
        """Read and hash everything, in the tree and in the store."""
        assert not self.tb.verify(deep=True)

    def compact(self) -> None:
        self.tb.gc()

    def close(self) -> None:
        self.tb.close()


def disk_bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        total += sum(os.lstat(os.path.join(place, name)).st_blocks * 512 for name in names)
    return total


def memory_mb(which: str = "VmRSS") -> float:
    """Return the present memory of this process, or its peak with VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) / 1024
    return 0.0
