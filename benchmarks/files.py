"""Checkpoints, undo and restore of files, against tuned git, Gemini CLI, opencode and restic, in one run.

All systems work on the same tree and take turns, so that noise of the machine affects them equally. The numbers are
medians of several rounds; of the first snapshots, the quickest. The floor is the bare work that none can leave out
(_floor.py), in the same turns; the number beside it is how many times as long we take. A goal that the floor itself
would miss is out of reach. `--growth` shows how each cost grows with the tree, `--disk` the space that 1,000
checkpoints take.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import _goals, _tree
from benchmarks._floor import Floor
from benchmarks._ours import Ours, disk_bytes, memory_mb
from benchmarks.peers import PEERS, Gemini, Git, Opencode, Peer, TunedGit

CHANGES = (0, 1, 100)
WARM_UP = 1
GROWTH_ROUNDS = 3
FIRST_ROUNDS = 3
SEEDING_MAX_S = 240


def timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1e3


def cpu_ms() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) * 1e3


class Bench:
    """One tree and all systems that work on it."""

    def __init__(self, tree: Path, folder: Path, rounds: int) -> None:
        self.tree = tree
        self.folder = folder
        self.rounds = rounds
        self.every = _tree.paths(tree)
        self.files = _tree.files(tree)
        self.floor = Floor(tree, folder / "floor")
        self.turn = 0
        self.measured: _goals.Measured = defaultdict(dict)
        self.peers: list[Peer] = []
        self.memory: dict[str, float] = {}
        self.seeding: dict[str, float] = {}
        """How many seconds each peer took until it could be measured."""

    def first_snapshots(self, left_out: Collection[str] = ()) -> None:
        """Measure first snapshots into empty stores; opencode would take minutes for a large tree and is left out."""
        row = self.measured["first snapshot"]
        self.warm_cache()
        begun = memory_mb()
        self.ours = Ours(self.tree, self.folder / "takeback")
        self.first("takeback", self.ours.first)
        self.first(_goals.FLOOR, lambda: self.floor.first(self.files))
        self.memory["takeback, peak over the bare process"] = memory_mb("VmHWM") - begun
        self.memory["takeback, at rest over the bare process"] = memory_mb() - begun
        for kind in PEERS:
            peer = kind(self.tree, self.folder / kind.__name__)
            if not peer.available():
                print(f"{peer.name} is not installed, so it is left out")
                continue
            if peer.name in left_out:
                continue
            if kind is Opencode:
                self.seeding[peer.name] = timed(peer.seed) / 1e3
            else:
                self.first(peer.name, peer.seed)
                self.seeding[peer.name] = row[peer.name] / 1e3
            self.peers.append(peer)

    def first(self, name: str, work: Callable[[], object]) -> None:
        """Measure one first snapshot, and keep it if it is the quickest of this system: noise only adds."""
        used = cpu_ms()
        took = {"first snapshot": timed(work)}
        took["first snapshot, CPU time"] = cpu_ms() - used
        for row, ms in took.items():
            self.measured[row][name] = min(ms, self.measured[row].get(name, ms))

    def first_again(self) -> None:
        """Repeat the first snapshots of tuned git, the floor and ours, in turns, into stores of their own."""
        for turn in range(1, FIRST_ROUNDS):
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                git = TunedGit(self.tree, Path(folder) / "git")
                self.first(git.name, git.first)
                self.first(_goals.FLOOR, lambda: self.floor.first(self.files))
                ours = Ours(self.tree, Path(folder) / f"takeback-{turn}")
                self.first("takeback", ours.first)
                ours.close()

    def sizes(self) -> None:
        row = self.measured["store after compaction"]
        self.ours.compact()
        row["takeback"] = disk_bytes(self.ours.home) / 1e6
        row.update({peer.name: disk_bytes(peer.store) / 1e6 for peer in self.peers})

    def warm_cache(self) -> None:
        for name in self.every:
            (self.tree / name).read_bytes()

    def in_turn(self) -> list[Peer | Ours]:
        """Return all systems, starting with a different one each time."""
        everybody: list[Peer | Ours] = [self.ours, *self.peers]
        start = self.turn % len(everybody)
        return everybody[start:] + everybody[:start]

    def edit(self, count: int) -> list[str]:
        self.turn += 1
        chosen = _tree.pick(self.every, count, self.turn)
        _tree.edit(self.tree, chosen)
        return chosen

    def checkpoints(self) -> None:
        for count in CHANGES:
            times: dict[str, list[float]] = defaultdict(list)
            for turn in range(self.rounds + WARM_UP):
                chosen = self.edit(count)
                for system in self.in_turn():
                    took = timed(system.checkpoint)
                    if turn >= WARM_UP:
                        times[system.name].append(took)
                times[_goals.FLOOR].append(timed(partial(self.floor.checkpoint, chosen)))
            self.record(f"{count} changed, with watcher", times)

    def scans(self) -> None:
        """Measure a checkpoint of one change without a watcher: every known file is looked at again."""
        scanning = Ours(self.tree, self.folder / "takeback-scan", watching=False)
        scanning.first()
        everybody: list[Peer | Ours] = [scanning, *self.peers]
        times: dict[str, list[float]] = defaultdict(list)
        for turn in range(self.rounds + WARM_UP):
            chosen = self.edit(1)
            for system in everybody:
                took = timed(system.checkpoint)
                if turn >= WARM_UP:
                    times[system.name].append(took)
            times[_goals.FLOOR].append(timed(partial(self.floor.scan, self.files, chosen)))
        scanning.close()
        self.record("1 changed, scan, no watcher", times)

    def restores(self) -> None:
        for count in CHANGES[1:]:
            times: dict[str, list[float]] = defaultdict(list)
            for turn in range(self.rounds + WARM_UP):
                for system in self.in_turn():
                    took = self.restore(system, count)
                    if turn >= WARM_UP:
                        times[system.name].append(took)
                old = {name: (self.tree / name).read_bytes() for name in self.edit(count)}
                times[_goals.FLOOR].append(timed(partial(self.floor.restore, old)))
            self.record(f"restore {count}, verified", times)

    def restore(self, system: Peer | Ours, count: int) -> float:
        """From a settled start, change this many files, and measure the way back."""
        system.checkpoint()
        chosen = _tree.pick(self.every, count, self.turn + 1)
        before = {name: (self.tree / name).read_bytes() for name in chosen}
        if isinstance(system, Ours):
            with system.acting():
                self.edit(count)
            took = timed(system.undo)
        else:
            self.edit(count)
            took = timed(lambda: system.restore(chosen))
        assert all((self.tree / name).read_bytes() == data for name, data in before.items()), system.name
        return took

    def verification(self) -> None:
        """Verify every byte of the tree against the record; and then every stored byte too."""
        rows = {"full hash verify": self.ours.verify_tree, "verify --deep, store too": self.ours.verify}
        for row, verify in rows.items():
            took = [timed(verify) for _ in range(max(1, self.rounds // 3))]
            self.measured[row]["takeback"] = statistics.median(took)
        self.measured["full hash verify"][_goals.FLOOR] = timed(lambda: self.floor.verify(self.files))

    def record(self, row: str, times: dict[str, list[float]]) -> None:
        self.measured[row] = {name: statistics.median(some) for name, some in times.items()}

    def close(self) -> None:
        self.memory["takeback, at the end"] = memory_mb()
        self.ours.close()
        self.floor.close()
        for peer in self.peers:
            peer.weigh(_tree.pick(self.every, 100, self.turn))
            self.memory[f"{peer.name}, 100 changed"] = peer.peak_kb / 1024


def torture(folder: Path) -> dict[str, float]:
    """Count the differences that remain after each system took back the wrecked torture tree."""
    from tests.world import torture as tree
    from tests.world.picture import differences, picture

    found: dict[str, float] = {}
    kinds: list[type[Ours] | type[Git]] = [Ours, TunedGit, Gemini, Opencode]
    for kind in kinds:
        root = folder / f"torture-{kind.__name__}"
        root.mkdir()
        names = [name for name, prop in tree.properties().items() if not tree.missing(prop.needs, folder)]
        names = [name for name in names if not name.startswith("sparse-4-gib")]  # git would read it all
        tree.build(root, names)
        system = kind(root, folder / f"{kind.__name__}-torture")
        before = picture(bytes(root))
        try:
            system.first()
            wreck = [sys.executable, "-m", "tests.world.wreck", *names]
            if isinstance(system, Ours):
                with system.acting():
                    subprocess.run(wreck, cwd=root, env=_import_path(), check=True)
                system.undo()
            else:
                subprocess.run(wreck, cwd=root, env=_import_path(), check=True)
                system.restore(["."])
        except RuntimeError as error:
            print(f"{system.name} on the torture tree: {str(error)[:160]!r}")
        found[system.name] = len(differences(before, picture(bytes(root))))
        shutil.rmtree(root)
    return found


def _import_path() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}


def growth(work: Path, rounds: int, sizes: list[int]) -> None:
    """Print milliseconds with 0, 1 and 100 changes, for each size of tree.

    A system that, judging by the smaller tree, would take minutes to set up is left out of the larger one.
    """
    print(f"\n{'files':>10}{'':14}" + "".join(f"{f'{count} changed':>14}" for count in CHANGES))
    left_out: set[str] = set()
    for files, larger in zip(sizes, [*sizes[1:], 0], strict=True):
        with tempfile.TemporaryDirectory(dir=work) as folder:
            bench = Bench(_tree.generate(work, files), Path(folder), rounds)
            bench.first_snapshots(left_out)
            bench.checkpoints()
            bench.close()
        for name in ["takeback", *(peer.name for peer in bench.peers)]:
            cells = (bench.measured[f"{count} changed, with watcher"][name] for count in CHANGES)
            print(f"{files:>10,}  {name:12}" + "".join(f"{ms:>14.2f}" for ms in cells), flush=True)
        slow = {name for name, took in bench.seeding.items() if took * larger / files > SEEDING_MAX_S}
        for name in sorted(slow):
            print(f"{larger:>10,}  {name:12}left out: {files:,} files took it {bench.seeding[name]:.0f} s")
        left_out |= slow


def disk(tree: Path, work: Path, checkpoints: int = 1000) -> None:
    """Measure the space for one changed line, a thousand times."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        ours = Ours(tree, Path(folder) / "takeback")
        ours.first()
        before = disk_bytes(ours.home)
        name = _tree.paths(tree)[0]
        for _ in range(checkpoints):
            _tree.edit(tree, [name])
            ours.checkpoint()
        added = (disk_bytes(ours.home) - before) / 1e6
        ours.close()
        print(
            f"\n{checkpoints:,} checkpoints of one changed line added {added:.1f} MB, goal < 20 MB", end=" "
        )
        print("met" if added < 20 else "MISSED")


