"""What Takeback costs on a real project, as the table of README.md shows it: ratios taken in one run.

The project is a copy of this checkout with its environment, in git, or the one that `--tree` names. Takeback and git
take turns on the same files, so that noise of the machine affects both.
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
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from benchmarks import _tree
from benchmarks._ours import disk_bytes
from benchmarks.hooks import AFTER, BEFORE, GIT, events
from takeback.daemon import control

ROOT = Path(__file__).parents[1]
MANY = 1000
ROUNDS = 5


class Costs:
    """A project, and the commands that are compared on it."""

    def __init__(self, tree: Path, folder: Path, rounds: int) -> None:
        self.tree = tree
        self.home = folder / "state"
        self.folder = folder
        self.rounds = rounds
        self.every = _tree.files(tree)
        self.env = os.environ | {"TAKEBACK_HOME": str(self.home), "NO_COLOR": "1"}
        self.env |= {"XDG_DATA_HOME": str(folder / "data"), "PYTHONPATH": str(ROOT / "src")}
        self.rows: list[tuple[str, float, str]] = []

    def measure(self) -> None:
        git_dir = self.folder / "empty.git"
        subprocess.run(["git", "init", "-q", "--bare", str(git_dir)], check=True)
        self._do("git", "status", "--porcelain")  # warms the cache, and writes git's index
        added = self._took("git", f"--git-dir={git_dir}", f"--work-tree={self.tree}", "add", "-A", "-f")
        begun = self._took(*self._takeback("init"))
        self._row("first checkpoint, once for each project", begun / added, "`git add` of all files")
        size = sum(path.lstat().st_size for path in self.tree.rglob("*") if path.is_file())
        kept = disk_bytes(self.home) / size
        status, run, one, many, checkout = ([] for _ in range(5))
        for turn in range(self.rounds):
            status.append(self._took("git", "status", "--porcelain"))
            run.append(self._took(*self._takeback("run", "--", "true")))
            self._edit(1, turn)
            one.append(self._took(*self._takeback("undo")))
            self._edit(MANY, turn)
            many.append(self._took(*self._takeback("undo")))
            self._plainly_edit(MANY, turn)
            checkout.append(self._took("git", "checkout", "--quiet", "--", "."))
        middle = statistics.median
        usual = "`git status`"
        paired = events(self.tree, self.home, 4 * self.rounds, self.folder)
        call = sum(middle(paired[name].wall_ms) for name in (BEFORE, AFTER)) / middle(paired[GIT].wall_ms)
        self._row("each tool call of a coding agent, before and after it together", call, usual)
        self._row("`takeback run` around a command", middle(run) / middle(status), usual)
        self._row("undo of one file", middle(one) / middle(status), usual)
        self._row(
            f"undo of {MANY:,} files, verified", middle(many) / middle(checkout), "`git checkout` of them"
        )
        self._row("disk for the first checkpoint", kept, "the size of the project")

    def _row(self, what: str, ratio: float, against: str) -> None:
        self.rows.append((what, ratio, against))

    def _edit(self, count: int, turn: int) -> None:
        """Let an agent change so many files."""
        chosen = self.folder / "chosen"
        chosen.write_text("\n".join(map(str, self._pick(count, turn))))
        script = f"while read f; do echo '# changed' >> \"$f\"; done < {chosen}"
        self._do(*self._takeback("run", "--", "sh", "-c", script))

    def _plainly_edit(self, count: int, turn: int) -> None:
        for path in self._pick(count, turn):
            with open(path, "a") as file:
                file.write("# changed\n")

    def _pick(self, count: int, turn: int) -> list[Path]:
        texts = [path for path in self.every if str(path).endswith(".py") and ".git/" not in str(path)]
        step = max(len(texts) // count, 1)
        return [self.tree / path for path in texts[turn % step :: step][:count]]

    def _takeback(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "takeback", *words]

    def _took(self, *words: str) -> float:
        begun = time.perf_counter()
        self._do(*words)
        return time.perf_counter() - begun

    def _do(self, *words: str) -> None:
        done = subprocess.run(words, cwd=self.tree, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def prepared(given: Path | None, folder: Path) -> Path:
    """Return a copy of the project, in git with everything, so that git looks at the same files."""
    tree = _tree.copy(given or ROOT, folder)
    for name in (".tools", ".git", ".gitignore", ".mypy_cache", ".ruff_cache", ".pytest_cache"):
        path = tree / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for words in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "first"], ["gc", "-q"]):
        named = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]
        subprocess.run(["git", "-C", str(tree), *named, *words], check=True)
    return tree


def quietly(stop: Callable[[Path], object], home: Path) -> None:
    if home.exists():
        stop(home)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tree", type=Path, help="a project of your own; it is copied first")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="takeback-bench-"))
    try:
        costs = Costs(prepared(given.tree, folder), folder, given.rounds)
        costs.measure()
        print(
            f"{len(costs.every):,} files, {given.rounds} rounds\n\n| what | how many times | of |\n|---|---|---|"
        )
        for what, ratio, against in costs.rows:
            print(f"| {what} | {ratio:.1f} | {against} |")
        return 0
    finally:
        quietly(control.stop, folder / "state")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
