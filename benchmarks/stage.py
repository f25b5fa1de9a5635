"""What a private view costs: against `takeback run` of the same command, and against copies, in one run.

    python benchmarks/stage.py [--files 50000] [--rounds 7] [--folder DIR]

All take turns on the same tree, so that noise of the machine affects them equally; times are medians. Counters come
first: a look at a view checks as many paths as were changed in it, whatever the size of the tree.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import _tree
from takeback.resources.files.look import scan
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

MORE_MS_MAX = 60.0
"""How much longer `try` may take than `run`."""
RATIO_MAX = 3.0
"""How much longer a look or an acceptance of the same changes may take if the tree is ten times as large."""
CHANGED = 20


def timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1e3


def command(root: Path, home: Path, *words: str) -> None:
    environment = os.environ | {"TAKEBACK_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "takeback", *words], cwd=root, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"takeback {' '.join(words)} failed:\n{done.stderr}")


def started(root: Path, home: Path, rounds: int) -> dict[str, float]:
    """Return what it takes to run `true`: recorded, in a view, and in copies."""
    took: dict[str, list[float]] = defaultdict(list)
    command(root, home, "run", "--", "true")
    for number in range(rounds):
        copies = home.parent / f"copy-{number}"
        took["takeback run"].append(timed(lambda: command(root, home, "run", "--", "true")))
        took["takeback try"].append(timed(lambda: command(root, home, "try", "--drop", "--", "true")))
        if number == 0:  # these take long, and their time is not in doubt
            took["cp -a"].append(timed(partial(subprocess.run, ["cp", "-a", root, copies], check=True)))
            shutil.rmtree(copies)
            if (shared := reflinked(root, copies)) is not None:
                took["cp -a --reflink=always"].append(shared)
            if (worktree := git_worktree(root, copies)) is not None:
                took["git worktree add"].append(worktree)
    return {name: statistics.median(every) for name, every in took.items()}


def reflinked(root: Path, place: Path) -> float | None:
    """Return what a copy that shares blocks takes, or None if the file system cannot do that."""
    begun = time.perf_counter()
    done = subprocess.run(["cp", "-a", "--reflink=always", root, place], capture_output=True)
    took = (time.perf_counter() - begun) * 1e3
    shutil.rmtree(place, ignore_errors=True)
    return None if done.returncode else took


def git_worktree(root: Path, place: Path) -> float | None:
    """Return what a second worktree takes, of a repository with the same files outside the tree itself."""
    repository = place.with_name("repository")
    git = [
        "git",
        f"--git-dir={repository}",
        f"--work-tree={root}",
        "-c",
        "user.name=x",
        "-c",
        "gc.auto=0",
        "-c",
        "user.email=x@y",
    ]
    if subprocess.run(["git", "init", "-q", "--bare", repository], capture_output=True).returncode:
        return None
    subprocess.run([*git, "add", "-A"], check=True, capture_output=True)
    subprocess.run([*git, "commit", "-qm", "all"], check=True, capture_output=True)
    add = ["git", f"--git-dir={repository}", "worktree", "add", "-q", str(place), "-b", "copy"]
    took = timed(lambda: subprocess.run(add, check=True, capture_output=True))
    shutil.rmtree(place)
    shutil.rmtree(repository, ignore_errors=True)
    return took


def inside(tb: Workspace, rounds: int) -> tuple[dict[str, float], int]:
    """Return what a look at a view and an acceptance take, and how many paths a look checks."""
    took: dict[str, list[float]] = defaultdict(list)
    checked = 0
    names = _tree.pick(_tree.paths(tb.root), CHANGED, 0)
    for number in range(rounds):
        stage = tb.stages.new()
        words = "; ".join(f"echo {number} >> {name}" for name in names)
        stage.run(["sh", "-c", words])
        took["diff"].append(timed(stage.look))
        checked = stage.inside(_checked, int)
        took["accept"].append(timed(stage.accept))
    return {name: statistics.median(every) for name, every in took.items()}, checked


def _checked(inner: Workspace) -> int:
    before = scan.stats_taken
    inner.look()
    return scan.stats_taken - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None, help="where trees are kept between runs")
    given = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        kept = given.folder or folder
        root = _tree.copy(_tree.generate(kept, given.files), folder)
        small = _tree.copy(_tree.generate(kept, given.files // 10), folder)
        times = started(root, folder / "state", given.rounds)
        for name, took in times.items():
            print(f"{name:<26} {took:>9,.0f} ms")
        more = times["takeback try"] - times["takeback run"]
        print(f"{'try costs more than run':<26} {more:>9,.0f} ms   (at most {MORE_MS_MAX:.0f})")
        if more > MORE_MS_MAX:
            failed.append("takeback try costs too much")
        costs = {}
        for size, tree in (("small", small), ("large", root)):
            with open_workspace(tree, home=folder / f"state-{size}", watching=True) as tb:
                tb.save()
                costs[size], checked = inside(tb, given.rounds)
                print(f"{size}: a look at {CHANGED} changes in a view scans {checked:,} paths of the tree")
                if checked:
                    failed.append("a look at a view scans the tree")
        for what in ("diff", "accept"):
            one, ten = costs["small"][what], costs["large"][what]
            print(
                f"{what:<8} {one:>8,.0f} ms, in a tree ten times as large {ten:>8,.0f} ms: {ten / one:.1f} times"
            )
            if ten / one > RATIO_MAX:
                failed.append(f"{what} grows with the tree")
    for text in failed:
        print(f"MISSED: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
