"""The meaning of a tool's arguments, judged by name and content: paths, commands and SQL.

Third-party tools use many names for the same thing. A clear name is enough; one that may mean anything
(`source`, `target`, `uri`) counts only if its text looks like a path, and `query` only if it looks like SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any


class Names:
    """Names of arguments, given by a pattern. Spelling does not matter: filePath and FILE_PATH are the same name.

    An answer is remembered: there are few names, and every call asks for all of them.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self.include = lru_cache(maxsize=1024)(self._matches)

    def _matches(self, name: str) -> bool:
        return bool(self._pattern.fullmatch(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).lower()))


PATHS = Names(
    r"(?:.*_)?(?:(?:path|file|folder|dir|directory)(?:_?(?:name|path))?|cwd|workdir|src|dst|dest|destination)s?"
    r"|.*_directories|directories"
)
PERHAPS_PATHS = Names(
    r"(?:.*_)?(?:source|target|uri|url|root|location|output|out|input|from|to|into|resource|name)s?"
)
"""Ambiguous names: the text has to look like a path too."""
URLS = Names(r"(?:.*_)?urls?")
COMMANDS = Names(
    r"(?:.*_)?(?:(?:command|cmd)(?:_?line)?|argv|script|shell|bash|exec|execute)s?"
    r"|(?:.*_)?(?:program|executable)|args|arguments|popenargs"
)
SEVERAL = Names(r"(?:.*_)?(?:(?:command|cmd)(?:_?line)?s|scripts|execs)")
"""Arguments that hold a list of command lines; in others a list is the words of one command."""
_TABLES = Names(r"(?:.*_)?(?:command|cmd|script|sql)s?|queries|statements")
"""Arguments that may be a mapping with commands as its values; a mapping under `args` may hold anything."""
SQL = Names(r"(?:.*_)?sqls?(?:_.*)?")
PERHAPS_SQL = Names(r"(?:.*_)?(?:query|queries|statement|statements)")

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_LOOKS_LIKE_A_PATH = re.compile(r"(?:/|~/|\.\.?/)[^\n]*")
_LOOKS_LIKE_SQL = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*+(?:select\s|with\s|(?:insert|merge|replace)\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|truncate\s+(?:table\s|\S+\s*;?\s*$)"
    r"|(?:drop|alter|create)\s+(?:or\s+replace\s+|temp\w*\s+|unique\s+|materialized\s+)*"
    r"(?:table|database|schema|index|view|user|role|function|procedure|trigger|type|sequence|extension|policy)\s"
    r"|(?:grant|revoke)\s.*\son\s|call\s+\w+\s*\()",
    re.IGNORECASE | re.DOTALL,
)

JUDGED_AS_SQL = "sql:"
"""The pseudo-program as which SQL is judged. No shell has one of this name."""


_SINGLE = frozenset({str, int, float, bool, type(None)})
"""Nothing is inside these, and most arguments are one of them."""


def named(value: Any, names: Names, more: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield every text under an argument of such a name, at any depth, with that name."""
    for name, found in each_named(value, names, more):
        for text in found:
            yield name, text


def each_named(value: Any, names: Names, more: Sequence[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield every argument of such a name, at any depth, with the texts in it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if (key in more or names.include(str(key))) and (
                found := list(_texts_under(str(key), item, names))
            ):
                yield str(key), found
            if type(item) not in _SINGLE:
                yield from each_named(item, names, more)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from each_named(item, names, more)


def _texts_under(name: str, value: Any, names: Names) -> Iterator[str]:
    """Yield the texts in an argument. The paths in a mapping are its keys, the commands in a mapping its values."""
    if not isinstance(value, Mapping):
        yield from texts(value)
    elif names in (PATHS, PERHAPS_PATHS):
        yield from (str(key) for key in value if "/" in str(key))
    elif _TABLES.include(name):
        yield from texts(list(value.values()))


def texts(value: Any) -> Iterator[str]:
    if hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if isinstance(value, bytes):
        yield value.decode("utf-8", "surrogateescape")
    elif isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


def named_paths(args: Any, more: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield every path among the arguments, with the name of its argument. A file:// address is a path too."""
    for name, text in named(args, PATHS, more):
        yield name, from_address(text)
    for name, text in named(args, PERHAPS_PATHS):
        is_address = bool(_FILE.match(text))
        # A URL without a scheme is a route on some server.
        looks = is_address if URLS.include(name) else is_address or _LOOKS_LIKE_A_PATH.fullmatch(text)
        if looks and name not in more:
            yield name, from_address(text)


def from_address(text: str) -> str:
    """Return an address such as `file:///a%20b` as a path; any other text as it is."""
    if not _FILE.match(text):
        return text
    path = _FILE.sub("", text, count=1).encode("utf-8", "surrogateescape")
    plain = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), path)
    return plain.decode("utf-8", "surrogateescape")


def sql_in(args: Any) -> Iterator[str]:
    """Yield every text of SQL among the arguments."""
    yield from (text for _, text in named(args, SQL))
    yield from (text for _, text in named(args, PERHAPS_SQL) if _LOOKS_LIKE_SQL.match(text))
