"""The walks in docs/ARCHITECTURE.md go down the layers, and come through each room once."""

from __future__ import annotations

import re
import tomllib
from itertools import groupby, pairwise

from tests.house.repository import ROOT, document

WALKS = 7


def layers() -> dict[str, int]:
    """How far down each package is, by the contract that the import linter holds."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (order,) = [one["layers"] for one in contracts["contracts"] if one["type"] == "layers"]
    return {name: depth for depth, line in enumerate(order) for name in re.findall(r"\w+", line)}


def walks(text: str) -> dict[str, list[str]]:
    """Each walk with the modules and folders that it names, in order."""
    found = {}
    for section in re.split(r"^#{2,3} ", text, flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        if title.startswith("Walk: "):
            steps = re.findall(r"^\d+\. (.*)$", body, re.MULTILINE)
            found[title] = [
                path for step in steps for path in re.findall(r"`([a-z_/]+(?:\.py)?)`", step) if "/" in path
            ]
    return found


def room(path: str) -> str:
    """The folder that a path is in: two of its names within the engine, else one."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "engine" else parts[0]


def goes_wrong(paths: list[str]) -> list[str]:
    """Name the places where a walk goes up a layer, or comes back to a room that it has left."""
    depth, rooms = layers(), [name for name, _ in groupby(room(path) for path in paths)]
    wrong = [
        f"{b} is above {a}" for a, b in pairwise(rooms) if depth[b.split("/")[0]] < depth[a.split("/")[0]]
    ]
    return wrong + [f"{name} again" for name in sorted(set(rooms)) if rooms.count(name) > 1]


def test_each_walk_goes_down() -> None:
    found = walks(document("docs/ARCHITECTURE.md"))
    assert len(found) == WALKS and all(found.values())
    assert {title: wrong for title, paths in found.items() if (wrong := goes_wrong(paths))} == {}


def test_the_check_can_fail() -> None:
    steps = "1. `cli/a.py` and `run`.\n2. `storage/b` then `engine/runs/c.py`, `storage/d.py`.\n"
    text = f"## Walk: x\n\n{steps}\n## y\n1. `z/q`\n"
    (paths,) = walks(text).values()
    assert paths == ["cli/a.py", "storage/b", "engine/runs/c.py", "storage/d.py"]
    assert goes_wrong(paths) == ["engine/runs is above storage", "storage again"]
