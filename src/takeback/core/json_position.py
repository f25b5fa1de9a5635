"""Positions in a JSON text: from a path to an offset, and from an offset to line and column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import JSONDecoder

Part = str | int

_DECODER = JSONDecoder(strict=False)
_SPACE = frozenset(" \t\n\r")
_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def parts_of(path: str) -> list[Part]:
    """Return the parts of a path as msgspec writes it, such as `$.items[2].name`."""
    found: list[Part] = []
    position = 1
    while match := _PART.match(path, position):
        found.append(match[1] if match[1] is not None else int(match[2]))
        position = match.end()
    return found


def path_of(parts: Sequence[Part]) -> str:
    """Return the path, as msgspec writes it, from its parts."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def offset_of(text: str, parts: Sequence[Part]) -> int:
    """Return the offset of the value at this path in a valid JSON text, or of its nearest existing ancestor."""
    here = _skip(text, 0)
    for part in parts:
        found = _inside(text, here, part)
        if found is None:
            break
        here = found
    return here


def _inside(text: str, here: int, part: Part) -> int | None:
    """Return the offset of a member of the object or list at `here`. If a name occurs twice, the last one counts."""
    opened, found, number = text[here], None, 0
    if opened not in "{[" or text[position := _skip(text, here + 1)] in "}]":
        return None
    while True:
        name: Part = number
        if opened == "{":
            name, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        if name == part:
            found = position
        _, position = _DECODER.raw_decode(text, position)
        position = _skip(text, position)
        if text[position] != ",":
            return found
        position, number = _skip(text, position + 1), number + 1


def _skip(text: str, position: int) -> int:
    while text[position : position + 1] in _SPACE:
        position += 1
    return position


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return line and column counted from 1, as editors do."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
