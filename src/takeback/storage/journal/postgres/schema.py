"""The tables of the store: created and migrated to the newest format by the first process that needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.errors import BackendError, FormatTooNew
from takeback.system.crash_points import crash_point, reach
from takeback.system.postgres_address import driver, first_line

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

FORMAT = 7
"""The newest format; as many as there are files in migrations/."""

MIGRATING = crash_point("journal-migrating")

# Any number that no other program uses for an advisory lock; this one spells "TAKE" and "STOR".
_LOCK = 0x54414B4553544F52
_VERSION = b"SELECT version FROM takeback_store.format"
_IS_THERE = (
    b"SELECT EXISTS (SELECT FROM pg_catalog.pg_tables "
    b"WHERE schemaname = 'takeback_store' AND tablename = 'format')"
)
_MAKE = (
    b"CREATE SCHEMA takeback_store; "
    b"CREATE TABLE takeback_store.format (version integer NOT NULL); "
    b"INSERT INTO takeback_store.format VALUES (0)"
)


def prepare(db: Db, name: str) -> None:
    """Make sure that the tables exist in our format."""
    version = _version(db)
    if version != FORMAT:
        _refuse(version, name)
        _migrate(db, name)


def _version(db: Db) -> int:
    """Return the format of the tables; -1 if there are none."""
    # Query the catalog itself: a lookup by name may use this session's cache.
    row = db.execute(_IS_THERE).fetchone()
    found = db.execute(_VERSION).fetchone() if row and row[0] else None
    return int(found[0]) if found else -1


def _refuse(version: int, name: str) -> None:
    if version > FORMAT:
        raise FormatTooNew(
            f"the store in {name} is in format {version}; this program reads up to {FORMAT}. Nothing was changed",
            hint="upgrade Takeback",
        )


def _migrate(db: Db, name: str) -> None:
    """Migrate the tables to the newest format in one transaction: a crash leaves the old format intact."""
    pg = driver()
    try:
        with db.transaction():
            db.execute(b"SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            version = _version(db)  # again: another process may have been first
            _refuse(version, name)
            if version < 0:
                _require_utf8(db, name)
                db.execute(_MAKE)
            for number, script in scripts(after=version):
                db.execute(script.encode())
                db.execute(b"UPDATE takeback_store.format SET version = %s", (number,))
                reach(MIGRATING)
    except (pg.errors.InsufficientPrivilege, pg.errors.ReadOnlySqlTransaction) as error:
        what = "has no Takeback tables yet" if version_unknown(db) else "is in an older format"
        raise BackendError(
            f"{name} {what}, and this role may not change that: {first_line(error)}. Nothing was recorded",
            hint="open the store once with a role that may CREATE in this database",
        ) from error


def version_unknown(db: Db) -> bool:
    """Return True if this role sees none of our tables."""
    return _version(db) < 0


def _require_utf8(db: Db, name: str) -> None:
    encoding = db.info.parameter_status("server_encoding") or ""
    if encoding != "UTF8":
        raise BackendError(
            f"{name} uses the encoding {encoding}, which cannot hold every file name. Nothing was recorded",
            hint="create a database with ENCODING 'UTF8' for the store",
        )


def scripts(*, after: int) -> list[tuple[int, str]]:
    """Return the migrations after this format, with their numbers."""
    from importlib import resources  # slow to import, and seldom needed

    folder = resources.files("takeback.storage.journal.postgres").joinpath("migrations")
    files = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    numbered = [(int(name[:4]), file.read_text(encoding="utf-8")) for name, file in files]
    return [(number, script) for number, script in numbered if number > after]
