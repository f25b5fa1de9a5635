"""Whatever an agent does to the torture tree, undo brings it back without one difference, and redo the wreck.

The judge is picture.py, which shares no code with the product.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import takeback

from . import torture, wreck
from .cli import Workspace, environment, items

NAMES = list(torture.properties())
GROUP = 8
GROUPS = [NAMES[n : n + GROUP] for n in range(0, len(NAMES), GROUP)]

LARGE = ("size-", "large-", "huge-", "sparse-4-gib", "content-already", "deep-")
SMALL = [name for name in NAMES if not name.startswith(LARGE)]
UNMOVABLE = ("socket-", "device-")
"""Sockets and devices are stated, not restored, so a test that moves everything leaves them out."""


def build(world: Workspace, names: list[str]) -> list[str]:
    """Build what this platform can hold; at least one, or the test says why not."""
    reasons = {name: torture.missing(torture.properties()[name].needs, world.root.parent) for name in names}
    possible = [name for name in names if not reasons[name]]
    if not possible:
        pytest.skip(f"not on this platform: {reasons[names[0]]}")
    torture.build(world.root, possible)
    return possible


def wreck_and_take_back(world: Workspace, wreckers: list[str]) -> None:
    before = world.look()
    world.wreck(*wreckers)
    wrecked = world.look()
    assert world.changes_since(before), "the wreck left no trace, so this would prove nothing"
    world.undo()
    assert world.changes_since(before) == []
    world.do("redo")
    assert world.changes_since(wrecked) == []


@pytest.mark.parametrize("names", GROUPS, ids=[group[0] for group in GROUPS])
def test_a_few_at_a_time(world: Workspace, names: list[str]) -> None:
    wreck_and_take_back(world, build(world, names))


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_each_alone(world: Workspace, name: str) -> None:
    wreck_and_take_back(world, build(world, [name]))


def test_all_at_once(world: Workspace) -> None:
    names = build(world, NAMES)
    before = world.look()
    world.wreck(*names)
    world.undo()
    assert world.changes_since(before) == []
    world.do("verify", "--deep")


@pytest.mark.parametrize("way", list(wreck.WHOLESALE))
def test_everything_wrecked_in_one_way(world: Workspace, way: str) -> None:
    build(world, [name for name in SMALL if not name.startswith(UNMOVABLE)])
    wreck_and_take_back(world, [way])


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", list(wreck.WHOLESALE))
def test_really_everything_wrecked_in_one_way(world: Workspace, way: str) -> None:
    build(world, [name for name in NAMES if not name.startswith(UNMOVABLE)])
    wreck_and_take_back(world, [way])


def test_one_wreck_after_another_is_taken_back_step_by_step(world: Workspace) -> None:
    build(world, [name for name in SMALL if not name.startswith(UNMOVABLE)][:60])
    pictures = []
    for way in ("*chmod", "*empty", "*touch", "*swap", "*remove"):
        pictures.append(world.look())
        world.wreck(way)
    for before in reversed(pictures):
        world.undo()
        assert world.changes_since(before) == []


def test_modes_do_not_depend_on_the_umask(world: Workspace) -> None:
    build(world, [name for name in SMALL if name.startswith(("mode-", "directory-mode-", "swap-"))])
    before = world.look()
    world.wreck("*remove")
    assert world.run("undo", umask=0o077).code == 0
    assert world.changes_since(before) == []


def test_a_living_workspace_sees_everything_too(world: Workspace) -> None:
    """The library inside a running agent finds changes with its watcher and not by scanning."""
    names = build(world, NAMES)
    tb = takeback.open(world.root, home=world.home)
    try:
        tb.save("before")
        before = world.look()
        command = [sys.executable, "-m", "tests.world.wreck", *names]
        with tb.recording("clumsy"):
            subprocess.run(command, cwd=world.root, env=environment(world.home), check=True)
        tb.undo()
        assert world.changes_since(before) == []
    finally:
        tb.close()


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_a_directory_of_100000_entries(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_HUGE", "100000")
    script = "import sys; from pathlib import Path; from tests.world import torture; "
    script += "torture.build(Path(sys.argv[1]), ['huge-directory'])"
    command = [sys.executable, "-c", script, str(world.root)]
    subprocess.run(command, env=environment(world.home), check=True)
    assert len(os.listdir(world.root / "huge-directory")) == 100_000
    wreck_and_take_back(world, ["huge-directory"])


# What no undo can bring back is said, and disturbs nothing.


def test_a_socket_is_reported(world: Workspace) -> None:
    build(world, ["socket-beside"])
    said = world.do("save", "--json").said + world.do("status", "--json").said
    assert "socket-beside/socket" in said


def test_a_deleted_socket_is_not_called_restored(world: Workspace) -> None:
    build(world, ["socket-beside"])
    world.agent("rm socket-beside/socket socket-beside/file")
    done = world.run("undo", "--json")
    assert items(done).get("socket-beside/file") == "restored"
    assert items(done).get("socket-beside/socket") not in ("restored", "already")


CHUNK = 64 * 1024


def _keep_writing(path: Path, stop: threading.Event) -> None:
    version = 0
    with open(path, "r+b", buffering=0) as file:
        while not stop.is_set():
            version = version % 250 + 1
            file.seek(0)
            file.writelines(bytes([version]) * CHUNK for _ in range(48))


def _was_so_at_one_moment(data: bytes) -> bool:
    """The writer goes from front to back: a newer version up to somewhere, the one before it from there on."""
    front, back = data[0], data[-1]
    place = data.find(bytes([back])) if front != back else len(data)
    return data == bytes([front]) * place + bytes([back]) * (len(data) - place) and (
        front == back or front == back % 250 + 1
    )


def test_a_file_that_changes_while_it_is_read(world: Workspace) -> None:
    """A checkpoint holds it as it was at one moment, or says that it does not; the rest is as always."""
    busy = world.root / "busy"
    world.human("busy", bytes(48 * CHUNK))
    world.human("calm", "calm")
    stop = threading.Event()
    writer = threading.Thread(target=_keep_writing, args=(busy, stop))
    writer.start()
    try:
        saved = world.do("save")
    finally:
        stop.set()
        writer.join()
    before = world.look()
    world.agent("rm busy calm")
    world.undo()
    assert world.changes_since(before) == []
    world.do("restore", saved.stdout.split()[0])
    assert _was_so_at_one_moment(busy.read_bytes()) or "busy" in saved.said
