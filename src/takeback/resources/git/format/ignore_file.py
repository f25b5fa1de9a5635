"""The patterns of a `.gitignore`, as git understands them."""

from __future__ import annotations

import re

import msgspec

_TOKEN = re.compile(rb"\*\*/|/\*\*$|\*+|\?|\\.|\[(?:[!^])?\]?(?:\[:[a-z]+:\]|\\.|[^\]])*\]|.", re.DOTALL)
_CLASS_NAMES = {
    b"[:alpha:]": rb"A-Za-z",
    b"[:digit:]": rb"0-9",
    b"[:alnum:]": rb"A-Za-z0-9",
    b"[:upper:]": rb"A-Z",
    b"[:lower:]": rb"a-z",
    b"[:space:]": rb"\s",
    b"[:xdigit:]": rb"A-Fa-f0-9",
    b"[:punct:]": rb"!-/:-@\[-`{-~",
}


class IgnoreRule(msgspec.Struct, frozen=True):
    """One line of the file. A path is relative to the folder of the file."""

    matches: re.Pattern[bytes]
    negated: bool
    folders_only: bool


def read(data: bytes) -> list[IgnoreRule]:
    """Return the rules of a file. The last one that matches a path decides."""
    rules = [_rule(line) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    return [rule for rule in rules if rule]


def decision(rules: list[IgnoreRule], path: bytes, *, is_folder: bool) -> bool | None:
    """Return whether the rules ignore a path, or None if they do not mention it."""
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.matches.fullmatch(path):
            return not rule.negated
    return None


def _rule(line: bytes) -> IgnoreRule | None:
    line = line.removesuffix(b"\r")
    while line.endswith(b" ") and not line.endswith(b"\\ "):
        line = line[:-1]
    negated = line.startswith(b"!")
    pattern = line[1:] if negated else line
    if not pattern or line.startswith(b"#"):
        return None
    folders_only = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    anywhere = b"/" not in pattern
    pattern = pattern.removeprefix(b"/")
    if not pattern:
        return None
    try:
        text = b"".join(_token(found[0]) for found in _TOKEN.finditer(pattern))
        return IgnoreRule(
            re.compile((rb"(?:.*/)?" if anywhere else b"") + text, re.DOTALL), negated, folders_only
        )
    except re.error:
        return None  # git matches nothing with such a pattern either


def _token(token: bytes) -> bytes:
    if token == b"**/":
        return rb"(?:.*/)?"
    if token == b"/**":
        return rb"/.*"
    if token.startswith(b"*"):
        return rb"[^/]*"
    if token == b"?":
        return rb"[^/]"
    if token.startswith(b"[") and len(token) > 1:
        return _class(token)
    return re.escape(token[1:] if token.startswith(b"\\") and len(token) > 1 else token)


def _class(token: bytes) -> bytes:
    inner = token[1:-1]
    negated = inner[:1] in (b"!", b"^")
    inner = inner[1:] if negated else inner
    named = re.split(rb"(\[:[a-z]+:\])", inner)
    # Within brackets, only these mean something else to Python than to git.
    safe = [_CLASS_NAMES.get(part) or re.sub(rb"([\[\]^&~|])", rb"\\\1", part) for part in named]
    return b"(?!/)[" + (b"^" if negated else b"") + b"".join(safe) + b"]"
