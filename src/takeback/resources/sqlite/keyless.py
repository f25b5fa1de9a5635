"""Rows of a table without a key. SQLite gives each a number, and VACUUM gives it another one.

So a row is known by its number as long as its values are the same, and else by its values alone: rows with the same
values are told apart by nobody. Where it is unclear which of several is meant, one of a human's is never removed.
"""

from __future__ import annotations

import apsw
import msgspec
from blake3 import blake3

from takeback.resources.sqlite.schema import Clash, SqliteTable, quoted, value

Print = bytes
"""What is in a row, as a digest: 1 is not 1.0."""


class Rows:
    """Some rows of a table, by number and by what is in them."""

    def __init__(self) -> None:
        self.at: dict[int, Print] = {}
        self.like: dict[Print, list[int]] = {}

    def add(self, number: int, row: Print) -> None:
        self.at[number] = row
        self.like.setdefault(row, []).append(number)

    def count(self, row: Print) -> int:
        return len(self.like.get(row, ()))

    def take(self, row: Print) -> int:
        """The last row like this one. What was added lately has a high number, also after a VACUUM."""
        number = self.like[row].pop()
        del self.at[number]
        return number


class RowDiff(msgspec.Struct):
    """What leads from one table to another: rows that go and rows that come. One number in both is one row."""

    gone: dict[int, Print]
    come: dict[int, Print]

    def __len__(self) -> int:
        return len(self.gone.keys() | self.come.keys())


def diff(db: apsw.Connection, table: SqliteTable, old: str, new: str) -> RowDiff:
    """How two tables differ, whatever numbers their rows have."""
    gone, come = _unlike(db, table, old, new), _unlike(db, table, new, old)
    for row in gone.like.keys() & come.like.keys():
        for _ in range(min(gone.count(row), come.count(row))):
            gone.take(row)
            come.take(row)
    return RowDiff(gone.at, come.at)


def move(db: apsw.Connection, table: SqliteTable, base: str, goal: str) -> None:
    """Apply to the main table what leads from one to another; Clash where somebody changed the same rows."""
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
    """The main table, beside the one that it was made from."""

    def __init__(self, db: apsw.Connection, table: SqliteTable, base: str, wanted: RowDiff) -> None:
        self._db, self._table = db, table
        self._missing = _unlike(db, table, base, "main")
        self.others = _unlike(db, table, "main", base)
        """Rows that have come since, or have another number now."""
        agents = [row for number, row in wanted.gone.items() if number in self._missing.at]
        self._spare = {row: self.others.count(row) for row in agents}
        for number, row in self._missing.at.items():
            if row in self._spare and number not in wanted.gone:
                self._spare[row] -= 1  # that one is somebody else's

    def find(self, number: int, row: Print) -> int | None:
        """Where a row of the base is now."""
        if number not in self._missing.at:
            return number
        if self._spare[row] < 1:
            return None
        self._spare[row] -= 1
        return self.others.take(row)

    def is_changed(self, number: int, goal: Print | None) -> bool:
        """Whether a row that cannot be found was made another one, and is not what it is to become."""
        now = self.others.at.get(number)
        if goal is not None:
            return self._surplus(goal) < 1
        return now is not None and now not in self._missing.like

    def has_again(self, number: int, row: Print) -> bool:
        """Whether somebody has put it there already, and it is none of the base with another number."""
        return self.others.at.get(number) == row and self._surplus(row) > 0

    def _surplus(self, row: Print) -> int:
        return self.others.count(row) - self._missing.count(row)

    def has(self, number: int) -> bool:
        name, own = quoted(self._table.name), quoted(self._table.key[0])
        return bool(value(self._db, f"SELECT count(*) FROM main.{name} WHERE {own} = ?", (number,)))


def _unlike(db: apsw.Connection, table: SqliteTable, one: str, other: str) -> Rows:
    """The rows of one table that the other does not have under the same number."""
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
    # Whatever the table itself would do with rows that are in the way: they are somebody's.
    db.executemany(
        f"INSERT OR ABORT INTO main.{name} ({number}, {columns}) "
        f"SELECT ?, {columns} FROM {quoted(goal)}.{name} WHERE {number} = ?",
        in_order,
    )
    if int(value(db, f"SELECT count(*) FROM main.{name}")) != before - len(gone) + len(inserted):
        raise Clash(f"the rows of both do not go together in {table.name}")
