"""Installing change capture in a database, and removing it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.errors import FormatTooNew, RefusedError, UsageError
from takeback.resources.postgres import connection
from takeback.resources.postgres.connection import LOCK_MS, one, rows, run, translated

if TYPE_CHECKING:
    import psycopg

VERSION = 1
SCRIPTS = ("schema.sql", "capture.sql", "definition.sql")
DDL_SCRIPT = "ddl.sql"
DEFAULT_SCHEMA = "public"


class Guarded(msgspec.Struct, frozen=True):
    """What is guarded in a database."""

    id: str
    schemas: tuple[str, ...]
    tables: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """Tables that cannot be guarded, and why."""
    sees_ddl: bool
    """Whether DROP, ALTER and CREATE of tables are captured: that needs a superuser."""
    lines: int = 0
    """The number of rows set aside."""
    bytes: int = 0


def install(dsn: str, schemas: Sequence[str]) -> Guarded:
    """Guard these schemas as well. Schemas that are already guarded stay so, including tables created since."""
    with translated(dsn, "nothing was changed there"), connection.connect(dsn) as db:
        run(db, f"SET LOCAL lock_timeout = {LOCK_MS}")
        found = find(db)
        wanted = tuple(dict.fromkeys([*(found.schemas if found else ()), *schemas]))
        wanted = wanted or (DEFAULT_SCHEMA,)
        _require_schemas(db, wanted)
        if found is None:
            _require_rights(db)
            _make(db)
        run(db, "UPDATE takeback.guard SET schemas = %s", [list(wanted)])
        run(db, "SELECT takeback.watch(target) FROM takeback.tables() WHERE why = ''")
        return _state(db)


def status(dsn: str) -> Guarded | None:
    """Return what is guarded; None if there is no guard."""
    with translated(dsn, "nothing was changed there"), connection.connect(dsn) as db:
        return _state(db) if find(db) else None


def remove(dsn: str) -> bool:
    """Remove the guard and all that it captured. Return True if there was one."""
    with translated(dsn, "nothing was changed there"), connection.connect(dsn) as db:
        run(db, f"SET LOCAL lock_timeout = {LOCK_MS}")
        found = find(db)
        if found is None:
            return False
        if found.sees_ddl:
            for name in ("takeback_before", "takeback_dropped", "takeback_after"):
                run(db, f"DROP EVENT TRIGGER IF EXISTS {name}")
        run(
            db,
            "SELECT takeback.unwatch(tgrelid) FROM pg_trigger WHERE tgname LIKE 'takeback_%' GROUP BY tgrelid",
        )
        run(db, "SET LOCAL client_min_messages = warning")
        run(db, "DROP SCHEMA takeback CASCADE")
        return True


def prune(dsn: str, days: int) -> int:
    """Delete rows that were set aside longer ago. Return how many. The fact that they existed stays recorded."""
    with translated(dsn, "nothing was changed there"), connection.connect(dsn) as db:
        return run(
            db,
            "WITH old AS (UPDATE takeback.statement SET op = 'pruned', lines = 0 "
            "WHERE at < now() - make_interval(days => %s) AND op <> 'pruned' RETURNING id) "
            "DELETE FROM takeback.line USING old WHERE statement = old.id",
            [days],
        )


class GuardState(msgspec.Struct, frozen=True):
    """The guard of a database."""

    id: str
    schemas: tuple[str, ...]
    sees_ddl: bool


def find(db: psycopg.Connection[connection.Row]) -> GuardState | None:
    """Return the guard of the connected database."""
    if one(db, "SELECT to_regclass('takeback.guard')") is None:
        if one(db, "SELECT to_regnamespace('takeback')") is not None:
            raise RefusedError(
                "that database has a schema `takeback` that Takeback did not create; nothing was changed there"
            )
        return None
    id, version, schemas, sees_ddl = rows(
        db, "SELECT id::text, version, schemas, sees_ddl FROM takeback.guard"
    )[0]
    if version > VERSION:
        raise FormatTooNew(
            "that database is guarded by a newer Takeback; nothing was changed there",
            hint="upgrade Takeback",
        )
    return GuardState(id, tuple(schemas), sees_ddl)


def _require_schemas(db: psycopg.Connection[connection.Row], schemas: Sequence[str]) -> None:
    for name in schemas:
        if name.startswith("pg_") or name in ("information_schema", "takeback"):
            raise UsageError(
                f"the schema {name} belongs to the server or to Takeback; nothing was changed there"
            )
        if one(db, "SELECT to_regnamespace(quote_ident(%s))", [name]) is None:
            raise UsageError(f"there is no schema {name} in that database; nothing was changed there")


def _require_rights(db: psycopg.Connection[connection.Row]) -> None:
    """Raise an error if the role lacks the right without which nothing could be taken back later."""
    run(db, "SAVEPOINT rights")
    run(db, "SET LOCAL session_replication_role = replica")
    run(db, "ROLLBACK TO SAVEPOINT rights")


def _make(db: psycopg.Connection[connection.Row]) -> None:
    is_super = bool(one(db, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
    run(db, "SET LOCAL check_function_bodies = off")
    for script in SCRIPTS:
        run(db, _text(script))
    run(
        db,
        "INSERT INTO takeback.guard (id, version, schemas, sees_ddl) VALUES (%s, %s, '{}', %s)",
        [str(uuid.uuid4()), VERSION, is_super],
    )
    if is_super:
        run(db, _text(DDL_SCRIPT))


def _text(script: str) -> str:
    return (Path(__file__).parent / script).read_text(encoding="utf-8")


def _state(db: psycopg.Connection[connection.Row]) -> Guarded:
    found = find(db)
    assert found is not None
    tables = rows(
        db,
        "SELECT named, why, EXISTS (SELECT FROM pg_trigger WHERE tgrelid = target "
        "AND tgname = 'takeback_insert') FROM takeback.tables()",
    )
    lines, size = rows(
        db,
        "SELECT coalesce(sum(lines), 0)::bigint, pg_total_relation_size('takeback.line') FROM takeback.statement",
    )[0]
    return Guarded(
        found.id,
        found.schemas,
        tuple(name for name, _, watched in tables if watched),
        tuple(
            (name, why or "it was created after the guard") for name, why, watched in tables if not watched
        ),
        found.sees_ddl,
        lines,
        size,
    )
