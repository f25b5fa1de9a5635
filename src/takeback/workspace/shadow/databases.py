"""Databases of a shadow: SQLite in its view; PostgreSQL in a copy, or in transactions that are always aborted."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from takeback.core.events import Effect
from takeback.core.redact import redact
from takeback.core.values import plain
from takeback.engine.shadow.shadow import Intention, Shadow
from takeback.errors import RefusedError, UsageError
from takeback.ports.databases import Databases, PreparedDatabase, Transaction
from takeback.resources.postgres import connection as postgres
from takeback.system import postgres_address

ABORT, COPY = "abort", "copy"
_ENDS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(commit|end|prepare\s+transaction)\b", re.IGNORECASE | re.DOTALL
)
_READS = ("SELECT", "SHOW", "SET", "EXPLAIN")


class ShadowDatabases:
    """The databases that a shadow writes to."""

    def __init__(
        self,
        files: Databases,
        shadow: Shadow,
        real: Path,
        view: Path,
        copies: Mapping[str, str],
    ) -> None:
        """`copies` says where to write instead of a server: another address, `copy`, or `abort`, the default."""
        self._files = files
        self._shadow = shadow
        self._real = real
        self._view = view
        self._chosen = dict(copies)
        self._made: dict[str, str] = {}
        self.step: Callable[[], str] = lambda: ""

    def prepare(self, place: str) -> PreparedDatabase:
        if postgres_address.is_address(place):
            return PreparedDatabase(postgres_address.called(place)[0])
        return self._files.prepare(self._in_view(place))

    def begin(self, place: str, action: str) -> Transaction:
        if not postgres_address.is_address(place):
            return self._files.begin(self._in_view(place), action)
        where = self._chosen.get(place, ABORT)
        if where == COPY:
            where = self._made.get(place) or self._copied(place)
        return ShadowTransaction(self, place, "" if where == ABORT else where)

    def _in_view(self, place: str) -> str:
        """Return the path of a database in the view, for one that names the real folder."""
        path = os.path.normpath(place)
        real = str(self._real)
        return str(self._view / path[len(real) + 1 :]) if path.startswith(real + os.sep) else place

    def _copied(self, place: str) -> str:
        """Copy a database on its server, and return the address of the copy. Nobody else may be connected to it."""
        driver = postgres_address.driver()
        parts = postgres_address.parsed(place)
        name = str(parts.get("dbname"))
        made = f"{name[:40]}_shadow_{secrets.token_hex(4)}"
        names = (driver.sql.Identifier(made), driver.sql.Identifier(name))
        with (
            postgres.translated(place, "nothing was begun"),
            postgres.connect(_with_name(place, "postgres"), autocommit=True) as db,
        ):
            db.execute(driver.sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
        self._made[place] = _with_name(place, made)
        return self._made[place]

    def note(self, place: str, query: str, values: Any, rows: int) -> None:
        """Take down a statement that was executed."""
        name = postgres_address.called(place)[0]
        kept = None if values is None else plain(_listed(values), f"the parameters of a statement in {name}")
        self._shadow.take_down(
            Intention(
                "statement",
                name,
                Effect.TRANSACTIONAL,
                {"address": place, "query": query, "values": kept, "rows": rows},
                {"args": [redact(" ".join(query.split()))]},
                "aborted",
                tool="database",
                step=self.step(),
            )
        )

    def close(self) -> None:
        """Remove the copies that were made."""
        driver = postgres_address.driver() if self._made else None
        while self._made and driver is not None:
            place, copied = self._made.popitem()
            name = str(postgres_address.parsed(copied)["dbname"])
            with postgres.connect(_with_name(place, "postgres"), autocommit=True) as db:
                db.execute(driver.sql.SQL("DROP DATABASE IF EXISTS {}").format(driver.sql.Identifier(name)))


class ShadowTransaction:
    """A transaction of a shadow: every statement is taken down, and the real database never sees a commit."""

    def __init__(self, databases: ShadowDatabases, place: str, copied: str) -> None:
        self._copied = bool(copied)
        driver = postgres_address.driver()
        with postgres.translated(place, "nothing was begun"):
            self._db = driver.connect(copied or place, cursor_factory=_recording(databases, place))
        # A program that commits by itself would reach the real database.
        self._db.commit = self._refuse

    @property
    def connection(self) -> Any:
        return self._db

    def _refuse(self) -> None:
        raise RefusedError(
            "a shadow does not commit; nothing was committed", hint="leave it to the end of the step"
        )

    def commit(self) -> None:
        try:
            if self._copied:
                type(self._db).commit(self._db)
        finally:
            self.abort()

    def abort(self) -> None:
        self._db.close()  # what is not committed is aborted


def _recording(databases: ShadowDatabases, place: str) -> Any:
    driver = postgres_address.driver()

    class RecordingCursor(driver.Cursor):  # type: ignore[name-defined,misc]
        """A cursor that takes down what it executes."""

        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            text = query if isinstance(query, str) else _text(query, self)
            if _ENDS.match(text):
                raise RefusedError("a shadow does not commit; nothing was committed")
            # A prepared statement is a single one, so that a commit cannot hide behind another.
            found = super().execute(text.encode(), params, **{**options, "prepare": True})
            if not (self.statusmessage or "").startswith(_READS):
                databases.note(place, text, params, self.rowcount)
            return found

        def executemany(self, query: Any, params_seq: Any, **_options: Any) -> None:
            for params in params_seq:
                self.execute(query, params)

        def copy(self, *_args: Any, **_options: Any) -> Any:
            raise UsageError("COPY is not possible in a shadow; nothing was copied", hint="use INSERT")

    return RecordingCursor


def _text(query: Any, cursor: Any) -> str:
    found = query.as_string(cursor) if hasattr(query, "as_string") else query
    return found.decode() if isinstance(found, bytes) else str(found)


def _listed(values: Any) -> Any:
    return dict(values) if isinstance(values, Mapping) else list(values)


def _with_name(place: str, name: str) -> str:
    made: str = postgres_address.driver().conninfo.make_conninfo(place, dbname=name)
    return made
