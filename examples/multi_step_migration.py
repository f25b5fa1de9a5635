"""A migration over files and a database: killed in the middle, continued by another process, then taken back.

    python examples/multi_step_migration.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. The files are in the workspace; the database is outside of it, so
each change to it is a call with an undo handler, and a check that looks into the database.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import takeback

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")


def database() -> sqlite3.Connection:
    return sqlite3.connect(os.environ["SHOP_DB"], isolation_level=None)


def columns() -> list[str]:
    with closing(database()) as db:
        return [row[1] for row in db.execute("PRAGMA table_info(customers)")]


def names() -> list[tuple[Any, ...]]:
    with closing(database()) as db:
        return list(db.execute("SELECT * FROM customers ORDER BY 1"))


# Two changes to the database, each with its undo and its check


def drop_column(call: takeback.Call) -> None:
    if call.args[0] in columns():
        with closing(database()) as db:
            db.execute(f"ALTER TABLE customers DROP COLUMN {call.args[0]}")


def has_column(call: takeback.Call) -> Any:
    return call.args[0] if call.args[0] in columns() else takeback.ABSENT


@takeback.action(undo=drop_column, check=has_column)
def add_column(name: str) -> str:
    with closing(database()) as db:
        db.execute(f"ALTER TABLE customers ADD COLUMN {name} TEXT")
    return name


def join_names(_call: takeback.Call) -> None:
    with closing(database()) as db:
        db.execute(
            "UPDATE customers SET name = name || ' ' || family, family = NULL WHERE family IS NOT NULL"
        )


def are_split(_call: takeback.Call) -> Any:
    if "family" not in columns():
        return takeback.ABSENT
    with closing(database()) as db:
        (count,) = db.execute("SELECT count(*) FROM customers WHERE family IS NOT NULL").fetchone()
    return count or takeback.ABSENT


@takeback.action(undo=join_names, check=are_split)
def split_names() -> int:
    with closing(database()) as db:
        done = db.execute(
            "UPDATE customers SET family = substr(name, instr(name, ' ') + 1),"
            " name = substr(name, 1, instr(name, ' ') - 1) WHERE family IS NULL"
        )
        if "--die" in sys.argv:
            print("  … the names are split, and the machine goes down", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return done.rowcount


def migrate(folder: Path) -> None:
    with takeback.open(".", home=folder / "state", watching=False) as tb:
        with tb.run("split names", key="split-names") as run:
            with run.step("schema") as step:
                print(f"  schema{' was already done' if step.done else ''}", flush=True)
                run.call(add_column, "family")
            with run.step("code"):
                Path("query.py").write_text("QUERY = 'SELECT name, family FROM customers'\n")
            with run.step("data"):
                print(f"  data: {run.call(split_names)} names split", flush=True)
        for note in tb.notices:
            print(f"  settled: {note}", flush=True)


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.chdir(work)
    os.environ["SHOP_DB"] = str(folder / "shop.db")
    Path("query.py").write_text("QUERY = 'SELECT name FROM customers'\n")
    with closing(database()) as db:
        db.execute("CREATE TABLE customers (name TEXT)")
        db.executemany("INSERT INTO customers VALUES (?)", [("Ada Lovelace",), ("Alan Turing",)])
    with takeback.open(".", home=folder / "state", watching=False) as tb:
        before = tb.save("before the migration")
    again = [sys.executable, os.path.realpath(__file__), str(folder), "--migrate"]
    print("The migration begins:", flush=True)
    subprocess.run([*again, "--die"])
    print("Another process continues it:", flush=True)
    subprocess.run(again, check=True)
    print(f"  the database: {names()}")
    print("Finally, the whole migration is taken back:")
    with takeback.open(".", home=folder / "state", watching=False) as tb:
        print(f"  {tb.undo(to=before)}")
    print(f"  the database: {names()}; query.py: {Path('query.py').read_text().strip()}")


if __name__ == "__main__":
    if "--migrate" in sys.argv:
        migrate(Path(sys.argv[1]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
