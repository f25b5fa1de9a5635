"""What a program may do (`security.capability`) is put back, or said to be missing."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.cli.processes import bound

from .cli import Workspace

NAME = "security.capability"
BIND = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
"""cap_net_bind_service, permitted and effective."""


@pytest.fixture
def server(world: Workspace) -> Path:
    world.human("server", "#!/bin/sh\n")
    path = world.root / "server"
    try:
        os.setxattr(path, NAME, BIND)
    except OSError:
        pytest.skip("not on this platform: only root gives capabilities")
    return path


REPLACED = "cp server new && echo more >> new && mv new server"


def test_a_copy_that_lost_it(world: Workspace, server: Path) -> None:
    world.save()
    world.agent(REPLACED)
    assert NAME not in os.listxattr(server)
    world.undo()
    assert os.getxattr(server, NAME) == BIND
    assert world.read("server") == "#!/bin/sh\n"
    world.do("redo")
    assert NAME not in os.listxattr(server)


def test_one_that_was_only_taken_away(world: Workspace, server: Path) -> None:
    world.save()
    world.agent(f'python3 -c \'import os; os.removexattr("server", "{NAME}")\'')
    world.undo()
    assert os.getxattr(server, NAME) == BIND


def test_who_may_not_give_it_says_so(world: Workspace, server: Path) -> None:
    bound(world, "save")
    bound(world, "run", "--", "sh", "-c", REPLACED)
    report = bound(world, "undo", "--json", code=6).json
    (item,) = [item for item in report["items"] if item["target"] == "server"]
    assert item["verified"] is False
    assert "attributes could not be restored" in item["why"]
    assert world.read("server") == "#!/bin/sh\n"
