"""PostgreSQL in a shadow: a transaction that is always aborted, or a copy; promoted, the statements are executed."""

from __future__ import annotations

import warnings
from typing import Any

import psycopg
import pytest

import takeback
from tests.resources.postgres.world import Server

SCHEMA = "CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (1, 'a%'), (2, 'b')"


def rows(dsn: str) -> list[Any]:
    with psycopg.connect(dsn) as db:
        return db.execute("SELECT id, x FROM t ORDER BY id").fetchall()


def work(run: takeback.Run, dsn: str) -> list[Any]:
    with run.step("rows"), run.database(dsn) as db:
        db.execute("INSERT INTO t VALUES (%s, %s)", (3, "c"))
        db.execute("UPDATE t SET x = 'z%' WHERE x LIKE 'a%'")
        seen: list[Any] = db.execute("SELECT count(*) FROM t").fetchall()
    return seen


@pytest.mark.parametrize("kind", ["abort", "copy", pytest.param("address", marks=pytest.mark.sweep)])
def test_nothing_is_committed_until_it_is_promoted(server: Server, tb: takeback.Workspace, kind: str) -> None:
    dsn = server.make(SCHEMA)
    other = server.make(SCHEMA) if kind == "address" else kind
    with tb.run("tidy", shadow=True, copies={dsn: other}) as run:
        assert work(run, dsn) == [(3,)]
    assert rows(dsn) == [(1, "a%"), (2, "b")]
    review = run.review
    assert review is not None
    assert [one.arguments["rows"] for one in review.intentions] == [1, 1]
    assert "INSERT INTO t" in str(review) and "password" not in str(review)
    with psycopg.connect(server.dsn("postgres")) as db:
        assert not db.execute("SELECT 1 FROM pg_database WHERE datname LIKE '%shadow%'").fetchall()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not guarded
        run.promote(approve=lambda _: True)
    assert rows(dsn) == [(1, "z%"), (2, "b"), (3, "c")]


def test_a_program_cannot_commit_in_a_shadow(server: Server, tb: takeback.Workspace) -> None:
    dsn = server.make(SCHEMA)

    def body(commit: Any) -> None:
        with tb.run("tidy", shadow=True) as run, run.database(dsn) as db:
            db.execute("DELETE FROM t")
            commit(db)

    for commit in (
        lambda db: db.commit(),
        lambda db: db.execute("  -- now\n COMMIT"),
        lambda db: db.execute("SELECT 1; COMMIT"),
        lambda db: db.execute("END"),
    ):
        with pytest.raises((takeback.RefusedError, psycopg.Error)):
            body(commit)
    assert len(rows(dsn)) == 2


def test_other_rows_than_shown_are_refused(server: Server, tb: takeback.Workspace) -> None:
    dsn = server.make(SCHEMA)
    with tb.run("tidy", shadow=True) as run, run.step("rows"), run.database(dsn) as db:
        db.execute("UPDATE t SET x = 'q'")
    with psycopg.connect(dsn) as db:
        db.execute("INSERT INTO t VALUES (9, 'mine')")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(takeback.ConflictError, match="affected 3 rows, and 2 in the shadow"):
            run.promote(approve=lambda _: True)
    assert rows(dsn) == [(1, "a%"), (2, "b"), (9, "mine")]
