"""The tables of a database, as far as comparing and moving their rows requires."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

_ROWIDS = ("rowid", "_rowid_", "oid")
_STORED = 0
"""How SQLite marks a column that is neither hidden nor generated."""


class Clash(Exception):
    """A conflict between two changes; the message says what it is."""


class SqliteTable(msgspec.Struct, frozen=True):
    """An ordinary table. `key` are the columns that identify its rows, `label` is the name of the key for people."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    label: str

    @property
    def is_keyless(self) -> bool:
        """Whether its rows have only the number that SQLite assigned, and may reassign."""
        return bool(self.key) and self.key[0] not in self.columns

    @property
    def every(self) -> tuple[str, ...]:
        """All columns of a row, including the number that SQLite assigned if no column holds it."""
        return (*(column for column in self.key if column not in self.columns), *self.columns)


Objects = dict[tuple[str, str], str]
"""Every table, index, view and trigger: kind and name, with the SQL that created it."""


def objects(db: apsw.Connection, place: str) -> Objects:
    """Return the content of a schema. Statistics are not part of it: SQLite creates them itself."""
    rows = query(db, f"SELECT type, name, coalesce(sql, '') FROM {quoted(place)}.sqlite_schema")
    return {(kind, name): sql for kind, name, sql in rows if not name.startswith("sqlite_stat")}


def tables(db: apsw.Connection, place: str) -> dict[str, SqliteTable]:
    """Return the tables that store rows, including those behind a search index."""
    wanted = f"SELECT name FROM {quoted(place)}.sqlite_schema WHERE type = 'table' AND rootpage > 0"
    names = [name for (name,) in query(db, wanted) if not name.startswith("sqlite_")]
    return {name: _table(db, place, name) for name in names}


def _table(db: apsw.Connection, place: str, name: str) -> SqliteTable:
    wanted = "SELECT name, pk, hidden FROM pragma_table_xinfo(?, ?) ORDER BY cid"
    columns = query(db, wanted, (name, place))
    stored = tuple(column for column, _, hidden in columns if hidden == _STORED)
    primary = tuple(column for column, pk, _ in sorted(columns, key=lambda row: row[1]) if pk)
    if value(db, "SELECT wr FROM pragma_table_list(?) WHERE schema = ?", (name, place)):
        return SqliteTable(name, stored, primary, ", ".join(primary))
    taken = {column.lower() for column, _, _ in columns}
    number = next((rowid for rowid in _ROWIDS if rowid not in taken), "")
    if _is_rowid(db, place, name, primary):
        return SqliteTable(name, stored, primary, primary[0])
    return SqliteTable(name, stored, (number,) if number else (), "row")


def _is_rowid(db: apsw.Connection, place: str, name: str, primary: tuple[str, ...]) -> bool:
    """Return True if the primary key is the number that SQLite assigns to a row."""
    if len(primary) != 1:
        return False
    return not value(db, "SELECT count(*) FROM pragma_index_list(?, ?) WHERE origin = 'pk'", (name, place))


def query(db: apsw.Connection, statement: str, given: tuple[Any, ...] = ()) -> list[Any]:
    """Return all rows of a query."""
    return db.execute(statement, given).fetchall()


def value(db: apsw.Connection, statement: str, given: tuple[Any, ...] = ()) -> Any:
    """Return the one value of a query."""
    return query(db, statement, given)[0][0]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
