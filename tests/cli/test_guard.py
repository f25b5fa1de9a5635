"""`takeback guard`, and what the other commands say about a guarded database."""

from __future__ import annotations

import json
import sys

import psycopg
import pytest

from tests.resources.postgres.world import Server

from .inside import Inside

TABLES = """
    CREATE TABLE customers (id int PRIMARY KEY, name text);
    CREATE TABLE orders (id int PRIMARY KEY, customer int REFERENCES customers);
    INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob');
    """
AGENT = """
import psycopg, sys
with psycopg.connect(sys.argv[1]) as db:
    db.execute("UPDATE customers SET name = upper(name)")
    db.execute("INSERT INTO orders VALUES (7, 1), (8, 2)")
"""


@pytest.fixture
def dsn(server: Server) -> str:
    return server.make(TABLES)


def names(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as db:
        return [name for (name,) in db.execute("SELECT name FROM customers ORDER BY id")]


def test_guard_run_look_and_undo(inside: Inside, dsn: str) -> None:
    name = dsn.split("/")[3].split("?", maxsplit=1)[0]
    made = inside.run("guard", dsn)
    assert made.code == 0 and made.stdout.startswith(f"{name} is guarded: 2 tables of public.")
    assert "sequences" in made.stdout and "NOTIFY" in made.stdout and "DROP" not in made.stdout
    inside.human("agent.py", AGENT)
    done = inside.run("run", "--", sys.executable, "agent.py", dsn)
    assert done.code == 0 and "It changed 1 database." in done.stderr
    action = done.stderr.split("takeback undo ")[1].split()[0]
    told = f"{name}: 2 rows of customers changed, 2 rows added to orders"
    assert told in inside.run("diff", action).stdout
    assert told in inside.run("show", action).stdout
    assert action in inside.run("status").stdout
    preview = inside.run("undo", "--preview")
    assert f"restore    {name}: 2 rows of customers put back, 2 rows of orders removed" in preview.stdout
    assert names(dsn) == ["ANN", "BOB"]
    undone = inside.run("undo")
    assert undone.code == 0 and names(dsn) == ["Ann", "Bob"]
    assert f"restored   {name}: 2 rows of customers put back, 2 rows of orders removed" in undone.stdout
    assert inside.run("redo").code == 0 and names(dsn) == ["ANN", "BOB"]


def test_a_conflict_names_the_rows_and_the_ways_out(inside: Inside, dsn: str) -> None:
    inside.run("guard", dsn)
    inside.human("agent.py", AGENT)
    inside.run("run", "--", sys.executable, "agent.py", dsn)
    with psycopg.connect(dsn) as db:
        db.execute("UPDATE customers SET name = 'mine' WHERE id = 2")
    stopped = inside.run("undo")
    assert stopped.code == 3 and "customers, row 2: changed by another client since" in stopped.stderr
    assert "--on-conflict keep" in stopped.stderr and names(dsn) == ["ANN", "mine"]
    kept = inside.run("undo", "--on-conflict", "keep", "--json")
    (item,) = json.loads(kept.stdout)["items"]
    assert kept.code == 0 and item["did"] == "merged" and names(dsn) == ["Ann", "mine"]


def test_status_and_remove(inside: Inside, dsn: str) -> None:
    assert "is not guarded" in inside.run("guard", dsn, "--status").stdout
    inside.run("guard", dsn)
    told = json.loads(inside.run("guard", dsn, "--status", "--json").stdout)
    assert (
        told["guarded"]
        and told["drop_is_covered"]
        and told["tables"] == ["public.customers", "public.orders"]
    )
    assert "no longer guarded" in inside.run("guard", dsn, "--remove").stdout
    assert json.loads(inside.run("guard", dsn, "--remove", "--json").stdout)["removed"] is False
    assert "is not guarded" in inside.run("guard", dsn, "--status").stdout


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["app.db"], 2, "not the address of a database"),
        (["postgresql://u:hunter2hunter2@/x?nonsense=1"], 2, "not an address of a database"),
        (["postgresql://u:hunter2hunter2@/x?host=/nowhere"], 4, "cannot be reached"),
        (["postgresql:///x", "--remove", "--schema", "s"], 2, "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_told_without_the_password(
    inside: Inside, words: list[str], code: int, said: str
) -> None:
    result = inside.run("guard", *words)
    assert result.code == code and said in result.stderr and "hunter2" not in result.said


def test_a_schema_that_is_not_there_is_told(inside: Inside, dsn: str) -> None:
    for schema in ("nowhere", "takeback", "pg_catalog"):
        result = inside.run("guard", dsn, "--schema", schema)
        assert result.code == 2 and schema in result.stderr
    assert "is not guarded" in inside.run("guard", dsn, "--status").stdout


def test_without_the_driver_the_extra_is_named(
    inside: Inside, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    result = inside.run("guard", dsn)
    assert result.code == 2 and "pip install 'takeback[postgres]'" in result.stderr
