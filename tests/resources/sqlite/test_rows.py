"""Rows that somebody else changed stay; only what both changed is a conflict."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.errors import ConflictError
from takeback.resources.sqlite import writing
from takeback.workspace.workspace import Workspace

from .tool import ask, fill, picture, sql


@pytest.fixture
def app(root: Path) -> Path:
    path = root / "app.db"
    fill(path, "delete")
    return path


def agent(tb: Workspace, path: Path, script: str) -> None:
    with tb.recording("agent"):
        sql(path, script)


def conflict(tb: Workspace) -> str:
    with pytest.raises(ConflictError) as caught:
        tb.undo()
    (item,) = [item for item in caught.value.report.items if item.did == "conflict"]
    return str(item.why)


def test_a_humans_rows_stay(tb: Workspace, app: Path) -> None:
    agent(
        tb,
        app,
        "DELETE FROM orders WHERE id < 42; INSERT INTO notes VALUES ('agent', 1);"
        "UPDATE stock SET count = 0 WHERE item = 'pear'; INSERT INTO customers (name) VALUES ('agent')",
    )
    sql(
        app,
        "UPDATE orders SET amount = 7 WHERE id = 50; INSERT INTO notes VALUES ('human', 2);"
        "UPDATE stock SET count = 1 WHERE item = 'apple'; CREATE TABLE human (a)",
    )
    report = tb.undo()
    assert report.verdict == "clean"
    assert "41 rows of orders" in str(report)
    assert ask(app, "SELECT count(*), sum(amount = 7) FROM orders") == [(60, 1)]
    assert ask(app, "SELECT text FROM notes WHERE text IN ('agent', 'human')") == [("human",)]
    assert ask(app, "SELECT * FROM stock ORDER BY 1") == [("apple", 1), ("pear", 440)]
    assert ask(app, "SELECT count(*) FROM customers") == [(60,)]
    assert ask(app, "SELECT name FROM sqlite_master WHERE name = 'human'") == [("human",)]
    assert ask(app, "PRAGMA integrity_check") == [("ok",)]
    now = picture(app)
    assert tb.redo().verdict == "clean"
    assert ask(app, "SELECT count(*) FROM orders") == [(19,)]
    assert tb.undo().verdict == "clean"
    assert picture(app) == now


def test_tables_go_back_around_a_humans_rows(tb: Workspace, app: Path) -> None:
    agent(
        tb,
        app,
        "ALTER TABLE orders ADD COLUMN paid; UPDATE orders SET paid = 1, amount = 0;"
        "CREATE TABLE agent (a); DROP TRIGGER counted; PRAGMA user_version = 3",
    )
    sql(app, "INSERT INTO notes VALUES ('human', 2); UPDATE customers SET name = 'me' WHERE id = 1")
    assert tb.undo().verdict == "clean"
    found = picture(app)
    assert ask(app, "SELECT sum(amount) FROM orders") == [(2745.0,)]
    assert not [row for row in found["schema"] if row[1] == "agent"]
    assert ask(app, "SELECT more FROM notes WHERE text = 'human'") == [(2,)]
    assert ask(app, "SELECT name, shout FROM customers WHERE id = 1") == [("me", "ME")]
    assert ask(app, "PRAGMA user_version") == [(0,)]


def test_a_row_that_both_changed_is_named(tb: Workspace, app: Path) -> None:
    agent(tb, app, "UPDATE orders SET amount = 1 WHERE id < 20")
    sql(app, "UPDATE orders SET amount = 2 WHERE id IN (7, 9, 12)")
    now = picture(app)
    assert conflict(tb) == "3 rows of orders were changed by both: id 7, 9, 12"
    assert picture(app) == now
    assert tb.undo(on_conflict="keep").verdict == "clean"
    assert picture(app) == now


def test_overwrite_goes_back_all_the_way(tb: Workspace, app: Path) -> None:
    before = picture(app)
    agent(tb, app, "UPDATE orders SET amount = 1 WHERE id < 20")
    sql(app, "UPDATE orders SET amount = 2 WHERE id = 7")
    assert tb.undo(on_conflict="overwrite").verdict == "clean"
    assert picture(app) == before


def test_a_human_who_had_put_it_right_already_is_no_conflict(tb: Workspace, app: Path) -> None:
    agent(tb, app, "UPDATE orders SET amount = 0 WHERE id < 4; DELETE FROM stock WHERE item = 'pear'")
    sql(app, "UPDATE orders SET amount = id * 1.5 WHERE id = 2; INSERT INTO stock VALUES ('pear', 440)")
    assert tb.undo().verdict == "clean"
    assert ask(app, "SELECT amount FROM orders WHERE id < 4") == [(1.5,), (3.0,), (4.5,)]


def test_rows_that_refer_to_what_would_go_are_a_conflict(tb: Workspace, app: Path) -> None:
    agent(tb, app, "INSERT INTO customers (id, name) VALUES (900, 'agent')")
    sql(app, "INSERT INTO orders (customer, amount) VALUES (900, 1)")
    assert conflict(tb) == "1 row of orders refers to rows of customers that would not exist"


def test_a_unique_value_that_is_taken_is_a_conflict(tb: Workspace, app: Path) -> None:
    sql(app, "CREATE TABLE users (id INTEGER PRIMARY KEY, mail UNIQUE); INSERT INTO users VALUES (1, 'a')")
    agent(tb, app, "DELETE FROM users")
    sql(app, "INSERT INTO users VALUES (2, 'a')")
    assert "UNIQUE constraint failed" in conflict(tb)


@pytest.mark.parametrize("rule", ["replace", "ignore", "rollback", "fail"])
def test_a_table_that_would_replace_or_ignore_rows_does_neither(tb: Workspace, app: Path, rule: str) -> None:
    sql(
        app,
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT {rule}, who);"
        "INSERT INTO t VALUES (1, 'x', 'owner')",
    )
    agent(tb, app, "DELETE FROM t")
    sql(app, "INSERT INTO t VALUES (2, 'x', 'human')")
    assert "UNIQUE constraint failed" in conflict(tb)
    assert ask(app, "SELECT * FROM t") == [(2, "x", "human")]


@pytest.mark.parametrize("rule", ["replace", "ignore"])
def test_nor_where_others_go_on_writing(tmp_path: Path, rule: str) -> None:
    """Rows that are moved in the database itself, and not in a copy."""
    base, goal, live = (tmp_path / name for name in ("base", "goal", "live"))
    table = f"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT {rule}, who);"
    sql(base, table)
    sql(goal, f"{table} INSERT INTO t VALUES (1, 'x', 'owner')")
    sql(live, f"{table} INSERT INTO t VALUES (2, 'x', 'human')")
    assert "UNIQUE constraint failed" in writing.move(*map(os.fsencode, (live, base, goal)))
    assert ask(live, "SELECT * FROM t") == [(2, "x", "human")]


def test_tables_that_both_changed_are_named(tb: Workspace, app: Path) -> None:
    agent(tb, app, "CREATE TABLE agent (a)")
    sql(app, "CREATE TABLE human (a)")
    assert conflict(tb) == "both changed its tables: table agent and table human"


def test_rows_of_a_table_that_goes_are_a_conflict(tb: Workspace, app: Path) -> None:
    agent(tb, app, "CREATE TABLE agent (a)")
    sql(app, "INSERT INTO agent VALUES ('human')")
    assert conflict(tb) == "rows of agent were changed, and someone else changed the table itself"


def test_one_of_two_agents(tb: Workspace, app: Path) -> None:
    """Each taken back alone, in any order."""
    agent(tb, app, "UPDATE orders SET amount = 1 WHERE id = 1")
    first = tb.log()[-1].id
    agent(tb, app, "UPDATE orders SET amount = 2 WHERE id = 2")
    assert tb.undo(first).verdict == "clean"
    assert ask(app, "SELECT amount FROM orders WHERE id < 3") == [(1.5,), (2,)]
    assert tb.undo().verdict == "clean"
    assert ask(app, "SELECT amount FROM orders WHERE id < 3") == [(1.5,), (3.0,)]


def test_a_preview_says_which_rows(tb: Workspace, app: Path) -> None:
    agent(tb, app, "DELETE FROM orders WHERE id < 3; CREATE TABLE x (a); UPDATE customers SET name = 'x'")
    now = picture(app)
    report = tb.undo(preview=True)
    assert "app.db (60 rows of customers, 2 rows of orders, table x)" in str(report)
    assert picture(app) == now
    (change,) = [c for c in tb.diff().changes if c.before != c.after]
    assert tb.tell(change) == "app.db (60 rows of customers, 2 rows of orders, table x)"


def test_numbers_of_autoincrement_go_back_where_nobody_took_one(tb: Workspace, app: Path) -> None:
    sql(app, "CREATE TABLE list (id INTEGER PRIMARY KEY AUTOINCREMENT, a); INSERT INTO list (a) VALUES (0)")
    agent(tb, app, "INSERT INTO list (a) VALUES (1)")
    sql(app, "INSERT INTO notes VALUES (1, 2)")
    assert tb.undo().verdict == "clean"
    assert ask(app, "SELECT seq FROM sqlite_sequence WHERE name = 'list'") == [(1,)]
    agent(tb, app, "INSERT INTO list (a) VALUES (1)")
    sql(app, "INSERT INTO list (a) VALUES (2)")
    assert tb.undo().verdict == "clean"
    assert ask(app, "SELECT id FROM list") == [(1,), (3,)]
    assert ask(app, "SELECT seq FROM sqlite_sequence WHERE name = 'list'") == [(3,)]
