"""docs/GLOSSARY.md has a line for the concept of every folder, and none twice."""

from __future__ import annotations

import re

from tests.house.repository import document
from tests.house.source import SourceModule, source

# Folders that are called after something that is not ours to explain.
NAMES_OF_OTHERS = {"files", "git", "sqlite", "postgres", "languages"}

WORD = re.compile(r"\*{1,2}([a-z][a-z ]*)\*{1,2}")


def explained(text: str) -> list[str]:
    """The words that have a line of their own, as often as they have one."""
    firsts = re.findall(r"^\| (\*\*.*?) \|", text, re.MULTILINE)
    return [word for first in firsts for word in WORD.findall(first)]


def unexplained(known: dict[str, SourceModule], text: str) -> set[str]:
    """Name the folders whose word, in the singular or as it is, the glossary does not have in bold or italics."""
    words = set(WORD.findall(text))
    folders = {name.rpartition(".")[2] for name, module in known.items() if module.is_package and name}
    return {
        folder
        for folder in folders - NAMES_OF_OTHERS
        if not {folder, folder.removesuffix("s"), folder.replace("_", " ")} & words
    }


def test_the_glossary_explains_each_folder() -> None:
    assert unexplained(source(), document("docs/GLOSSARY.md")) == set()


def test_the_glossary_explains_a_word_once() -> None:
    words = explained(document("docs/GLOSSARY.md"))
    assert len(words) >= 40 and sorted(words) == sorted(set(words))


def test_the_checks_can_fail() -> None:
    text = "| **run** | an *action* |\n| **put back** | b |\n| **run** | c |\n"
    assert explained(text) == ["run", "put back", "run"]
    assert "gate" in unexplained(source(), text) and "runs" not in unexplained(source(), text)
