"""The database that a psql command is about to write to: if it is guarded, its rows can be taken back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from takeback.errors import TakebackError
from takeback.resources.postgres import connection, guard
from takeback.resources.postgres.guarded import GuardedDatabases
from takeback.system import postgres_address

PROGRAM = "psql"
_NAMED = {"-d": "dbname", "-h": "host", "-p": "port", "-U": "user", "-c": "command"}
_LONG = {
    "--dbname": "dbname",
    "--host": "host",
    "--port": "port",
    "--username": "user",
    "--command": "command",
}
_FLAGS = set("tAqxXwW1abeEnsSz0")


class Look(msgspec.Struct, frozen=True):
    """What is known about the database that a command writes to."""

    name: str = ""
    """The guarded database; empty if it is another one, or unknown."""
    whole: bool = False
    """Whether all of its tables are guarded."""
    sure: bool = True
    """False if it is unknown which database is meant, or what is done to it."""


def look(words: Sequence[str], places: GuardedDatabases, is_of_rows: Callable[[str], bool]) -> Look | None:
    """Return what psql, called with these words, would write to; None for another program, or if nothing is guarded.

    `is_of_rows` returns True if all that some SQL changes are rows.
    """
    if not words or os.path.basename(words[0]) != PROGRAM or not places.living():
        return None
    given = _read(words[1:])
    if given is None or not given["command"] or not all(map(is_of_rows, given.pop("command"))):
        return Look(sure=False)
    try:
        # As psql finds it: what the command does not say is in the environment, where the library looks.
        dsn = postgres_address.driver().conninfo.make_conninfo(*given.pop("dbname")[:1], **_last(given))
        with connection.translated(dsn, "nothing was done"), connection.connect(dsn) as db:
            found = guard.find(db)
            place = places.find(found.id) if found else None
            if found is None or place is None:
                return Look()
            others = connection.one(
                db,
                "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE relkind IN ('r', 'p', 'f') AND nspname !~ '^pg_' AND relpersistence <> 't' "
                "AND nspname NOT IN ('information_schema', 'takeback') AND NOT EXISTS "
                "(SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgname = 'takeback_insert')",
            )
            return Look(place.name, whole=not others)
    except (TakebackError, postgres_address.driver().Error):
        return Look(sure=False)


def _last(given: dict[str, list[str]]) -> dict[str, str]:
    return {name: values[-1] for name, values in given.items() if values}


def _read(words: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the options and operands of psql, by meaning; None if one is unknown."""
    found: dict[str, list[str]] = {name: [] for name in (*_NAMED.values(),)}
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        head, joined, value = word.partition("=")
        if head in _LONG:
            found[_LONG[head]].append(value if joined else next(rest, ""))
        elif word[:2] in _NAMED and not word.startswith("--"):
            found[_NAMED[word[:2]]].append(word[2:] or next(rest, ""))
        elif word.startswith("-"):
            if word.startswith("--") or not set(word[1:]) <= _FLAGS:
                return None
        else:
            operands.append(word)
    for name, operand in zip(("dbname", "user"), operands, strict=False):
        found[name].append(operand)
    database = found["dbname"]
    if database and not postgres_address.is_address(database[0]) and "=" not in database[0]:
        database[0] = postgres_address.driver().conninfo.make_conninfo(dbname=database[0])
    return found if len(operands) <= 2 and len(database) <= 1 else None
