"""What a pattern means, wherever a user writes one.

A pattern without a slash means a name anywhere; with one, a path from the top. `*` stays within a name, `**`
crosses folders. What matches, matches with everything below it. Names are bytes, as the system has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_TOKENS = {b"**/": rb"(?:.*/)?", b"**": rb".*", b"*": rb"[^/]*", b"?": rb"[^/]"}


def expression(pattern: bytes) -> bytes:
    """The pattern as a regular expression that has to match a whole path."""
    text = pattern.strip(b"/")
    start = b"" if b"/" in pattern.rstrip(b"/") else rb"(?:.*/)?"
    body = b"".join(_TOKENS.get(token, re.escape(token)) for token in re.split(rb"(\*\*/|\*\*|\*|\?)", text))
    return start + body + rb"(/.*)?"


def matcher(expressions: Iterable[bytes]) -> Callable[[bytes], bool]:
    """A test for paths: whether one of these expressions matches all of it."""
    parts = [b"(?:" + part + b")" for part in expressions]
    if not parts:
        return lambda _: False
    found = re.compile(b"|".join(parts), re.DOTALL).fullmatch
    return lambda path: found(path) is not None
