"""Tables as a whole: recreating those that an action dropped, and dropping those that it created.

A created table is not dropped while it contains rows of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.resources.postgres.connection import one, rows, run
from takeback.resources.postgres.inverse import Trouble

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link


class Captured(msgspec.Struct, frozen=True):
    """One captured statement."""

    id: int
    action: str
    op: str
    relation: int
    schema: str
    name: str
    shape: str
    detail: Any
    undone_by: str

    @property
    def called(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def table(self) -> int:
        """The table that was created or dropped; it may be a partition of the one whose rows these are."""
        return int(self.detail["table"])


class Tables:
    """The part of some statements that concerns whole tables."""

    def __init__(self, db: Link, statements: Sequence[Captured]) -> None:
        self._db = db
        made = {s.table: s for s in statements if s.op == "create"}
        dropped = {s.table: s for s in statements if s.op == "drop"}
        passing = made.keys() & dropped.keys()
        roots = {s.relation for s in statements if s.op == "create" and s.table == s.relation} & passing
        self.dropped = [s for oid, s in dropped.items() if oid not in passing]
        names = {s.detail["named"] for s in self.dropped}
        self.replaced = [s for oid, s in made.items() if oid not in passing and s.detail["named"] in names]
        """Created in place of a dropped table: they must go before that one can come back."""
        self.made = [s for oid, s in made.items() if oid not in passing and s not in self.replaced]
        about = [
            s
            for s in statements
            if s.op not in ("alter", "other", "pruned")
            and s.relation not in roots
            and not self._is_passing(s, passing)
        ]
        # What was both created and dropped is left out.
        news = {s.relation for s in self.replaced if s.table == s.relation}
        self.in_the_way = [s for s in about if s.relation in news]
        """The statements about rows of tables that were created in place of others."""
        self.rows = [s for s in about if s.relation not in news]
        """The other statements about rows."""
        self.others = [s for s in statements if s.op == "other"]
        self._altered = [s for s in statements if s.op == "alter" and s.table not in passing]
        self._pruned = [s for s in statements if s.op == "pruned"]
        self._new = made.keys()

    @staticmethod
    def _is_passing(statement: Captured, passing: Iterable[int]) -> bool:
        return statement.op in ("create", "drop") and statement.table in passing

    def troubles(self) -> list[Trouble]:
        """Return what cannot be undone, as far as it is known before anything is written."""
        found = []
        for s in self._altered:
            shape = one(self._db, "SELECT takeback.shape(%s::oid)", [s.relation])
            if s.table in self._new and s.shape == shape:
                continue  # the whole table goes
            why = f"{s.detail['did']} cannot be taken back; schema takeback has the old definition, statement {s.id}"
            found.append(Trouble(s.action, s.called, "", why))
        own = {self._present(s) for s in self.replaced}
        taken = [
            s
            for s in self.dropped
            if one(self._db, "SELECT to_regclass(%s)", [s.detail["named"]]) and s.detail["named"] not in own
        ]
        why = "another table has its name now"
        found += [Trouble(s.action, s.called, "", why) for s in taken]
        why = "its captured rows were pruned"
        return found + [Trouble(s.action, s.called, "", why) for s in self._pruned]

    def make(self) -> None:
        """Recreate the dropped tables, without rows."""
        for schema in sorted({s.schema for s in self.dropped}):
            if one(self._db, "SELECT to_regnamespace(quote_ident(%s))", [schema]) is None:
                run(self._db, f"CREATE SCHEMA {one(self._db, 'SELECT quote_ident(%s)', [schema])}")
        self._carry_out("make", self.dropped)

    def _present(self, made: Captured) -> str | None:
        """Return the name of a table that was created.

        After an undo and a redo it is another table with that name.
        """
        named: str | None = one(
            self._db,
            "SELECT coalesce(takeback.quoted(%s::oid), (SELECT takeback.quoted(oid) FROM pg_class "
            "WHERE oid = to_regclass(%s) AND takeback.shape(takeback.root(oid)) = %s))",
            [made.table, made.detail["named"], made.shape],
        )
        return named

    def drop(self, made: Sequence[Captured]) -> list[Trouble]:
        """Drop tables that were created. Their rows are gone by now, except those of others."""
        found = []
        for s in reversed(made):
            named = self._present(s)
            if named is None:
                found.append(Trouble(s.action, s.called, "", "another client has dropped it"))
                continue
            if one(self._db, f"SELECT EXISTS (SELECT FROM {named})"):
                found.append(Trouble(s.action, s.called, "", "it contains rows of others"))
            else:
                run(self._db, f"DROP TABLE {named}")
        return found

    def finish(self) -> list[Trouble]:
        """Create what requires the rows to be there; then return what is not as it was."""
        self._carry_out("finish", self.dropped)
        self._carry_out("values", self.dropped)
        found = []
        # A key that was dropped with the first of two tables is not recorded for the second.
        every = {x for s in self.dropped for part in ("make", "finish") for x in s.detail["how"][part]}
        for s in self.dropped:
            wanted = {x for part in ("make", "finish") for x in s.detail["how"][part]}
            how = one(self._db, "SELECT takeback.definition(to_regclass(%s)::oid)", [s.detail["named"]])
            now = {*how["make"], *how["finish"]}
            if different := sorted((wanted - now) | (now - every)):
                why = f"it could not be recreated as it was: {different[0][:200]}"
                found.append(Trouble(s.action, s.called, "", why))
        return found

    def _carry_out(self, part: str, tables: Sequence[Captured]) -> None:
        # A key between two dropped tables is recorded for both.
        for statement in dict.fromkeys(x for s in tables for x in s.detail["how"][part]):
            run(self._db, statement)

    def stays(self) -> dict[str, list[str]]:
        """Return what is neither a table nor a row, and is left as it is, by action."""
        found: dict[str, list[str]] = {}
        for s in self.others:
            found.setdefault(s.action, []).append(s.detail["did"])
        return found


def captured(db: Link, actions: Sequence[str], *, undone: bool = False) -> list[Captured]:
    """Return what these actions did and has not been taken back; with `undone`, what has been."""
    found = rows(
        db,
        "SELECT id, action, op, relation, schema, name, shape, detail, coalesce(undone_by, '') "
        f"FROM takeback.statement WHERE action = ANY(%s) AND undone_by IS {'NOT' if undone else ''} NULL ORDER BY id",
        [list(actions)],
    )
    return [Captured(*row) for row in found]
