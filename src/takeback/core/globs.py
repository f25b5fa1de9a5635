"""The meaning of path patterns, wherever a user writes one.

A pattern without a slash matches a name anywhere; with one, a path from the top. `*` stays within a name, `**`
crosses folders. A match includes everything below it. Names are bytes, as in the file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_TOKENS = {b"**/": rb"(?:.*/)?", b"**": rb".*", b"*": rb"[^/]*", b"?": rb"[^/]"}


def expression(pattern: bytes) -> bytes:
    """Return the pattern as a regular expression that has to match a whole path."""
    text = pattern.strip(b"/")
    start = b"" if b"/" in pattern.rstrip(b"/") else rb"(?:.*/)?"
    body = b"".join(_TOKENS.get(token, re.escape(token)) for token in re.split(rb"(\*\*/|\*\*|\*|\?)", text))
    return start + body + rb"(/.*)?"


def matcher(expressions: Iterable[bytes]) -> Callable[[bytes], bool]:
    """Return a predicate for paths: whether one of these expressions matches the whole path."""
    parts = [b"(?:" + part + b")" for part in expressions]
    if not parts:
        return lambda _: False
    found = re.compile(b"|".join(parts), re.DOTALL).fullmatch
    return lambda path: found(path) is not None
