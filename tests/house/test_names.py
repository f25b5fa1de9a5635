"""One word, one thing: a class name stands for one class, a contract is written once, in ports/, and a module says
what it is in words that no other module uses."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.house.source import SourceModule, plant, source


def shared_names(known: dict[str, SourceModule]) -> set[str]:
    """Name the classes of which there are several."""
    counts = Counter(node.name for module in known.values() for node in module.classes())
    return {name for name, n in counts.items() if n > 1}


def protocols(known: dict[str, SourceModule]) -> set[str]:
    """Name the protocols that are not in ports/."""
    return {
        f"{module.name}.{node.name}"
        for module in known.values()
        if module.room != "ports"
        for node in module.classes()
        if any(_is_protocol(base) for base in node.bases)
    }


def _is_protocol(base: ast.expr) -> bool:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2] == "Protocol"


def same_words(known: dict[str, SourceModule]) -> set[str]:
    """Return the first lines of docstrings with which several modules begin."""
    firsts = [(ast.get_docstring(module.tree) or "").partition("\n")[0] for module in known.values()]
    return {line for line, n in Counter(firsts).items() if line and n > 1}


def test_no_two_modules_say_the_same_of_themselves() -> None:
    assert same_words(source()) == set()


def test_a_class_name_stands_for_one_class() -> None:
    assert shared_names(source()) == set(), "one of each pair needs another name"


def test_contracts_are_in_ports() -> None:
    assert protocols(source()) == set(), "write the contract in takeback/ports, or as an abstract class"


def test_the_checks_can_fail(tmp_path: Path) -> None:
    texts = {
        "a/one": "'Two of it.'\nclass Place: ...\nclass Only: ...",
        "a/two": "'Two of it.\\n\\nAnd more.'\ndef f():\n    class Place: ...",
        "b": "import typing\nclass Port(typing.Protocol[int]): ...",
        "ports/c": "from typing import Protocol\nclass Fine(Protocol): ...",
    }
    known = plant(tmp_path, texts)
    assert shared_names(known) == {"Place"}
    assert protocols(known) == {"b.Port"}
    assert same_words(known) == {"Two of it."}