def goals(tree: Path, work: Path, rounds: int, result: Path | None) -> int:
    with tempfile.TemporaryDirectory(dir=work) as folder:
        bench = Bench(tree, Path(folder), rounds)
        print(
            f"{len(bench.every):,} files in {tree.name}, {rounds} rounds, all systems in turn\n", flush=True
        )
        bench.first_snapshots()
        bench.first_again()
        bench.sizes()
        bench.checkpoints()
        bench.scans()
        bench.restores()
        bench.verification()
        bench.close()
        bench.measured["torture tree"] = torture(Path(folder))
    print("\n".join(_goals.table(bench.measured, [peer.name for peer in bench.peers])))
    print("\nMemory, MB: " + "; ".join(f"{name} {mb:.0f}" for name, mb in bench.memory.items()))
    if result:
        result.write_text(json.dumps({"measured": bench.measured, "memory_mb": bench.memory}, indent=2))
    return 1 if _goals.missed(bench.measured) else 0


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--files", type=int, default=50_000, help="size of the generated tree")
    options.add_argument("--tree", type=Path, help="take a copy of this tree instead")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "takeback-bench")
    options.add_argument("--growth", action="store_true", help="also 5,000, 50,000 and 200,000 files")
    options.add_argument("--disk", action="store_true", help="also 1,000 checkpoints")
    options.add_argument("--result", type=Path, help="write the numbers there as JSON")
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    tree = _tree.copy(given.tree, given.work) if given.tree else _tree.generate(given.work, given.files)
    code = goals(tree, given.work, given.rounds, given.result)
    if given.growth:
        growth(given.work, min(given.rounds, GROWTH_ROUNDS), [5_000, 50_000, 200_000])
    if given.disk:
        disk(tree, given.work)
    return code


if __name__ == "__main__":
    sys.exit(main())
