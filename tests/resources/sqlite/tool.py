"""A process that we do not control: it writes to databases with the SQLite that comes with Python."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

BUSY_S = 20.0


def tool(path: Path, script: str, *given: str) -> None:
    """Run some Python in another process, with a connection called `db` and the arguments `given`."""
    head = f"import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout={BUSY_S})\ngiven = sys.argv[2:]\n"
    code = f"{head}{script}\ndb.commit()\ndb.close()\n"
    subprocess.run([sys.executable, "-c", code, str(path), *given], check=True, timeout=120)


def sql(path: Path, script: str) -> None:
    """Run some SQL in another process."""
    tool(path, "db.executescript(given[0])", script)


def ask(path: Path, question: str) -> list[Any]:
    """What a database says, to a connection that was not there before."""
    db = sqlite3.connect(path, timeout=BUSY_S)
    try:
        return db.execute(question).fetchall()
    finally:
        db.close()


def picture(path: Path) -> dict[str, Any]:
    """Everything that is in a database, as an independent reader finds it; and that it is sound."""
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    schema = ask(path, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
    found: dict[str, Any] = {"schema": schema}
    for kind, name, _, text in schema:
        if kind == "table":
            rowid = "" if "WITHOUT ROWID" in (text or "") else "rowid, "
            found[name] = ask(path, f'SELECT {rowid}* FROM "{name}" ORDER BY 1, 2')
    found["settings"] = [
        ask(path, f"PRAGMA {name}") for name in ("user_version", "journal_mode", "page_size")
    ]
    return found


def fill(path: Path, mode: str) -> None:
    """A small shop, with one of everything that SQLite has."""
    sql(
        path,
        f"""
        PRAGMA journal_mode = {mode};
        CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, shout AS (upper(name)));
        CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer REFERENCES customers, amount REAL);
        CREATE TABLE stock (item TEXT PRIMARY KEY, count INT) WITHOUT ROWID;
        CREATE TABLE notes (text, more);
        CREATE INDEX by_customer ON orders (customer);
        CREATE VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
        CREATE TRIGGER counted AFTER INSERT ON orders BEGIN UPDATE stock SET count = count - 1; END;
        CREATE VIRTUAL TABLE search USING fts5(body);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
            INSERT INTO customers (name) SELECT 'customer ' || i FROM n;
        INSERT INTO stock VALUES ('apple', 1000), ('pear', 500);
        INSERT INTO orders (customer, amount) SELECT id, id * 1.5 FROM customers;
        INSERT INTO notes SELECT name, randomblob(40) FROM customers;
        INSERT INTO search SELECT name FROM customers;
        """,
    )


class Statements:
    """Random statements, DDL included. The same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._made = 0

    def some(self, count: int) -> list[str]:
        return [self._one() for _ in range(count)]

    def _one(self) -> str:
        pick, n = self._chance.choice, self._chance.randrange(1, 80)
        self._made += 1
        new = f"t{self._made}"
        old = f"t{self._chance.randrange(1, self._made + 1)}"
        kinds = [
            f"INSERT INTO customers (name) VALUES ('new {n}')",
            f"INSERT INTO orders (customer, amount) VALUES ({n}, {n}.25)",
            f"UPDATE customers SET name = name || '!' WHERE id % 7 = {n % 7}",
            f"UPDATE orders SET amount = amount + {n} WHERE id < {n}",
            f"DELETE FROM orders WHERE id = {n}",
            f"DELETE FROM notes WHERE rowid % 11 = {n % 11}",
            f"INSERT INTO notes VALUES (NULL, zeroblob({n * 97}))",
            f"INSERT OR REPLACE INTO stock VALUES ('item {n}', {n})",
            f"DELETE FROM stock WHERE count = {n}",
            f"INSERT INTO search VALUES ('words {n} more words')",
            f"DELETE FROM search WHERE rowid = {n}",
            f"CREATE TABLE {new} (a INTEGER PRIMARY KEY, b, c AS (a + 1) STORED)",
            f"CREATE TABLE {new} (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID",
            f"INSERT INTO {old} (a, b) VALUES ({n}, 'x')",
            f"ALTER TABLE {old} ADD COLUMN d{n} DEFAULT {n}",
            f"ALTER TABLE {old} RENAME TO {new}",
            f"DROP TABLE {old}",
            f"CREATE INDEX i{self._made} ON {pick(['orders (amount)', 'notes (text)', 'customers (name)'])}",
            f"DROP INDEX IF EXISTS i{n}",
            f"CREATE VIEW v{self._made} AS SELECT * FROM {pick(['orders', 'stock', old])}",
            f"CREATE TRIGGER g{self._made} AFTER DELETE ON notes BEGIN DELETE FROM stock WHERE count = {n}; END",
            f"CREATE VIRTUAL TABLE f{new} USING fts5(x)",
            "ANALYZE",
            "REINDEX",
            f"PRAGMA user_version = {n}",
        ]
        if self._made % 100 == 0:
            return "VACUUM"
        return pick(kinds)


RUN_STATEMENTS = """
import random, time
done = 0
for number, statement in enumerate(given):
    try:
        db.execute(statement)
        done += 1
    except sqlite3.Error as error:
        if "locked" in str(error) or "malformed" in str(error):
            raise
    if number % 7 == 0 or statement == "VACUUM":
        db.commit()
assert done > len(given) / 2, done
"""
