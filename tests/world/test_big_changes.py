"""A folder of many files is deleted and brought back: that adds little to the journal, and all of it is verified."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.core.codec import digest
from tests.world.cli import Workspace

BYTES_PER_FILE = 100
"""6 MB for 60,000 files: the digest of a file's content, 32 bytes, cannot be compressed and is stored once."""
WORDS = (
    "index",
    "utils",
    "types",
    "parse",
    "stream",
    "buffer",
    "react",
    "core",
    "README",
    "package",
    "helper",
)
ENDINGS = (".js", ".d.ts", ".json", ".md", ".js.map", ".mjs")


def plant(root: Path, count: int) -> None:
    """Make a folder like node_modules: packages with a few folders of a few small files each."""
    chance = random.Random(7)
    made, package = 0, 0
    while made < count:
        package += 1
        at = root / f"node_modules/{chance.choice(WORDS)}-{chance.choice(WORDS)}-{package}"
        for folder in (at, at / "lib", at / "dist/esm", at / "src/internal"):
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(min(chance.randint(4, 14), count - made)):
                file = folder / f"{chance.choice(WORDS)}{number}{chance.choice(ENDINGS)}"
                file.write_text(f"{made} {chance.getrandbits(64)}\n" * chance.randint(1, 8))
                made += 1


def journal_bytes(world: Workspace) -> int:
    return sum(file.stat().st_size for file in world.home.glob("workspaces/*/journal*"))


def contents(root: Path) -> dict[str, str]:
    return {
        str(file.relative_to(root)): digest(file.read_bytes()) for file in root.rglob("*") if file.is_file()
    }


def delete_and_bring_back(world: Workspace, count: int) -> None:
    plant(world.root, count)
    world.save()
    there, before = contents(world.root), journal_bytes(world)
    assert len(there) == count
    world.agent("rm -rf node_modules")
    assert contents(world.root) == {}
    world.undo()
    assert contents(world.root) == there
    assert journal_bytes(world) - before <= count * BYTES_PER_FILE
    world.do("redo")
    assert contents(world.root) == {}
    world.undo()
    assert contents(world.root) == there
    world.do("verify", "--all")


def test_3000_files(tmp_path: Path) -> None:
    delete_and_bring_back(Workspace.at(tmp_path), 3000)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_60000_files(tmp_path: Path) -> None:
    delete_and_bring_back(replace(Workspace.at(tmp_path), timeout_s=600), 60_000)
