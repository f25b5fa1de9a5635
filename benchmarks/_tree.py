"""A generated tree with sizes, depths and words like those of real projects; the same for the same number of files.

`python _tree.py FOLDER FILES` makes one in a process of its own, so that its memory is not measured.
"""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

SEED = 20_261
FILES_PER_DIRECTORY = 11
DEPTH_MAX = 9
SIZE_MU, SIZE_SIGMA = 8.1, 1.6  # log-normal: a median of 3 KB, a mean of about 12 KB
SIZE_MAX = 2_000_000
POOL_BYTES = 4_000_000
LINE = 16


def generate(folder: Path, files: int) -> Path:
    """Return the tree with this many files, made now or in an earlier run."""
    tree = folder / f"tree-{files}"
    ready = folder / f"tree-{files}.ready"
    if not ready.exists():
        subprocess.run([sys.executable, __file__, str(tree), str(files)], check=True)
        ready.touch()
    return tree


def copy(source: Path, folder: Path) -> Path:
    """Copy a given tree first: a benchmark does not write into somebody's files."""
    tree = folder / f"copy-of-{source.resolve().name}"
    if not tree.exists():
        subprocess.run(["cp", "-a", "--", str(source.resolve()), str(tree)], check=True)
    return tree


def files(tree: Path) -> list[str]:
    """Return every regular file, in a fixed order."""
    found = []
    for folder, names, inside in os.walk(tree):
        names[:] = sorted(name for name in names if name != ".git")
        paths = (os.path.join(folder, name) for name in sorted(inside))
        found += [os.path.relpath(path, tree) for path in paths if stat.S_ISREG(os.lstat(path).st_mode)]
    return found


def paths(tree: Path) -> list[str]:
    """Return the files that are small enough to be edited line by line."""
    return [name for name in files(tree) if LINE < os.path.getsize(tree / name) < 100_000]


def pick(every: list[str], count: int, turn: int) -> list[str]:
    """Return some files, spread over the tree, different ones in each turn."""
    if not count:
        return []
    stride = max(1, len(every) // count)
    return [every[(number * stride + turn) % len(every)] for number in range(count)]


def edit(tree: Path, chosen: list[str]) -> None:
    """Change the last line of each file to something new; the size stays."""
    for name in chosen:
        with open(tree / name, "r+b") as file:
            file.seek(-LINE, os.SEEK_END)
            file.write(b"\n%015d" % (time.time_ns() % 10**15))


def _words(chance: random.Random) -> bytes:
    """Return text that compresses about as well as source code."""
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(6000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    pool = chance.choices(words, weights, k=POOL_BYTES // 5)
    lines = []
    place = 0
    while place < len(pool):
        size = chance.randint(2, 12)
        joint = chance.choice(("(", "= ", "; ", " "))
        lines.append("    " * chance.randint(0, 3) + joint.join(pool[place : place + size]))
        place += size
    return "\n".join(lines).encode()


def _make(tree: Path, files: int) -> None:
    chance = random.Random(SEED + files)
    pool = _words(random.Random(SEED))
    depth = {tree: 0}
    folders = [tree]
    tree.mkdir(parents=True)
    for number in range(files // FILES_PER_DIRECTORY):
        parent = folders[int(len(folders) * chance.random())]
        if depth[parent] >= DEPTH_MAX:
            parent = folders[number % 7 % len(folders)]
        folder = parent / f"{chance.choice(('src', 'lib', 'test', 'core', 'util'))}{number}"
        folder.mkdir()
        depth[folder] = depth[parent] + 1
        folders.append(folder)
    for number in range(files):
        size = min(SIZE_MAX, int(chance.lognormvariate(SIZE_MU, SIZE_SIGMA)))
        place = chance.randrange(len(pool) - 1)
        body = (pool[place : place + size] * (1 + size // max(1, len(pool) - place)))[:size]
        end = chance.choice(("py", "js", "ts", "c", "h", "md", "json", "txt"))
        (chance.choice(folders) / f"file{number}.{end}").write_bytes(b"// file %d\n" % number + body)


if __name__ == "__main__":
    _make(Path(sys.argv[1]), int(sys.argv[2]))
