"""VACUUM gives other numbers to the rows of a table without a key: they are known by what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.errors import ConflictError
from takeback.resources.sqlite import rows
from takeback.workspace.workspace import Workspace

from .tool import ask, sql

HUMANS = "INSERT INTO t VALUES (1, 'x'), (2, 'gone'), (3, 'y'), (3, 'y'); DELETE FROM t WHERE a = 2"


@pytest.fixture
def app(root: Path, tb: Workspace) -> Path:
    sql(root / "app.db", f"CREATE TABLE t (a, b); {HUMANS}")
    tb.save()
    return root / "app.db"


def everything(path: Path) -> Counter[Any]:
    return Counter(ask(path, "SELECT * FROM t"))


def test_a_row_that_was_added(tb: Workspace, app: Path) -> None:
    before = everything(app)
    with tb.recording("agent"):
        sql(app, "INSERT INTO t VALUES (9, 'agent')")
    sql(app, "VACUUM")
    report = tb.undo()
    assert everything(app) == before
    assert [item.did for item in report.items if item.resource == "sqlite"] == ["merged"]
    assert tb.redo().verdict == "clean"
    assert everything(app) == before + Counter([(9, "agent")])


def test_a_row_that_was_added_and_is_like_one_of_a_human(tb: Workspace, app: Path) -> None:
    before = everything(app)
    with tb.recording("agent"):
        sql(app, "INSERT INTO t VALUES (3, 'y')")
    sql(app, "VACUUM; INSERT INTO t VALUES (4, 'human')")
    tb.undo()
    assert everything(app) == before + Counter([(4, "human")])


def test_rows_that_were_changed_and_removed(tb: Workspace, app: Path) -> None:
    before = everything(app)
    with tb.recording("agent"):
        sql(app, "UPDATE t SET b = 'agent' WHERE a = 1; DELETE FROM t WHERE rowid = 3")
    sql(app, "VACUUM")
    tb.undo()
    assert everything(app) == before


def test_a_row_that_both_changed(tb: Workspace, app: Path) -> None:
    with tb.recording("agent"):
        sql(app, "UPDATE t SET b = 'agent' WHERE a = 3")
    sql(app, "VACUUM; UPDATE t SET b = 'human' WHERE a = 3")
    now = everything(app)
    with pytest.raises(ConflictError, match="changed by both"):
        tb.undo()
    assert everything(app) == now


def test_a_row_of_the_agent_that_a_human_removed(tb: Workspace, app: Path) -> None:
    """One like it is a human's, and stays."""
    before = everything(app)
    with tb.recording("agent"):
        sql(app, "INSERT INTO t VALUES (3, 'y')")
    sql(app, "DELETE FROM t WHERE rowid = 5; VACUUM; INSERT INTO t VALUES (5, 'human')")
    tb.undo()
    assert everything(app) == before + Counter([(5, "human")])


def test_where_the_agent_made_a_table_as_well(tb: Workspace, app: Path) -> None:
    before = everything(app)
    with tb.recording("agent"):
        sql(app, "INSERT INTO t VALUES (9, 'agent'); CREATE TABLE more (a)")
    sql(app, "VACUUM; INSERT INTO t VALUES (4, 'human')")
    tb.undo()
    assert everything(app) == before + Counter([(4, "human")])


VALUES = st.tuples(st.sampled_from([1, 1.0, "1", None, b"1"]), st.sampled_from("xyz"))
OTHERS = st.tuples(st.sampled_from([1, 1.0, "1", None, b"1"]), st.sampled_from("uvw"))
TABLE = st.dictionaries(st.integers(1, 9), VALUES, max_size=7)


@settings(max_examples=200, deadline=None)
@given(
    base=TABLE,
    goal=TABLE,
    added=st.lists(OTHERS, max_size=3),
    left=st.sets(st.integers(1, 9)),
    vacuum=st.booleans(),
)
def test_what_others_did_stays_and_the_rest_goes(
    base: dict[int, Any], goal: dict[int, Any], added: list[Any], left: set[int], vacuum: bool
) -> None:
    """Whatever an agent did to such a table, and whatever others did to other rows of it since."""
    agents = {number for number, row in base.items() if _count([goal.get(number, ())]) != _count([row])}
    meant = _count(base[number] for number in agents)  # which of two alike somebody removed, nobody can tell
    mine = {n: row for n, row in base.items() if n in agents or n in left or _count([row]) & meant}
    db = apsw.Connection(":memory:")
    for name, found in ("main", mine), ("base", base), ("goal", goal):
        if name != "main":
            db.execute(f"ATTACH ':memory:' AS {name}")
        db.execute(f"CREATE TABLE {name}.t (a, b)")
        rowed = [(number, *row) for number, row in found.items()]
        db.executemany(f"INSERT INTO {name}.t (rowid, a, b) VALUES (?, ?, ?)", rowed)
    if vacuum:
        db.execute("VACUUM main")
    db.executemany("INSERT INTO main.t VALUES (?, ?)", added)
    rows.move(db, "base", "goal")
    wanted = _count(goal.values()) + _count(added)
    wanted -= _count(base[number] for number in base.keys() - mine.keys())
    assert _count(db.execute("SELECT a, b FROM main.t").fetchall()) == wanted


def _count(found: Iterable[Any]) -> Counter[Any]:
    """1 is not 1.0."""
    return Counter(tuple((type(value), value) for value in row) for row in found)
