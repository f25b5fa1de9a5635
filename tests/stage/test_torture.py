"""The torture tree, wrecked in a view: accepted it is as if wrecked directly, dropped it is untouched.

The judge is picture.py, which shares no code with the product.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sampling import ALL
from tests.world import torture
from tests.world.cli import Workspace, environment
from tests.world.picture import Picture, differences, picture

NAMES = list(torture.properties())
LARGE = ("size-", "large-", "huge-", "sparse-4-gib", "content-already", "deep-")
SMALL = [name for name in NAMES if not name.startswith(LARGE)]
APART = ("socket-", "device-", "nested-repository-reset")
"""Sockets and devices are stated, not restored; a commit at another time is another commit."""
FEW = [name for name in SMALL if not name.startswith(APART)]
NOT_FOR_USERS = (
    "directory-renamed", "directory-moved-into-another", "directories-exchanged", "parent-becomes-child",
    "directory-turned-file-where-children-were-edited", "hardlink-written-through", "hardlink-chmodded", "owner",
    "setgid-directory-of-another-group", "access-list-of-file",
)  # fmt: skip
"""What the kernel refuses in a user namespace, or does otherwise: docs/STAGE.md says so."""
WAYS = {"overlay": "", "user": "user", "copy": "off"} if ALL else {"overlay": ""}


def without_times(seen: Picture) -> Picture:
    """The same work at another time has other times, and its copies other holes."""
    return {path: entry._replace(mtime_ns=0, sparse=False) for path, entry in seen.items()}


def possible(names: list[str], where: Path) -> list[str]:
    return [name for name in names if not torture.missing(torture.properties()[name].needs, where)]


def wrecked_directly(folder: Path, names: list[str]) -> Picture:
    twin = folder / "twin"
    command = [sys.executable, "-m", "tests.world.wreck", *names]
    subprocess.run(command, cwd=twin, env=environment(folder / "state"), check=True)
    return picture(bytes(twin))


def wreck_in_a_view(world: Workspace, way: str, names: list[str], *flags: str) -> None:
    done = world.run(
        "try",
        *flags,
        "--",
        sys.executable,
        "-m",
        "tests.world.wreck",
        *names,
        env={"TAKEBACK_NAMESPACES": way},
    )
    assert done.code == 0, done


def accepted_is_as_done_directly(folder: Path, way: str, names: list[str]) -> None:
    world = Workspace.at(folder)
    names = [name for name in possible(names, folder) if way != "user" or name not in NOT_FOR_USERS]
    if not names:
        return
    torture.build(world.root, names)
    before = world.look()
    subprocess.run(["cp", "-a", world.root, folder / "twin"], check=True)
    wreck_in_a_view(world, way, names)
    assert world.changes_since(before) == []
    done = world.run("stage", "accept", "t1", env={"TAKEBACK_NAMESPACES": way})
    assert done.code == 0, done
    direct = without_times(wrecked_directly(folder, names))
    assert differences(direct, without_times(world.look())) == []
    world.undo()
    assert world.changes_since(before) == []


@pytest.mark.parametrize("way", WAYS)
def test_accepted_is_as_done_directly(tmp_path: Path, way: str) -> None:
    accepted_is_as_done_directly(tmp_path, WAYS[way], FEW)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(APART)])
def test_each_alone(tmp_path: Path, name: str, way: str) -> None:
    accepted_is_as_done_directly(tmp_path, WAYS[way], [name])


@pytest.mark.parametrize("way", WAYS)
def test_dropped_is_untouched(tmp_path: Path, way: str) -> None:
    world = Workspace.at(tmp_path)
    names = [name for name in possible(SMALL, tmp_path) if WAYS[way] != "user" or name not in NOT_FOR_USERS]
    torture.build(world.root, names)
    before = world.look()
    wreck_in_a_view(world, WAYS[way], names, "--drop")
    assert world.changes_since(before) == []
    assert world.do("stage", "list", "--json").json == {"stages": []}
