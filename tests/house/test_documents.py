"""The standing documents are there, and each guarantee names a test that exists.

A guarantee is a paragraph, list item or table row that begins with its number, as in "G7". The number is its name: it
stays when guarantees come and go, and none is there twice. A guarantee names at least one test as
`tests/folder/test_file.py::test_name`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.repository import ROOT, document

NUMBER = re.compile(r"^[\s|*>#`\[-]*(G\d+)\b")
TEST = re.compile(r"\btests/[\w/]+\.py(?:::\w+)*")


def guarantees(text: str) -> dict[str, list[str]]:
    """Each guarantee's number with the tests that it names."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if match := NUMBER.match(line):
            current = match[1]
            assert current not in found, f"{current} is there twice"
            found[current] = []
        elif not line.strip() or line.startswith("#"):
            current = ""
        if current:
            found[current] += TEST.findall(line)
    return found


def is_a_test(reference: str, root: Path) -> bool:
    """Whether `tests/file.py::test` or `tests/file.py::Class::test` is there to be run."""
    name, *parts = reference.split("::")
    path = root / name
    if not parts or not parts[-1].startswith("test_") or not path.is_file():
        return False
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for part in parts:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part:
                body = node.body
                break
        else:
            return False
    return True


@pytest.mark.parametrize("name", ["ARCHITECTURE", "FORMAT", "GUARANTEES", "CLI"])
def test_the_standing_documents_are_there(name: str) -> None:
    assert len(document(f"docs/{name}.md")) > 500


def test_each_guarantee_names_its_test() -> None:
    found = guarantees(document("docs/GUARANTEES.md"))
    assert "G1" in found, "docs/GUARANTEES.md has no paragraph that begins with G1"
    assert [number for number, tests in found.items() if not tests] == []


def test_each_test_that_a_document_names_exists() -> None:
    named = TEST.findall(document("docs/GUARANTEES.md"))
    assert [reference for reference in named if not is_a_test(reference, ROOT)] == []


def test_the_checks_can_fail(tmp_path: Path) -> None:
    assert guarantees("G1 Undo is exact.\nSee `tests/a.py::test_a`.\n\n| **G2** | nothing lost | |\n") == {
        "G1": ["tests/a.py::test_a"],
        "G2": [],
    }
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a.py").write_text("def test_a(): pass\nclass TestB:\n    def test_b(self): pass\n")
    assert is_a_test("tests/a.py::test_a", tmp_path)
    assert is_a_test("tests/a.py::TestB::test_b", tmp_path)
    for wrong in ("tests/a.py", "tests/a.py::test_c", "tests/b.py::test_a", "tests/a.py::TestB"):
        assert not is_a_test(wrong, tmp_path)
