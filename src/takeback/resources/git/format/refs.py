"""Refs as text: the content of loose and packed refs, and packed refs without some of them."""

from __future__ import annotations

import re
from collections.abc import Collection

_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NAMES = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_NULL = re.compile(r"0+")


def is_object(value: str) -> bool:
    """Return True if this is the name of an object, and not of another ref."""
    return _NAME.fullmatch(value) is not None and _NULL.fullmatch(value) is None


def objects_in(text: bytes) -> set[str]:
    """Return every object that a text names: a reflog, or a file of an operation in progress."""
    return {name for found in _NAMES.findall(text) if is_object(name := found.decode())}


def loose(data: bytes) -> str | None:
    """Return the value of a loose ref; None if this is not one."""
    text = data.rstrip(b"\n").decode("utf-8", "surrogateescape")
    if text.startswith("ref:"):
        return f"ref: {text[4:].strip()}"
    return text if _NAME.fullmatch(text) else None


def as_loose(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape") + b"\n"


def packed(data: bytes) -> dict[bytes, str]:
    """Return every ref in a packed-refs file. Lines that begin with ^ or # describe other lines."""
    found = {}
    for line in data.split(b"\n"):
        value, space, name = line.partition(b" ")
        if space and line[:1] not in b"#^":
            found[name] = value.decode("ascii", "replace")
    return found


def without(data: bytes, names: Collection[bytes]) -> bytes:
    """Return a packed-refs file without some refs and the lines that describe them."""
    kept = []
    dropping = False
    for line in data.splitlines(keepends=True):
        if line[:1] == b"#":
            kept.append(line)
            continue
        if line[:1] != b"^":
            dropping = line.rstrip(b"\n").partition(b" ")[2] in names
        if not dropping:
            kept.append(line)
    return b"".join(kept)
