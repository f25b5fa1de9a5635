"""Comparing the rows of two databases, and applying their difference to a third."""

from __future__ import annotations

import apsw

from takeback.resources.sqlite import keyless
from takeback.resources.sqlite.reading import uri
from takeback.resources.sqlite.schema import Clash, SqliteTable, objects, query, quoted, tables, value

KEYS_SHOWN = 5
_SETTINGS = ("user_version", "application_id")


def attach(work: bytes, **others: bytes) -> apsw.Connection:
    """Return a connection to our own database, with others attached read-only."""
    db = apsw.Connection(uri(work), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    db.pragma("journal_mode", "memory")
    db.pragma("synchronous", "off")
    beside(db, **others)
    return db


def beside(db: apsw.Connection, **others: bytes) -> None:
    """Attach these images to a connection."""
    # What a trigger did is already among the rows.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    for name, path in others.items():
        db.execute(f"ATTACH ? AS {quoted(name)}", (uri(path, "?immutable=1"),))


def compared(db: apsw.Connection, old: str, new: str) -> list[str]:
    """Return how two attached databases differ, in plain words."""
    before, after = objects(db, old), objects(db, new)
    words = []
    ours, theirs = tables(db, old), tables(db, new)
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] != theirs[name]:
            words.append(f"table {name}")
        elif count := _changed(db, ours[name], old, new):
            words.append(f"{count} row{'s' if count > 1 else ''} of {name}")
    different = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    named = [f"{kind} {name}" for kind, name in sorted(different) if not name.startswith("sqlite_")]
    return words + [word for word in named if word not in words]


def move(db: apsw.Connection, base: str, goal: str) -> None:
    """Apply the difference between two attached databases to the main one. Raise Clash if that is impossible.

    The two have the same tables. Runs in the caller's transaction.
    """
    wanted, theirs = tables(db, goal), tables(db, "main")
    dangling = set(query(db, "PRAGMA main.foreign_key_check"))
    try:
        for name, table in sorted(wanted.items()):
            if _changed(db, table, base, goal):
                if theirs.get(name) != table:
                    raise Clash(f"rows of {name} were changed, and someone else changed the table itself")
                moved = keyless.move if table.is_keyless else _move_rows
                moved(db, table, base, goal)
        _move_counters(db, base, goal)
        for setting in _SETTINGS:
            _move_setting(db, setting, base, goal)
    except apsw.ConstraintError as error:
        raise Clash(f"the rows of both do not fit together: {error}") from error
    if new := set(query(db, "PRAGMA main.foreign_key_check")) - dangling:
        name, _, parent, _ = min(new, key=str)
        refer = "refers" if len(new) == 1 else "refer"
        raise Clash(f"{_rows(len(new))} of {name} {refer} to rows of {parent} that would not exist")


def left(db: apsw.Connection, base: str, goal: str) -> int:
    """Return how many rows that differ between two attached databases are not, in the main one, as in the second."""
    count = 0
    for table in tables(db, goal).values():
        # Without a key, rows cannot be matched afterwards: those were counted when they were written.
        if not table.is_keyless and _changed(db, table, base, goal):
            count += _left(db, table, goal)
    return count


def _left(db: apsw.Connection, table: SqliteTable, goal: str) -> int:
    joined = _beside_keys(table, "main") + _beside_keys(table, goal)
    return int(value(db, f"SELECT count(*) FROM temp.changed {joined} WHERE {_differs(table, goal)}"))


def _count(db: apsw.Connection, name: str) -> int:
    return int(value(db, f"SELECT count(*) FROM main.{name}"))


def _changed(db: apsw.Connection, table: SqliteTable, old: str, new: str) -> int:
    """Return how many rows differ; if there is a key, temp.changed then holds the keys."""
    if not table.key:
        raise Clash(f"the rows of {table.name} have no key to tell them apart")
    if table.is_keyless:
        return len(keyless.diff(db, table, old, new))
    db.execute("DROP TABLE IF EXISTS temp.changed")
    keys = ", ".join(f"{_in(old, column)} AS k{n}" for n, column in enumerate(table.key))
    others = ", ".join(_in(new, column) for column in table.key)
    name, joined = quoted(table.name), _same_key(table, old, new)
    db.execute(
        f"CREATE TEMP TABLE changed AS "
        f"SELECT {keys} FROM {_from(old, name)} LEFT JOIN {_from(new, name)} ON {joined} "
        f"WHERE {_in(new, table.key[0])} IS NULL OR NOT ({_same(table, old, new)}) "
        f"UNION ALL "
        f"SELECT {others} FROM {_from(new, name)} LEFT JOIN {_from(old, name)} ON {joined} "
        f"WHERE {_in(old, table.key[0])} IS NULL"
    )
    return int(value(db, "SELECT count(*) FROM temp.changed"))


