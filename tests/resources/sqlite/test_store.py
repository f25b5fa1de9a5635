"""What databases cost in the store, and that it is let go of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world.settings import write

from .tool import ask, sql, tool

EVERY = bool(os.environ.get("TAKEBACK_TEST_ALL"))
SIZE_MB = 200 if EVERY else 20

GROW = """
db.execute("CREATE TABLE big (id INTEGER PRIMARY KEY, data)")
db.executemany("INSERT INTO big (data) VALUES (randomblob(?))", [(10_000,)] * (100 * int(given[0])))
"""


def test_one_changed_row_of_a_large_database_costs_little(tb: Workspace, root: Path) -> None:
    path = root / "app.db"
    tool(path, GROW, str(SIZE_MB))
    tb.save()
    before = tb.parts.store.size_bytes()
    assert before > SIZE_MB * 900_000
    with tb.recording("agent"):
        sql(path, "UPDATE big SET data = 'x' WHERE id = 500")
    # One page and those above it, in blocks of 64 KiB, and a list of each level.
    assert tb.parts.store.size_bytes() - before < 400_000
    assert tb.undo().verdict == "clean"
    assert ask(path, "SELECT length(data) FROM big WHERE id = 500") == [(10_000,)]


def test_old_states_are_let_go_of_and_the_present_stays(tmp_path: Path, root: Path) -> None:
    write(root, "[store]\nkeep-checkpoints = 1\n", tmp_path / "state")
    path = root / "app.db"
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        for number in range(4):
            tool(path, f"db.execute('CREATE TABLE t{number} AS SELECT randomblob(500000)')")
            tb.save()
        before = tb.parts.store.size_bytes()
        tb.gc()
        assert tb.parts.store.size_bytes() < before / 2
        assert tb.verify(deep=True) == []
        with tb.recording("agent"):
            path.unlink()
        assert tb.undo().verdict == "clean"
        assert len(ask(path, "SELECT name FROM sqlite_master")) == 4


def test_deep_verification_reads_the_database(tb: Workspace, root: Path) -> None:
    """A byte that was changed behind the back of all times is found."""
    path = root / "app.db"
    sql(path, "CREATE TABLE t (a); INSERT INTO t VALUES ('before')")
    tb.save()
    while tb.parts.tracker.observed["sqlite"]._rows[b"app.db"].racy:  # type: ignore[attr-defined]
        tb.save()
    data, found = path.read_bytes(), path.stat()
    path.write_bytes(data.replace(b"before", b"behind"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    rows = tb.parts.tracker.observed["sqlite"]._rows  # type: ignore[attr-defined]
    row = rows[b"app.db"]
    seen = tb.parts.tracker.observed["sqlite"]._seen(b"app.db")  # type: ignore[attr-defined]
    rows[b"app.db"] = type(row)(seen, row.version, False)
    (finding,) = tb.verify(deep=True)
    assert finding.place == "app.db"


@pytest.mark.parametrize("name", ["sp ace?.db", "ünï#code%41.db", "quo'te\".db"])
def test_strange_names(tb: Workspace, root: Path, name: str) -> None:
    path = root / name
    sql(path, "CREATE TABLE t (a)")
    tb.save()
    with tb.recording("agent"):
        sql(path, "DROP TABLE t")
    assert tb.undo().verdict == "clean"
    assert ask(path, "SELECT name FROM sqlite_master") == [("t",)]
