"""The inverse of what actions did to rows, executed inside the server.

For each row that the selected statements touched, the capture says what was there first and what was there last. If
the last is still there, the first is put back. All in one transaction, with the tables locked against other
writers, and with the tables' triggers and the cascades of their foreign keys disabled. Then every reference is
checked; a row whose return would break one is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from takeback.core.rollback import OnConflict
from takeback.resources.postgres import inverse_queries, triggers
from takeback.resources.postgres.connection import one, rows, run

if TYPE_CHECKING:
    import psycopg

    Link = psycopg.Connection[tuple[Any, ...]]

SETTINGS = (
    # Checks and computed columns may use names as their owners do; for our own statements the server's names come
    # first.
    """SELECT set_config('search_path',
        concat_ws(', ', 'pg_catalog', nullif(current_setting('search_path'), ''), 'pg_temp'), true)""",
    # A row hidden by a policy raises an error and is not skipped.
    "SET LOCAL row_security = off",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL intervalstyle = postgres",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL bytea_output = hex",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL lc_monetary = 'C'",
    "SET LOCAL xmloption = content",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL work_mem = '64MB'",
    # Neither the tables' triggers nor cascades run while rows are put back; our capture does.
    "SET LOCAL session_replication_role = replica",
)
NAMED = 3


class PostgresTable(msgspec.Struct, frozen=True):
    """A table as it is now. Names are quoted by the server."""

    oid: int
    quoted: str
    called: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    """The columns that can be written: not the generated ones."""
    written: str
    """The expression that renders a row `t` as it is captured."""
    plain_insert: bool
    """Whether a unique constraint can be deferred, so that a duplicate must raise an error and is not skipped."""
    work: str
    """The temporary table that records for each row what was, what is and what to do."""
    statements: list[int]
    """The captured statements about this table."""

    @property
    def now(self) -> str:
        """The same for a row that may be missing; a key is never null."""
        return f"CASE WHEN t.{self.keys[0]} IS NOT NULL THEN {self.written} END"

    def on(self, a: str, b: str) -> str:
        """Return the condition that two rows have the same key. The work table keeps the key in its own columns."""
        return " AND ".join(f"{a}.{key} = {b}.k{n}" for n, key in enumerate(self.keys))


class ForeignKey(NamedTuple):
    """A foreign key: rows of `child` refer to rows of `parent`. `called` is the name of the other table."""

    child: str
    parent: str
    mine: list[str]
    theirs: list[str]
    called: str
    is_child: bool


class Trouble(msgspec.Struct, frozen=True):
    """A row that cannot be taken back, and the reason."""

    action: str
    table: str
    key: str
    why: str


class InverseResult(msgspec.Struct):
    """The result of an inverse."""

    troubles: list[Trouble] = []
    applied: int = 0
    touched: set[str] = set()
    """The actions of which something was taken back."""
    counts: dict[str, dict[str, list[int]]] = {}
    """For each action and table, how many of its rows were taken back: added, changed, removed."""

    def add(self, other: InverseResult) -> None:
        self.troubles += other.troubles
        self.applied += other.applied
        self.touched |= other.touched
        for action, tables in other.counts.items():
            self.counts.setdefault(action, {}).update(tables)


class Inverse:
    """The inverse of some captured statements, within an open transaction."""

    def __init__(self, link: Link, tables: Sequence[PostgresTable], selected: Sequence[str]) -> None:
        self._link = link
        self._selected = list(selected)
        self.tables = list(tables)
        self.found = InverseResult()

    def apply(self, choice: OnConflict) -> InverseResult:
        """Put back what was there first, row by row as far as possible; `keep` leaves the rest as it is."""
        for table in self.tables:
            run(self._link, inverse_queries.gather(table))
            run(self._link, f"ANALYZE {table.work}")
        for table in self.tables:
            self.found.troubles += self._conflicts(table)
        if choice is OnConflict.OVERWRITE:
            self.found.troubles.clear()
            for table in self.tables:
                run(self._link, f"UPDATE {table.work} SET state = 'apply' WHERE state = 'conflict'")
        elif self.found.troubles and choice is not OnConflict.KEEP:
            return self.found
        self._settle(choice)
        return self.found

    def _settle(self, choice: OnConflict) -> None:
        """Write, look for rows that are wrong, keep those as they are, and repeat until nothing is wrong."""
        run(self._link, "SAVEPOINT written")
        while True:
            self._write()
            wrong = [(table, n, why) for table in self.tables for n, why in self._broken(table)]
            if not wrong:
                break
            self.found.troubles += [self._trouble(table, n, why) for table, n, why in wrong]
            run(self._link, "ROLLBACK TO SAVEPOINT written")
            if choice is not OnConflict.KEEP or any(n == 0 for _, n, _ in wrong):
                return
            for table in self.tables:
                kept = [n for other, n, _ in wrong if other is table]
                if kept:
                    run(self._link, f"UPDATE {table.work} SET state = 'conflict' WHERE n = ANY(%s)", [kept])
            run(self._link, "RELEASE SAVEPOINT written")
            run(self._link, "SAVEPOINT written")
        for table in self.tables:
            for action, *counts in rows(self._link, inverse_queries.count(table)):
                self.found.applied += sum(counts)
                self.found.touched.add(action)
                self.found.counts.setdefault(action, {})[table.called] = counts

    def _write(self) -> None:
        for table in self.tables:
            run(self._link, inverse_queries.remove(table))
        for table in self.tables:
            run(self._link, inverse_queries.insert(table))

    # What prevents it

    def _conflicts(self, table: PostgresTable) -> list[Trouble]:
        found = rows(
            self._link,
            f"SELECT {inverse_queries.key(table, 'w')}, action, now, {'after' if table.keys else 'data'} "
            f"FROM {table.work} w WHERE state = 'conflict' ORDER BY n",
        )
        return [
            Trouble(action, table.called, key, self._who(table, now, was, shown=place < NAMED))
            for place, (key, action, now, was) in enumerate(found)
        ]

    def _who(self, table: PostgresTable, now: str | None, was: str | None, *, shown: bool) -> str:
        """Return who last changed or removed a row, as far as it was recorded."""
        other = shown and one(
            self._link,
            "SELECT s.action FROM takeback.statement s JOIN takeback.line l ON l.statement = s.id "
            "WHERE s.schema || '.' || s.name = %s AND s.action <> ALL(%s) AND s.undone_by IS NULL "
            "AND l.added = %s AND l.data = %s ORDER BY s.id DESC LIMIT 1",
            [table.called, self._selected, now is not None, was if now is None else now],
        )
        who = str(other).rpartition(":")[2] if other else "another client"
        return f"removed by {who} since" if now is None else f"changed by {who} since"

    def _broken(self, table: PostgresTable) -> Iterator[tuple[int, str]]:
        """Yield rows that are not as they should be, or whose references are broken."""
        for (n,) in rows(self._link, inverse_queries.missing(table)):
            yield n, "another row has the same unique value"
        yield from triggers.doubled(self._link, table)
        for fk in rows(self._link, REFERENCES, [table.oid, table.oid]):
            yield from self._dangling(table, ForeignKey(*fk))

    def _dangling(self, table: PostgresTable, reference: ForeignKey) -> Iterator[tuple[int, str]]:
        child, parent, mine, theirs, called, is_child = reference
        same = " AND ".join(f"p.{b} = c.{a}" for a, b in zip(mine, theirs, strict=True))
        given = " AND ".join(f"c.{a} IS NOT NULL" for a in mine)
        lost = f"{given} AND NOT EXISTS (SELECT FROM {parent} p WHERE {same})"
        if not table.keys:
            if one(self._link, f"SELECT EXISTS (SELECT FROM {child} c WHERE {lost})"):
                yield 0, f"{child} and {parent} would no longer match"
        elif is_child:
            here = f"{table.work} w JOIN {child} c ON {table.on('c', 'w')}"
            for (n,) in rows(self._link, f"SELECT w.n FROM {here} WHERE w.state = 'apply' AND {lost}"):
                yield n, f"it refers to a row of {called} that does not exist"
        else:
            values = ", ".join(f"(w.r).{b} AS f{i}" for i, b in enumerate(theirs))
            refers = " AND ".join(f"c.{a} = o.f{i}" for i, a in enumerate(mine))
            was = (
                f"SELECT n, now::{table.quoted} AS r FROM {table.work} "
                "WHERE state = 'apply' AND now IS NOT NULL OFFSET 0"
            )
            there = f"(SELECT n, {values} FROM ({was}) w) o JOIN {child} c ON {refers}"
            for (n,) in rows(self._link, f"SELECT DISTINCT o.n FROM {there} WHERE {lost}"):
                yield n, f"a row of {called} refers to it"

    def _trouble(self, table: PostgresTable, n: int, why: str) -> Trouble:
        if n == 0 or not table.keys:
            action = one(self._link, f"SELECT max(action) FROM {table.work}") or ""
            return Trouble(action, table.called, "", why)
        key, action = rows(
            self._link,
            f"SELECT {inverse_queries.key(table, 'w')}, action FROM {table.work} w WHERE n = %s",
            [n],
        )[0]
        return Trouble(action, table.called, key, why)


def look_up(link: Link, oid: int, statements: list[int]) -> PostgresTable:
    """Return a table as it is now."""
    quoted, called, written, plain = rows(
        link,
        "SELECT takeback.quoted(c.oid), nspname || '.' || relname, takeback.written(c.oid, 't'), "
        "EXISTS (SELECT FROM pg_index WHERE (indisunique OR indisexclusion) AND NOT indimmediate "
        "AND (indrelid = c.oid OR indrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = %s",
        [oid],
    )[0]
    keys = rows(
        link,
        "SELECT quote_ident(attname) FROM pg_index, unnest(indkey) WITH ORDINALITY k(attnum, n) "
        "JOIN pg_attribute a ON a.attrelid = %s AND a.attnum = k.attnum "
        "WHERE indrelid = %s AND indisprimary ORDER BY n",
        [oid, oid],
    )
    columns = rows(
        link,
        "SELECT quote_ident(attname) FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        [oid],
    )
    return PostgresTable(
        oid,
        quoted,
        called,
        tuple(name for (name,) in keys),
        tuple(name for (name,) in columns),
        written,
        plain,
        f"pg_temp.takeback_work_{oid}",
        statements,
    )


REFERENCES = """
    SELECT takeback.quoted(conrelid), takeback.quoted(confrelid),
        (SELECT array_agg(quote_ident(attname) ORDER BY n) FROM unnest(conkey) WITH ORDINALITY k(attnum, n)
            JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.attnum),
        (SELECT array_agg(quote_ident(attname) ORDER BY n) FROM unnest(confkey) WITH ORDINALITY k(attnum, n)
            JOIN pg_attribute a ON a.attrelid = confrelid AND a.attnum = k.attnum),
        (SELECT relname FROM pg_class WHERE oid = CASE WHEN side THEN confrelid ELSE conrelid END), side
    FROM pg_constraint, unnest(ARRAY[true, false]) side
    WHERE contype = 'f' AND conparentid = 0
        AND CASE WHEN side THEN conrelid ELSE confrelid END
            IN (SELECT %s::oid UNION ALL SELECT relid::oid FROM pg_partition_tree(%s::oid::regclass))
    """
