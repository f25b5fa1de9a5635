"""psql under `takeback run`: what is said before it starts is what comes true."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.resources.postgres import psql as postgres_psql
from takeback.resources.postgres.guarded import GuardedDatabases
from takeback.resources.postgres.psql import Look
from takeback.shell.languages.sql import changes_rows_only
from takeback.system import postgres_address
from tests.resources.postgres.world import Server, Shop
from tests.world.cli import Result, run

UPDATE = "UPDATE customers SET name = 'x'"


def look(words: list[str], places: GuardedDatabases) -> Look | None:
    return postgres_psql.look(words, places, changes_rows_only)


def psql(shop: Shop, *words: str, before: tuple[str, ...] = ()) -> Result:
    program = str(shop.server.bin / "psql")
    home = Path(os.environ["TAKEBACK_HOME"])
    return run(["run", *before, "--", program, *words], cwd=shop.workspace.root, home=home)


def undo(shop: Shop) -> Result:
    return run(["undo", "--json"], cwd=shop.workspace.root, home=Path(os.environ["TAKEBACK_HOME"]))


def test_a_guarded_update_is_not_called_irreversible_and_comes_back(shop: Shop) -> None:
    shop.human("INSERT INTO customers (id, name) VALUES (1, 'ann')")
    before = shop.rows()
    done = psql(shop, "-d", shop.dsn, "-c", UPDATE, before=("--autopilot",))
    assert done.code == 0, done
    assert "cannot be taken back" not in done.stderr
    assert f"takeback: rows that this changes in {shop.name} come back with undo" in done.stderr
    assert shop.rows() != before
    report = undo(shop).json
    assert report["verdict"] == "clean" and shop.rows() == before


def test_a_database_that_nobody_guards_is_said_to_be_so(server: Server, shop: Shop) -> None:
    other = server.make("CREATE TABLE notes (who text)")
    done = psql(shop, other, "-c", "INSERT INTO notes VALUES ('a')")
    assert "takeback: this cannot be taken back" in done.stderr and "under guard" not in done.stderr
    refused = psql(shop, other, "-c", "INSERT INTO notes VALUES ('b')", before=("--autopilot",))
    assert refused.code == 125


def test_where_nobody_can_tell_which_database_that_is_said(shop: Shop) -> None:
    done = psql(shop, "postgresql://127.0.0.1:1/nowhere", "-c", UPDATE)
    assert f"unless it is rows of {shop.name}, which is under guard" in done.stderr


def test_tables_without_a_guard_make_it_unknown(shop: Shop) -> None:
    shop.human("CREATE SCHEMA extra", "CREATE TABLE extra.notes (who text)")
    done = psql(shop, shop.dsn, "-c", "INSERT INTO extra.notes VALUES ('a')")
    assert "where its table is under guard" in done.stderr
    assert undo(shop).json["verdict"] in ("unknown", "nothing")


@pytest.mark.parametrize(
    "words", [["-c", "DROP DATABASE x"], ["-f", "x.sql"], ["-c", "VACUUM"], ["-c", "SELECT 1 INTO x"]]
)
def test_what_is_more_than_rows_is_not_promised(shop: Shop, words: list[str]) -> None:
    assert look(["psql", shop.dsn, *words], shop.workspace.postgres) == Look(sure=False)


def test_the_database_is_found_as_psql_finds_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Look(shop.name, whole=True)
    parts = postgres_address.parsed(shop.dsn)
    places = shop.workspace.postgres
    host, user = str(parts["host"]), str(parts["user"])
    assert look(["/usr/bin/psql", "-qAt", "-h", host, "-U", user, shop.name, "-c", UPDATE], places) == found
    assert (
        look(["psql", f"--host={host}", "--username", user, "--dbname", shop.name, f"-c{UPDATE}"], places)
        == found
    )
    monkeypatch.setenv("PGHOST", host)
    monkeypatch.setenv("PGUSER", user)
    monkeypatch.setenv("PGDATABASE", shop.name)
    assert look(["psql", "-c", UPDATE], places) == found
    assert look(["psql", "--set=a=b", "-c", UPDATE], places) == Look(sure=False)
    assert look(["echo", "psql"], places) is None
