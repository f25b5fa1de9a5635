"""Surfaces know the workspace and nothing below it: what they need is a method there, or a value of the core."""

from __future__ import annotations

from pathlib import Path

from tests.house.source import SourceModule, imports, plant, source

SURFACES = {"agents", "cli", "daemon", "frameworks", "mcp", "web"}
KNOWN_TO_THEM = SURFACES | {"_version", "core", "errors", "ports", "settings", "workspace"}

# What a surface may import below the workspace, and why that will stay so.
ON_PURPOSE = {
    "cli.commands.monitor": ("workflows", "workflows stand apart, and need no workspace"),
    "cli.commands.workflow": ("workflows", "workflows stand apart, and need no workspace"),
}

# What modules of the surfaces import below the workspace today. The list may only shrink.
TODAY = {
    "agents.agent_process": "system",
    "agents.agents_md": "resources",
    "agents.doctor.machine": "resources",
    "agents.following": "system",
    "agents.rollback_news": "system",
    "agents.settings.apply": "resources",
    "cli.commands.export": "storage",
    "cli.commands.guard": "resources system",
    "cli.commands.locks": "system",
    "cli.commands.monitor": "system",
    "cli.commands.outbox": "workflows",
    "cli.commands.plan": "engine",
    "cli.commands.status": "system",
    "cli.commands.store": "storage system",
    "cli.consent": "storage",
    "cli.scheduling": "workflows",
    "daemon.log": "system",
    "daemon.main": "system",
    "daemon.pool": "storage",
    "daemon.server": "system",
}


def reaching_below(known: dict[str, SourceModule]) -> dict[str, set[str]]:
    """For each module of a surface, the packages below the workspace that it imports."""
    found = {}
    for module in known.values():
        if module.room in SURFACES:
            below = {name.partition(".")[0] for name in imports(module, known)} - KNOWN_TO_THEM - {""}
            if below:
                found[module.name] = below
    return found


def allowed(name: str) -> set[str]:
    """The packages that a module is excused for."""
    return set(TODAY.get(name, "").split()) | ({ON_PURPOSE[name][0]} if name in ON_PURPOSE else set())


def test_surfaces_know_the_workspace_and_nothing_below() -> None:
    found = reaching_below(source())
    more = {name: below - allowed(name) for name, below in found.items() if below - allowed(name)}
    assert more == {}, "ask the workspace, or bring the use case down into it"


def test_each_excuse_is_still_needed() -> None:
    found = reaching_below(source())
    listed = TODAY.keys() | ON_PURPOSE.keys()
    stale = {
        name: allowed(name) - found.get(name, set())
        for name in listed
        if allowed(name) - found.get(name, set())
    }
    assert stale == {}, "take these off the list"


def test_the_check_can_fail(tmp_path: Path) -> None:
    texts = {
        "cli/a": "def f():\n    from takeback.engine.runs import run",
        "cli/b": "from takeback.workspace.workspace import Workspace\nimport takeback.core.ids",
        "daemon/c": "import takeback.cli.a",
        "engine/runs/run": "import takeback.storage.x",
    }
    assert reaching_below(plant(tmp_path, texts)) == {"cli.a": {"engine"}}
