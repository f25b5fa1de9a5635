"""An agent tidies up a shop's database and goes too far, while a human works in it.

    python examples/postgres_orders.py ADDRESS

ADDRESS is an empty PostgreSQL database, like postgresql://localhost/scratch, with a role that may guard it.
Everything created there is removed at the end. Files and state are in a temporary folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import psycopg

import takeback
from takeback.errors import ConflictError
from takeback.resources.postgres import guard

SHOP = """
    CREATE TABLE customers (id int PRIMARY KEY, name text);
    CREATE TABLE orders (id int PRIMARY KEY, customer int REFERENCES customers ON DELETE CASCADE, total numeric);
    INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cid');
    INSERT INTO orders VALUES (10, 1, 9.50), (11, 2, 20.00), (12, 3, 7.25);
    """


def show(address: str, when: str) -> None:
    with psycopg.connect(address) as db:
        names = [name for (name,) in db.execute("SELECT name FROM customers ORDER BY id")]
        totals = [f"{id}: {total}" for id, total in db.execute("SELECT id, total FROM orders ORDER BY id")]
    print(f"{when}: {', '.join(names)}; orders {', '.join(totals)}")


def tidy_up(tb: takeback.Workspace, address: str) -> str:
    """Do the agent's work. Deleting a customer also deletes the customer's orders."""
    with tb.run("tidy up") as run:
        with run.step("customers"), run.database(address) as db:
            db.execute("DELETE FROM customers WHERE id = 3")
        with run.step("prices"), run.database(address) as db:
            db.execute("UPDATE orders SET total = round(total)")
    return run.id


def story(tb: takeback.Workspace, address: str) -> None:
    made = guard.install(address, ["public"])
    tb.postgres.add(made.id, address)
    show(address, "before           ")
    run = tidy_up(tb, address)
    show(address, "after the agent  ")
    with psycopg.connect(address) as db:
        db.execute("UPDATE orders SET total = 25 WHERE id = 11")
        db.execute("INSERT INTO orders VALUES (13, 1, 1.99)")
    show(address, "after the human  ")
    try:
        tb.undo(run)
    except ConflictError as conflict:
        print(f"undo             : {conflict.message}")
    print(f"undo, keep mine  : {tb.undo(run, on_conflict='keep')}")
    show(address, "after the undo   ")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    address = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="takeback-example-") as name:
        os.environ["TAKEBACK_HOME"] = str(Path(name) / "state")
        (Path(name) / "work").mkdir()
        with psycopg.connect(address) as db:
            db.execute(SHOP.encode())
        try:
            with takeback.open(Path(name) / "work") as tb:
                story(tb, address)
        finally:
            guard.remove(address)
            with psycopg.connect(address) as db:
                db.execute("DROP TABLE orders, customers")


if __name__ == "__main__":
    main()
