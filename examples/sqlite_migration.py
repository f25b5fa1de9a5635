"""An agent's migration goes wrong while the shop is open: its changes are taken back, and no order is lost.

    python examples/sqlite_migration.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. The agent is a command that Takeback does not know; the shop is
another program that keeps writing to the same database. Then a run of our own writes to it, as one transaction.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import takeback

MIGRATION = """
import sqlite3
db = sqlite3.connect("shop.db")
db.execute("UPDATE orders SET price = price * 100")
db.execute("DELETE FROM orders WHERE item = 'apple'")
db.commit()
"""


def ask(question: str) -> list[Any]:
    with closing(sqlite3.connect("shop.db")) as db:
        return db.execute(question).fetchall()


def sell(item: str, price: int) -> None:
    with closing(sqlite3.connect("shop.db")) as db:
        db.execute("INSERT INTO orders (item, price) VALUES (?, ?)", (item, price))
        db.commit()


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.chdir(work)
    with closing(sqlite3.connect("shop.db")) as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price INT)")
        db.executemany("INSERT INTO orders (item, price) VALUES (?, ?)", [("apple", 3), ("pear", 4)])
        db.commit()

    with takeback.open(".", home=folder / "state", watching=False) as tb:
        with tb.recording("an agent's migration"):
            subprocess.run([sys.executable, "-c", MIGRATION], check=True)
        print(f"After the agent: {ask('SELECT item, price FROM orders')}")
        sell("plum", 5)
        print("In the meantime somebody bought a plum. Undo what the agent did:")
        print(f"  {tb.undo()}")
        print(f"  {ask('SELECT item, price FROM orders')}")

        print("A run of our own fails in its second step:")
        try:
            with tb.run("new prices") as run:
                with run.step("raise"), run.database("shop.db") as db:
                    db.execute("UPDATE orders SET price = price + 1")
                with run.step("add"), run.database("shop.db") as db:
                    db.execute("INSERT INTO orders (item, price) VALUES ('quince', 9)")
                    raise ValueError("there are no quinces")
        except ValueError as error:
            print(f"  {error}. {error.__notes__[0]}")
        print(f"  {ask('SELECT item, price FROM orders')}; {ask('PRAGMA integrity_check')[0][0]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
