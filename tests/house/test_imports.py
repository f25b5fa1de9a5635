"""Imports point downwards, the core is pure, and `import takeback` stays light."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT, SOURCE, python_files

HEAVY = {"asyncio", "click", "http", "psycopg", "rich", "socket", "ssl", "urllib.request"}
TOUCHING = {"__import__", "eval", "exec", "input", "open", "print"}
CLOCKS = {"now", "today", "utcnow"}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Hold the contracts of pyproject.toml against the package under `root`."""
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )


def test_imports_point_downwards() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


def test_each_contract_can_break(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(SOURCE, tmp_path / "src/takeback", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in {
        "core/_planted.py": "import os",
        "errors.py": "import takeback.ports.resource",
        "resources/_one.py": "import takeback.resources._two",
        "resources/_two.py": "",
        "cli/commands/_one.py": "import takeback.cli.commands._two",
        "cli/commands/_two.py": "",
    }.items():
        path = tmp_path / "src/takeback" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    for contract in (
        "Imports point downwards",
        "The core is pure",
        "No resource knows another",
        "No command knows another",
    ):
        assert f"{contract} BROKEN" in done.stdout


def impurities(text: str) -> list[str]:
    """Name what touches the world without an import: files, the terminal, the clock."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in TOUCHING:
                found.append(f"line {node.lineno}: {name}()")
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
                found.append(f"line {node.lineno}: .{name}()")
    return found


@pytest.mark.parametrize("path", python_files(SOURCE / "core"), ids=lambda path: path.name)
def test_the_core_asks_nobody(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


def test_an_impurity_is_found() -> None:
    assert impurities("def f(): return open('x')") == ["line 1: open()"]
    assert impurities("t = datetime.now()") == ["line 1: .now()"]


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter loads for this statement."""
    code = f"import sys; was = set(sys.modules); {statement}; new = set(sys.modules) - was"
    code += "; import json; print(json.dumps(sorted(new)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_takeback_is_light() -> None:
    assert not loaded_by("import takeback") & HEAVY


def test_the_command_line_starts_light() -> None:
    """`takeback --version` and `--help` open no workspace."""
    loaded = loaded_by("import takeback.cli.app")
    assert not loaded & (HEAVY - {"click"}) and "takeback.workspace.workspace" not in loaded
    assert "asyncio" not in loaded_by("import takeback.workspace.opening"), (
        "whoever runs coroutines has loaded it"
    )


AT_MOST = {
    "import takeback": 5,
    "import takeback.daemon.client": 7,
    "import takeback.daemon.hook_command": 8,
    "import takeback.cli.app": 14,
    "import takeback.workspace.locate": 18,
    "import takeback.cli.commands.workflow": 36,
    "import takeback.cli.commands.status": 142,
}
"""How many modules of Takeback a statement may load, the folders among them. These numbers only shrink."""


@pytest.mark.parametrize("statement", AT_MOST)
def test_what_starts_light_stays_light(statement: str) -> None:
    loaded = {name for name in loaded_by(statement) if name.split(".")[0] == "takeback"}
    assert len(loaded) <= AT_MOST[statement], sorted(loaded)


def test_a_workflow_command_loads_neither_engine_nor_journal(tmp_path: Path) -> None:
    """It is run at every step of an agent's work, and works on one small file."""
    command = (
        "from takeback.cli.app import main; sys.argv = ['takeback', '-C', sys.argv[1], 'workflow', 'list']"
    )
    telling = "atexit.register(lambda: print(json.dumps(sorted(sys.modules))))"
    code = f"import atexit, json, sys; {command}; {telling}; main()"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    loaded = {name for name in json.loads(done.stdout.splitlines()[-1]) if name.split(".")[0] == "takeback"}
    assert not {name for name in loaded if name.startswith(("takeback.engine", "takeback.storage.journal"))}
    assert len(loaded) <= AT_MOST["import takeback.cli.commands.workflow"], sorted(loaded)


def test_a_heavy_import_is_found() -> None:
    assert loaded_by("import takeback, click") & HEAVY == {"click"}
