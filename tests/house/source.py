"""The source as a tree of modules: what each defines, imports and is imported by."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.repository import SOURCE


class SourceModule:
    """One module: its dotted name without the package, its lines, and its syntax tree."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.is_package = path.name == "__init__.py"
        self.text = path.read_text(encoding="utf-8")
        self.lines = len(self.text.splitlines())
        self.tree = ast.parse(self.text)

    @property
    def room(self) -> str:
        """The package at the top that it belongs to; its own name where it stands at the top itself."""
        return self.name.partition(".")[0]

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def modules(folder: Path = SOURCE) -> dict[str, SourceModule]:
    """Every module below `folder`, by its dotted name from there."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = SourceModule(path, name)
    return found


@cache
def source() -> dict[str, SourceModule]:
    """The modules of this checkout, read once."""
    return modules()


def imports(module: SourceModule, known: dict[str, SourceModule]) -> set[str]:
    """The modules of the package that it names, at the top or inside a function, also for types only."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {_named(node.module, alias.name, known) for alias in node.names}
    ours = {name.removeprefix("takeback.") for name in found if name.startswith("takeback.")}
    return ours - {module.name}


def _named(package: str, name: str, known: dict[str, SourceModule]) -> str:
    whole = f"{package}.{name}"
    return whole if whole.removeprefix("takeback.") in known else package


def importers(known: dict[str, SourceModule]) -> dict[str, set[str]]:
    """For each module, those that name it."""
    found: dict[str, set[str]] = {name: set() for name in known}
    for module in known.values():
        for name in imports(module, known):
            found.setdefault(name, set()).add(module.name)
    return found


def plant(root: Path, texts: dict[str, str]) -> dict[str, SourceModule]:
    """Write these modules, by their paths without ".py", and read them: for a check that has to fail."""
    for name, text in texts.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return modules(root)
