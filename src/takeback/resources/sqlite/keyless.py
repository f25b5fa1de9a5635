"""Rows of a table without a key. SQLite gives each row a number, and VACUUM may give it another one.

So a row is identified by its number as long as its values are the same, and otherwise by its values alone. Rows
with equal values cannot be told apart. If it is unclear which of several is meant, a row that someone else may have
written is never removed.
"""

from __future__ import annotations

import apsw
import msgspec
from blake3 import blake3

from takeback.resources.sqlite.schema import Clash, SqliteTable, quoted, value

Print = bytes
"""A digest of the values of a row: 1 is not 1.0."""


class Rows:
    """Some rows of a table, by number and by value."""

    def __init__(self) -> None:
        self.at: dict[int, Print] = {}
        self.like: dict[Print, list[int]] = {}

    def add(self, number: int, row: Print) -> None:
        self.at[number] = row
        self.like.setdefault(row, []).append(number)

    def count(self, row: Print) -> int:
        return len(self.like.get(row, ()))

    def take(self, row: Print) -> int:
        """Remove and return the last row like this one. Recent rows have high numbers, even after a VACUUM."""
        number = self.like[row].pop()
        del self.at[number]
        return number


class RowDiff(msgspec.Struct):
    """The difference between two tables: rows that go and rows that come. The same number in both is the same row."""

    gone: dict[int, Print]
    come: dict[int, Print]

    def __len__(self) -> int:
        return len(self.gone.keys() | self.come.keys())


def diff(db: apsw.Connection, table: SqliteTable, old: str, new: str) -> RowDiff:
    """Return how two tables differ, regardless of the numbers of their rows."""
    gone, come = _unlike(db, table, old, new), _unlike(db, table, new, old)
    for row in gone.like.keys() & come.like.keys():
        for _ in range(min(gone.count(row), come.count(row))):
            gone.take(row)
            come.take(row)
    return RowDiff(gone.at, come.at)


def move(db: apsw.Connection, table: SqliteTable, base: str, goal: str) -> None:
    """Apply the difference between two tables to the main table.

    Raise Clash if someone else changed the same rows.
    """
    wanted = diff(db, table, base, goal)
    mine = _Mine(db, table, base, wanted)
    clashes, gone, inserted = list[int](), set[int](), list[tuple[int | None, int]]()
    for number, row in sorted(wanted.gone.items()):
        at = mine.find(number, row)
        if at is not None:
            gone.add(at)
            if number in wanted.come:
                inserted.append((at, number))
        elif mine.is_changed(number, wanted.come.get(number)):
            clashes.append(number)
    again = {at for at, _ in inserted}
    for number in sorted(wanted.come.keys() - wanted.gone.keys()):
        if not mine.has_again(number, wanted.come[number]):
            is_free = number not in again and (number in gone or not mine.has(number))
            inserted.append((number if is_free else None, number))
    if clashes:
        verb = "were" if len(clashes) > 1 else "was"
        shown = ", ".join(map(str, clashes[:5])) + (
            f" and {len(clashes) - 5} more" if len(clashes) > 5 else ""
        )
        rows = f"{len(clashes):,} row{'s' if len(clashes) > 1 else ''}"
        raise Clash(f"{rows} of {table.name} {verb} changed by both: row {shown}")
    _write(db, table, goal, gone, inserted)


class _Mine:
    """The main table, compared with the one that it was made from."""

    def __init__(self, db: apsw.Connection, table: SqliteTable, base: str, wanted: RowDiff) -> None:
        self._db, self._table = db, table
        self._missing = _unlike(db, table, base, "main")
        self.others = _unlike(db, table, "main", base)
        """Rows that were added since, or have another number now."""
        agents = [row for number, row in wanted.gone.items() if number in self._missing.at]
        self._spare = {row: self.others.count(row) for row in agents}
        for number, row in self._missing.at.items():
            if row in self._spare and number not in wanted.gone:
                self._spare[row] -= 1  # that one belongs to someone else

    def find(self, number: int, row: Print) -> int | None:
        """Return where a row of the base is now."""
        if number not in self._missing.at:
            return number
        if self._spare[row] < 1:
            return None
        self._spare[row] -= 1
        return self.others.take(row)

    def is_changed(self, number: int, goal: Print | None) -> bool:
        """Return True if a missing row was changed by someone else, and not into what it should become."""
        now = self.others.at.get(number)
        if goal is not None:
            return self._surplus(goal) < 1
        return now is not None and now not in self._missing.like

    def has_again(self, number: int, row: Print) -> bool:
        """Return True if someone has already put the row there, and it is not a renumbered row of the base."""
        return self.others.at.get(number) == row and self._surplus(row) > 0

    def _surplus(self, row: Print) -> int:
        return self.others.count(row) - self._missing.count(row)

    def has(self, number: int) -> bool:
        name, own = quoted(self._table.name), quoted(self._table.key[0])
        return bool(value(self._db, f"SELECT count(*) FROM main.{name} WHERE {own} = ?", (number,)))


def _unlike(db: apsw.Connection, table: SqliteTable, one: str, other: str) -> Rows:
    """Return the rows of one table that the other does not have under the same number."""
    name, number = quoted(table.name), quoted(table.key[0])
    same = "".join(
        f" AND a.{quoted(c)} IS b.{quoted(c)} COLLATE BINARY AND typeof(a.{quoted(c)}) = typeof(b.{quoted(c)})"
        for c in table.columns
    )
    found = Rows()
    for at, *row in db.execute(
        f"SELECT a.{number}, {', '.join(f'a.{quoted(column)}' for column in table.columns)} "
        f"FROM {quoted(one)}.{name} AS a LEFT JOIN {quoted(other)}.{name} AS b "
        f"ON a.{number} = b.{number}{same} WHERE b.{number} IS NULL ORDER BY a.{number}"
    ):
        found.add(at, blake3(msgspec.msgpack.encode(row)).digest(16))
    return found


def _write(
    db: apsw.Connection, table: SqliteTable, goal: str, gone: set[int], inserted: list[tuple[int | None, int]]
) -> None:
    name, number = quoted(table.name), quoted(table.key[0])
    columns = ", ".join(map(quoted, table.columns))
    before = int(value(db, f"SELECT count(*) FROM main.{name}"))
    db.executemany(f"DELETE FROM main.{name} WHERE {number} = ?", [(at,) for at in sorted(gone)])
    in_order = [pair for pair in inserted if pair[0] is not None] + [p for p in inserted if p[0] is None]
    # ABORT, whatever conflict rule the table itself has: rows in the way belong to someone else.
    db.executemany(
        f"INSERT OR ABORT INTO main.{name} ({number}, {columns}) "
        f"SELECT ?, {columns} FROM {quoted(goal)}.{name} WHERE {number} = ?",
        in_order,
    )
    if int(value(db, f"SELECT count(*) FROM main.{name}")) != before - len(gone) + len(inserted):
        raise Clash(f"the rows of both do not fit together in {table.name}")
