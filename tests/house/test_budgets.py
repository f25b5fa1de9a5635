"""A file has one responsibility, and a function fits on a screen."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.repository import ROOT, SOURCE, python_files

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

# What may be longer, and why: {"src/takeback/….py": "reason"} or {"src/takeback/….py::function": "reason"}.
EXCEPTIONS: dict[str, str] = {}


def over_budget(folder: Path, root: Path) -> dict[str, int]:
    """Name what is too long, with its number of lines."""
    found = {}
    for path in python_files(folder):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if (lines := len(text.splitlines())) > FILE_LINES_MAX:
            found[name] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found[f"{name}::{node.name}"] = lines
    return found


def test_files_and_functions_keep_to_their_budget() -> None:
    too_long = {name: lines for name, lines in over_budget(SOURCE, ROOT).items() if name not in EXCEPTIONS}
    assert not too_long, "does each of these have one job? split it, or explain it in EXCEPTIONS"


def test_each_exception_is_explained_and_still_needed() -> None:
    assert all(EXCEPTIONS.values())
    assert set(EXCEPTIONS) <= set(over_budget(SOURCE, ROOT))


def test_the_check_can_fail(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("def f():\n" + "    pass\n" * FILE_LINES_MAX)
    (tmp_path / "short.py").write_text("def f():\n" + "    pass\n" * (FUNCTION_LINES_MAX - 1))
    lines = FILE_LINES_MAX + 1
    assert over_budget(tmp_path, tmp_path) == {"long.py": lines, "long.py::f": lines}
