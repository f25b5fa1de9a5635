"""What change capture costs a PostgreSQL server, against the same work without it; and what an undo costs.

    python benchmarks/postgres.py [--quick]

Both kinds of work alternate in small rounds in one run, so that only ratios count. The tests' server is used.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from benchmarks.runs import line
from tests.resources.postgres.world import Server, Shop

CAPTURE_MAX = 2.5
UNDO_MAX = 1.0
SCHEMA = """
    CREATE TABLE customers (id int PRIMARY KEY, name text, email text UNIQUE);
    CREATE TABLE orders (
        id int PRIMARY KEY, customer int REFERENCES customers, total numeric, data jsonb, tags text[], at timestamptz
    );
    CREATE INDEX ON orders (customer);
    INSERT INTO customers SELECT n, 'name ' || n, n || '@example.org' FROM generate_series(1, 1000) n;
    INSERT INTO orders
        SELECT n, 1 + n % 1000, n, '{"state": "new"}', '{a,b}', now() FROM generate_series(1, 100000) n;
    """

SINGLE, TOGETHER, BULK = "a row each", "a row each, one commit", "thousands of rows"

Link = psycopg.Connection[Any]


def single(r: random.Random, start: int, count: int) -> Iterator[str]:
    """Yield statements of an agent: one row each, a commit each."""
    for n in range(start, start + count):
        new, old = 200_000 + n, r.randrange(1, 100_000)
        yield f"INSERT INTO orders VALUES ({new}, {r.randrange(1, 1000)}, 1.5, '{{\"n\": {n}}}', '{{x}}', now())"
        yield f"UPDATE orders SET total = total + 1, data = data || '{{\"s\": {n}}}' WHERE id = {old}"
        yield f"UPDATE customers SET name = name || '!' WHERE id = {r.randrange(1, 1000)}"
        yield f"DELETE FROM orders WHERE id = {new}"


def bulk(r: random.Random, start: int) -> Iterator[str]:
    """Yield statements over thousands of rows."""
    low = r.randrange(1, 90_000)
    first = 1_000_000 + 10_000 * start
    yield f"UPDATE orders SET total = total * 2 WHERE id BETWEEN {low} AND {low + 5_000}"
    yield f"INSERT INTO orders SELECT n, 1, n, '{{}}', '{{}}', now() FROM generate_series({first}, {first + 4_999}) n"
    yield f"DELETE FROM orders WHERE id BETWEEN {first} AND {first + 4_999}"


def spent(db: Link, statements: list[str]) -> float:
    began = time.perf_counter()
    for statement in statements:
        db.execute(statement.encode())
    return time.perf_counter() - began


def capture(plain: Link, guarded: Link, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the seconds with and without capture, for each kind of work."""
    found = dict.fromkeys((SINGLE, TOGETHER, BULK), (0.0, 0.0))
    r = random.Random(1)
    for n in range(rounds):
        for kind, (with_it, without) in list(found.items()):
            work = list(bulk(r, n) if kind is BULK else single(r, 50 * n, 50))
            work = ["BEGIN", *work, "COMMIT"] if kind is TOGETHER else work
            pair = (guarded, plain) if n % 2 else (plain, guarded)
            took = {id(db): spent(db, work) for db in pair}
            found[kind] = (with_it + took[id(guarded)], without + took[id(plain)])
    return found


def undo(shop: Shop, rows: int) -> tuple[float, float]:
    """Return the seconds of an undo, and of the same statements row by row."""
    number, db = shop.begin()
    with db, db.transaction():
        began = time.perf_counter()
        for n in range(1, rows + 1):
            db.execute('UPDATE orders SET total = total + 1, data = \'{"state": "x"}\' WHERE id = %s', [n])
        theirs = time.perf_counter() - began
    shop.end(number)
    began = time.perf_counter()
    shop.workspace.undo(number)
    return time.perf_counter() - began, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description="measure capture and undo against bare PostgreSQL")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    part = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
        os.environ["TAKEBACK_HOME"] = str(Path(name) / "state")
        server = Server(durable=True)
        try:
            measure(server, Path(name), part)
        finally:
            server.stop()


def measure(server: Server, folder: Path, part: int) -> None:
    shop = Shop(server, folder / "work", SCHEMA)
    number, guarded = shop.begin()
    with guarded, psycopg.connect(server.make(SCHEMA), autocommit=True) as plain:
        found = capture(plain, guarded, max(40 // part, 2))
    shop.end(number)
    ours, theirs = (sum(pair[i] for pair in found.values()) for i in (0, 1))
    for kind, (with_it, without) in [*found.items(), ("altogether", (ours, theirs))]:
        ratio = with_it / without
        figures = f"{with_it:.2f} s / {without:.2f} s = {ratio:.2f}"
        line(f"guarded / unguarded, {kind}", figures, f"≤ {CAPTURE_MAX}", met=ratio <= CAPTURE_MAX)
    ours, theirs = undo(shop, 20_000 // part)
    ratio = ours / theirs
    figures = f"{ours:.2f} s / {theirs:.2f} s = {ratio:.2f}"
    line(f"undo of {20_000 // part:,} rows / row by row", figures, f"≤ {UNDO_MAX}", met=ratio <= UNDO_MAX)
    shop.workspace.close()


if __name__ == "__main__":
    main()
