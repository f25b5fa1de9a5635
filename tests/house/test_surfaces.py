"""Surfaces know the workspace and nothing below it: what they need is a method there, or a value of the core."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.source import SourceModule, imports, plant, source

SURFACES = {"agents", "cli", "daemon", "frameworks", "mcp", "web"}
KNOWN_TO_THEM = SURFACES | {"_version", "core", "errors", "ports", "settings", "workspace"}

# What a surface may use of the platform. Its own files and processes are not the workspace's: the socket and the log
# of the daemon, the settings of agents, the process that asks. Without these it would use the standard library, and
# do the same less carefully. What belongs to a workspace (its clock, caches, addresses of stores) is not among them.
PLATFORM = {
    "system.crash_points": "a process that is killed here has to be tried, too",
    "system.durable": "what it writes has to be on the disk",
    "system.exchange": "a file of the user's is replaced only if it is what was shown",
    "system.private_files": "what it writes is for the user alone",
    "system.processes": "who asks, and whether they are still there",
}

# What a surface may import below the workspace besides, and why that will stay so.
ON_PURPOSE = {
    "cli.commands.monitor": ("workflows", "workflows stand apart, and need no workspace"),
    "cli.commands.workflow": ("workflows", "workflows stand apart, and need no workspace"),
    "cli.scheduling": ("workflows", "the host's scheduler knows commands, and no workspace"),
}


def reaching_below(known: dict[str, SourceModule]) -> dict[str, set[str]]:
    """For each module of a surface, the packages below the workspace that it imports."""
    found = {}
    for module in known.values():
        if module.room in SURFACES:
            found_here = imports(module, known) - PLATFORM.keys()
            below = {name.partition(".")[0] for name in found_here} - KNOWN_TO_THEM - {""}
            if below:
                found[module.name] = below
    return found


def excused() -> dict[str, set[str]]:
    """For each module that is excused, the package that it may import."""
    return {name: {package} for name, (package, _) in ON_PURPOSE.items()}


def taking_parts(known: dict[str, SourceModule]) -> set[str]:
    """Name the modules of surfaces that reach through the workspace, to what it is put together from."""
    return {
        module.name
        for module in known.values()
        if module.room in SURFACES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "parts"
    }


def test_surfaces_know_the_workspace_and_nothing_below() -> None:
    found, excuses = reaching_below(source()), excused()
    more = {name: below - excuses.get(name, set()) for name, below in found.items()}
    assert {name: below for name, below in more.items() if below} == {}, (
        "ask the workspace, or bring the use case down into it"
    )


def test_each_excuse_is_still_needed() -> None:
    found = reaching_below(source())
    assert {name for name, excuse in excused().items() if excuse - found.get(name, set())} == set()
    used = {
        name for module in source().values() if module.room in SURFACES for name in imports(module, source())
    }
    assert PLATFORM.keys() - used == set(), "take these off the list"


def test_surfaces_do_not_take_the_workspace_apart() -> None:
    assert taking_parts(source()) == set(), "give the workspace a method for it"


def test_the_check_can_fail(tmp_path: Path) -> None:
    texts = {
        "cli/a": "def f():\n    from takeback.engine.runs import run",
        "cli/b": "from takeback.workspace.workspace import Workspace\nimport takeback.core.ids",
        "daemon/c": "import takeback.cli.a",
        "daemon/d": "from takeback.system import clock, durable\nworkspace.parts.tracker",
        "system/clock": "",
        "system/durable": "",
        "engine/runs/run": "import takeback.storage.x",
    }
    known = plant(tmp_path, texts)
    assert reaching_below(known) == {"cli.a": {"engine"}, "daemon.d": {"system"}}
    assert taking_parts(known) == {"daemon.d"}
