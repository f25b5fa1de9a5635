"""What single guarantees cost: each operation, and the bare system calls that a guarantee adds to it, in one run.

    ./dev bench guarantees [--quick]

CPU time, with all state in memory where the platform has a folder for that: so neither the disk nor others count.
The bare calls are made by the shortest Python that makes them. docs/ARCHITECTURE.md, "What guarantees cost", says
which guarantee each of them is for.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
from blake3 import blake3

import takeback
from takeback.storage.state.registry import identity
from takeback.system import processes

IN_MEMORY = Path("/dev/shm")
FILES = 100
NOTE = b"x" * 400
"""As long as the note about a history."""

Work = Callable[[], object]


class Bare:
    """The bare system calls, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._note, self._sign = str(folder / "note"), str(folder / "sign")
        Path(self._note).write_bytes(NOTE)
        self._files = [str(folder / f"file {number}") for number in range(FILES)]
        for path in self._files:
            Path(path).write_text("content")
        self._db = apsw.Connection(str(folder / "bare.db"))
        self._db.execute("CREATE TABLE bare (seq INTEGER PRIMARY KEY, body BLOB)")
        self._db.executemany("INSERT INTO bare VALUES (?, ?)", [(seq, NOTE) for seq in range(1, 100)])

    def note(self) -> None:
        """Read the note about the history and the handle of the folder; look for the records that the note names."""
        for _ in range(2):  # when it is opened, and when it is closed
            self._read(self._note)
            identity(self._folder)
        for seq in (1, 99):
            self._db.execute("SELECT body FROM bare WHERE seq = ?", (seq,)).fetchone()

    def signs(self) -> None:
        """Create, touch and remove the sign of life of one action."""
        os.close(os.open(self._sign, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.utime(self._sign)
        os.unlink(self._sign)

    def left(self) -> None:
        """Count the processes before and after, and brand this one."""
        for _ in range(2):
            self._read("/proc/stat")
            self._read("/proc/loadavg")
            limit = resource.prlimit(0, processes.BRAND)
            resource.prlimit(0, processes.BRAND, limit)

    def writers(self, count: int) -> None:
        """Read each file again, and ask the kernel three times whether a program could still write to it."""
        for number, path in enumerate(self._files[:count] * 3):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if number < count:
                blake3(os.read(fd, os.fstat(fd).st_size)).digest()
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            os.close(fd)

    def _read(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        while os.read(fd, 1 << 16):
            pass
        os.close(fd)


def works(tb: takeback.Workspace, root: Path, bare: Bare) -> dict[str, tuple[Work, Work, Work]]:
    """Return for each row what comes before it, the operation, and the bare calls that its guarantees add."""

    def nothing() -> None: ...

    def block() -> None:
        with tb.recording("bench"):
            pass

    def step() -> None:
        with tb.run("bench") as run, run.step("step"):
            pass

    def change(count: int) -> None:
        with tb.recording("bench"):
            for number in range(count):
                (root / f"{number}.txt").write_text(f"{random.random()}")

    def block_calls() -> None:
        bare.signs()
        bare.left()

    def step_calls() -> None:
        block_calls()  # the body of the run
        block_calls()  # the body of the step

    def undo_calls(count: int) -> None:
        bare.note()
        bare.writers(count)

    return {
        "opening and closing": (nothing, lambda: takeback.open(root).close(), bare.note),
        "a recorded block": (nothing, block, block_calls),
        "a run with a step": (nothing, step, step_calls),
        "undo of 1 file": (lambda: change(1), tb.undo, lambda: undo_calls(1)),
        f"undo of {FILES} files": (lambda: change(FILES), tb.undo, lambda: undo_calls(FILES)),
    }


def spent(work: Work) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first impression")
    rounds = 20 if parser.parse_args().quick else 150
    where = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="takeback-bench-", dir=where) as name:
        folder, root = Path(name), Path(name) / "work"
        root.mkdir()
        for number in range(FILES):
            (root / f"{number}.txt").write_text(f"file {number}")
        os.environ["TAKEBACK_HOME"] = str(folder / "state")
        (folder / "bare").mkdir()
        with takeback.open(root) as tb:
            rows = works(tb, root, Bare(folder / "bare"))
            found: dict[str, tuple[list[float], list[float]]] = {row: ([], []) for row in rows}
            for number in range(rounds + 1):
                for row, (before, work, calls) in random.sample(list(rows.items()), len(rows)):
                    before()
                    took, floor = spent(work), spent(calls)
                    if number:  # the first one is warm-up
                        found[row][0].append(took)
                        found[row][1].append(floor)
    print(f"{'CPU time, the best quarter':28}{'all':>12}{'bare calls':>14}{'share':>8}")
    for row, times in found.items():
        ours, floor = (statistics.quantiles(some, n=4)[0] for some in times)
        print(f"{row:28}{ours:>9,.0f} µs{floor:>11,.0f} µs{floor / ours:>8.0%}")


if __name__ == "__main__":
    main()
