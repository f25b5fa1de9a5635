"""Two agents and a human at random work over related tables: undo of one leaves exactly what the others did."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from takeback.errors import ConflictError
from tests.resources.postgres.world import Server, Shop, rows_of

Random = random.Random
ACTORS = ("human", "first", "second")
BASE = (
    "INSERT INTO customers (id, name) SELECT n, 'base ' || n FROM generate_series(1, 9) n",
    "INSERT INTO orders (id, customer, data) SELECT n, 1 + n % 9, '{}' FROM generate_series(1, 9) n",
    "INSERT INTO events SELECT n, date '2010-01-01' + 1000 * n, 'base' FROM generate_series(1, 9) n",
)


def _key(r: Random, mine: int) -> int:
    """One of the keys that are an actor's own: those of different actors never meet."""
    return 10 + mine + 3 * r.randrange(12)


def _text(r: Random) -> str:
    return "".join(r.choice("ab'\"\\,(){} é\n") for _ in range(r.randrange(6))).replace("'", "''")


def statement(r: Random, mine: int) -> str:
    """Something that an actor may do, to rows of its own."""
    k, other, text, n = _key(r, mine), _key(r, mine), _text(r), r.randrange(1, 10**6)
    day = f"{r.choice((2010, 2015, 2025, 2035))}-0{r.randrange(1, 9)}-1{r.randrange(9)}"
    own = f"id >= 10 AND id % 3 = {(10 + mine) % 3}"
    choices: list[str] = [
        f"""INSERT INTO customers (id, name, email) VALUES ({k}, '{text}', '{k}')
            ON CONFLICT (id) DO UPDATE SET name = 'up'""",
        f"UPDATE customers SET name = name || '{text}', mood = 'calm' WHERE {own} AND id > {other}",
        f"UPDATE customers SET id = {other} WHERE id = {k} AND NOT EXISTS (SELECT FROM customers WHERE id = {other})",
        f"DELETE FROM customers WHERE id = {k}",
        f"""INSERT INTO orders (id, customer, total, data, tags, blob, at, area) VALUES
            ({k}, {r.randrange(1, 10)}, {n}.50, '{{"n": {n}, "x": [1.0, null]}}', ARRAY['{text}', NULL],
            '\\x{n:08x}', to_timestamp({n}.25), ROW({n}, {n}.0))
            ON CONFLICT (id) DO NOTHING""",
        f"INSERT INTO orders (id, customer) SELECT {k}, id FROM customers WHERE {own} LIMIT 1 ON CONFLICT DO NOTHING",
        f"UPDATE orders SET data = data || '{{\"y\": {n}}}', tags = tags || 'z', ratio = {n} / 7.0 WHERE {own}",
        f"DELETE FROM orders WHERE {own} AND id < {other}",
        f"INSERT INTO lines SELECT id, {n % 5}, '{text}' FROM orders WHERE {own} ON CONFLICT DO NOTHING",
        f'UPDATE lines SET n = n + 10 WHERE "order" = {k}',
        f"INSERT INTO events VALUES ({k}, '{day}', '{text}') ON CONFLICT DO NOTHING",
        f"UPDATE events SET day = '{day}' WHERE id = {k}",
        f"UPDATE events_new SET what = '{text}' WHERE {own}",
        f"DELETE FROM events_old WHERE id = {k}",
        f"INSERT INTO notes VALUES ('{mine}', '{n % 2}')",
        f"UPDATE notes SET what = '2' WHERE who = '{mine}' AND what = '{n % 2}'",
        f"DELETE FROM notes WHERE who = '{mine}' AND what = '2'",
    ]
    return r.choice(choices)


def work(r: Random, turns: int, speak: Callable[[int, str, bool], None]) -> None:
    """Who does what, in turns; some of it is rolled back, some fails."""
    for _ in range(turns):
        actor = r.randrange(3)
        speak(actor, "; ".join(statement(r, actor) for _ in range(r.randrange(1, 4))), r.random() < 0.15)


def carry_out(db: psycopg.Connection[object], text: str, *, rolled_back: bool) -> None:
    try:
        with db.transaction(force_rollback=rolled_back):
            db.execute(text.encode())
    except (psycopg.IntegrityError, psycopg.DataError):
        pass  # a statement that the tables do not allow changes nothing, here as everywhere


def _at_work(shop: Shop, seed: int, turns: int) -> tuple[str, str]:
    (first, one), (second, two) = shop.begin(), shop.begin()
    with psycopg.connect(shop.dsn, autocommit=True) as human, one, two:
        links = (human, one, two)
        work(Random(seed), turns, lambda a, text, back: carry_out(links[a], text, rolled_back=back))
    shop.end(first)
    shop.end(second)
    return first, second


def _without(server: Server, seed: int, turns: int, left_out: set[int]) -> dict[str, list[str]]:
    """How it would be if some had never come: everybody else does the same in a database of its own."""
    dsn = server.make()
    with psycopg.connect(dsn, autocommit=True) as db:
        for text in BASE:
            db.execute(text.encode())
        work(
            Random(seed),
            turns,
            lambda a, text, back: None if a in left_out else carry_out(db, text, rolled_back=back),
        )
    return rows_of(dsn)


def check(server: Server, folder: Path, seed: int, turns: int) -> None:
    shop = Shop(server, folder)
    shop.human(*BASE)
    first, second = _at_work(shop, seed, turns)
    there = shop.rows()
    assert there == _without(server, seed, turns, set())
    shop.workspace.undo(second)
    assert shop.rows() == _without(server, seed, turns, {2})
    shop.workspace.redo()
    assert shop.rows() == there
    shop.workspace.undo(first)
    assert shop.rows() == _without(server, seed, turns, {1})
    shop.workspace.undo(second)
    assert shop.rows() == _without(server, seed, turns, {1, 2})
    shop.workspace.close()


@pytest.mark.parametrize("seed", range(2))
def test_undo_of_one_agent_leaves_exactly_what_the_others_did(
    server: Server, tmp_path: Path, seed: int
) -> None:
    check(server, tmp_path / "work", seed, 60)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 130))
def test_the_same_for_many_workloads(server: Server, tmp_path: Path, seed: int) -> None:
    check(server, tmp_path / "work", seed, 150)


def _checked(dsn: str) -> None:
    """Every reference holds, says the server itself."""
    with psycopg.connect(dsn) as db:
        found = db.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE contype = 'f' AND conparentid = 0"
        ).fetchall()
        for table, name, definition in found:
            db.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"'.encode())
            db.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}'.encode())
        db.rollback()


@pytest.mark.parametrize("seed", range(3))
def test_where_all_write_to_the_same_rows_nothing_is_lost(server: Server, tmp_path: Path, seed: int) -> None:
    shop = Shop(server, tmp_path / "work")
    shop.human(*BASE)
    r = Random(seed)
    id, agent = shop.begin()
    with agent, psycopg.connect(shop.dsn, autocommit=True) as human:
        for _ in range(150):
            carry_out((human, agent)[r.randrange(2)], statement(r, 0), rolled_back=False)
    shop.end(id)
    there = shop.rows()
    with pytest.raises(ConflictError):
        shop.workspace.undo(id)
    assert shop.rows() == there
    shop.workspace.undo(id, on_conflict="keep")
    _checked(shop.dsn)
    kept = shop.rows()
    assert kept != there
    shop.workspace.redo()
    assert shop.rows() == there
    shop.workspace.close()