def _beside_keys(table: SqliteTable, place: str) -> str:
    """Return the join with the rows of the changed keys, if there are any."""
    key = " AND ".join(f"{_in(place, column)} IS k{n}" for n, column in enumerate(table.key))
    return f" LEFT JOIN {_from(place, quoted(table.name))} ON {key}"


def _differs(table: SqliteTable, place: str) -> str:
    """Return the condition that a row of the main database differs there, or exists in only one of them."""
    first = table.key[0]
    gone = f"{_in('main', first)} IS NULL AND {_in(place, first)} IS NULL"
    both = f"{_in('main', first)} IS NOT NULL AND {_in(place, first)} IS NOT NULL"
    return f"NOT (({gone}) OR ({both} AND {_same(table, 'main', place)}))"


def _move_rows(db: apsw.Connection, table: SqliteTable, base: str, goal: str) -> None:
    name = quoted(table.name)
    keys = ", ".join(f"k{n}" for n in range(len(table.key)))
    joined = "".join(_beside_keys(table, place) for place in ("main", base, goal))
    clashes = query(
        db,
        f"SELECT {keys} FROM temp.changed {joined} "
        f"WHERE {_differs(table, base)} AND {_differs(table, goal)} ORDER BY {keys}",
    )
    if clashes:
        shown = ", ".join("/".join(map(str, key)) for key in clashes[:KEYS_SHOWN])
        more = f" and {len(clashes) - KEYS_SHOWN} more" if len(clashes) > KEYS_SHOWN else ""
        verb = "were" if len(clashes) > 1 else "was"
        raise Clash(
            f"{_rows(len(clashes))} of {table.name} {verb} changed by both: {table.label} {shown}{more}"
        )
    columns = ", ".join(map(quoted, table.every))
    chosen = f"({', '.join(map(quoted, table.key))}) IN (SELECT {keys} FROM temp.changed)"
    db.execute(f"DELETE FROM main.{name} WHERE {chosen}")
    others = _count(db, name)
    # ABORT, whatever conflict rule the table itself has: rows in the way belong to someone else.
    db.execute(
        f"INSERT OR ABORT INTO main.{name} ({columns}) "
        f"SELECT {columns} FROM {quoted(goal)}.{name} WHERE {chosen}"
    )
    # Each inserted row is as it should be, and there are no fewer others than before: so the others are unchanged.
    came = int(value(db, f"SELECT count(*) FROM {quoted(goal)}.{name} WHERE {chosen}"))
    if _count(db, name) != others + came or _left(db, table, goal):
        raise Clash(f"the rows of both do not fit together in {table.name}")


def _move_counters(db: apsw.Connection, base: str, goal: str) -> None:
    """Reset the AUTOINCREMENT counters that no one else has advanced since."""
    places = ("main", base, goal)
    if not all(("table", "sqlite_sequence") in objects(db, place) for place in places):
        return
    mine, old, new = (
        dict(query(db, f"SELECT name, seq FROM {quoted(place)}.sqlite_sequence")) for place in places
    )
    for name in old.keys() | new.keys():
        if mine.get(name) == old.get(name) != new.get(name):
            db.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (name,))
            if name in new:
                db.execute("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", (name, new[name]))


def _move_setting(db: apsw.Connection, setting: str, base: str, goal: str) -> None:
    mine, old, new = (value(db, f"PRAGMA {quoted(place)}.{setting}") for place in ("main", base, goal))
    if old == new or mine == new:
        return
    if mine != old:
        raise Clash(f"{setting} was changed by both")
    db.execute(f"PRAGMA main.{setting} = {int(new)}")


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"


def _from(place: str, name: str) -> str:
    return f"{quoted(place)}.{name} AS {_alias(place)}"


def _alias(place: str) -> str:
    return quoted(f"in {place}")


def _in(place: str, column: str) -> str:
    return f"{_alias(place)}.{quoted(column)}"


def _same_key(table: SqliteTable, one: str, other: str) -> str:
    return " AND ".join(f"{_in(one, column)} = {_in(other, column)}" for column in table.key)


def _same(table: SqliteTable, one: str, other: str) -> str:
    """Return the condition that two rows are equal in every byte, whatever the column's rules: 1 is not 1.0."""
    equal = (
        f"{_in(one, column)} IS {_in(other, column)} COLLATE BINARY "
        f"AND typeof({_in(one, column)}) = typeof({_in(other, column)})"
        for column in table.columns
    )
    return " AND ".join(equal)
