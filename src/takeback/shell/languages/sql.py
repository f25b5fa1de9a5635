"""The judge of SQL: whether a text only reads a database, or does more."""

from __future__ import annotations

import re

from takeback.shell.judgement import Reach
from takeback.shell.words import HOLE

_SKIPPED = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*(?!!).*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL
)
_READS = {"select", "show", "explain", "describe", "desc", "with", "values", "table", "use", "help", "pragma"}
_WRITES = {
    *(
        "insert",
        "update",
        "delete",
        "drop",
        "truncate",
        "alter",
        "create",
        "grant",
        "revoke",
        "merge",
        "replace",
    ),
    *("rename", "call", "do", "copy", "load", "vacuum", "reindex", "cluster", "comment", "refresh", "import"),
    *(
        "into",
        "notify",
        "execute",
        "exec",
        "kill",
        "shutdown",
        "flush",
        "purge",
        "reset",
        "optimize",
        "analyze",
    ),
}
_FUNCTIONS = {
    *(
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "now",
        "lower",
        "upper",
        "length",
        "coalesce",
        "date",
        "abs",
        "round",
    ),
    *(
        "in",
        "exists",
        "any",
        "all",
        "and",
        "or",
        "not",
        "as",
        "on",
        "from",
        "where",
        "over",
        "values",
        "using",
    ),
    *(
        "version",
        "current_database",
        "current_user",
        "pg_size_pretty",
        "pg_database_size",
        "substr",
        "trim",
        "cast",
    ),
    *(
        "extract",
        "date_trunc",
        "to_char",
        "concat",
        "distinct",
        "table_info",
        "union",
        "by",
        "join",
        "select",
        "then",
    ),
}


_OF_ROWS = {"insert", "update", "delete", "truncate", "merge", "into"}
"""What changes rows, and nothing else of a database."""


def changes_rows_only(text: str) -> bool:
    """Return whether, judging by its words, it changes only rows of tables."""
    words = re.findall(r"[a-z_]+", _SKIPPED.sub(" 0 ", text).lower())
    made = words.count("into") > words.count("insert") + words.count("merge")  # SELECT INTO makes a table
    return HOLE not in text and "\\" not in text and not made and not (_WRITES & set(words)) - _OF_ROWS


def judge(text: str) -> tuple[Reach, str]:
    """Return how far it reaches, and why."""
    plain = _SKIPPED.sub(" 0 ", text)
    if writes := [word for word in re.findall(r"[a-z_]+", plain.lower()) if word in _WRITES]:
        return Reach.IRREVERSIBLE, f"{writes[0].upper()}: changes a database"
    if HOLE in text:
        return Reach.UNKNOWN, "a part of the SQL is not known"
    for statement in filter(None, map(str.strip, plain.split(";"))):
        if re.fullmatch(r"\\(?:d[a-zA-Z+]*|l\+?|x|timing|conninfo|q)(?:\s+[\w.*]+)?", statement):
            continue
        first = re.match(r"[(\s]*([A-Za-z]+)", statement)
        if first is None or first[1].lower() not in _READS:
            return Reach.UNKNOWN, "SQL that is not known to read only"
        called = {name.lower() for name in re.findall(r"([A-Za-z_]\w*)\s*\(", statement)}
        if called - _FUNCTIONS or (first[1].lower() == "pragma" and "=" in statement):
            return Reach.UNKNOWN, "SQL with functions that may write"
    return Reach.NONE, ""
