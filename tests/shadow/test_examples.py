"""The examples as shadows: whatever they would do, nothing is done."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import takeback
from tests.resources.postgres.world import Server
from tests.world.cli import REPOSITORY, Workspace, environment


def shadowed(name: str, folder: Path, *words: str) -> tuple[str, str]:
    """Run an example with TAKEBACK_SHADOW. Return what it says, and the reviews."""
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / f"examples/{name}.py"), *(words or [str(folder)])],
        cwd=folder,
        env=environment(folder / "unused") | {"TAKEBACK_SHADOW": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done
    return done.stdout, done.stderr


def test_the_report_is_neither_written_nor_sent(tmp_path: Path) -> None:
    said, reviews = shadowed("research_report_email", tmp_path)
    assert said.count("['notes.md']; sent: 0") == 3
    assert reviews.count("would call send_mail") == 3 and "CANNOT be taken back" in reviews
    assert "create report.md" in reviews
    assert os.listdir(tmp_path / "work") == ["notes.md"]


def test_no_release_is_announced(tmp_path: Path) -> None:
    _, reviews = shadowed("deferred_messages", tmp_path)
    assert reviews.count("would send command") == 3 and "can be taken back until it is sent" in reviews
    assert (tmp_path / "work/NOTES").read_text() == "1.0\n" and not (tmp_path / "channel").exists()


@pytest.mark.sweep
def test_replanning_happens_in_the_view(tmp_path: Path) -> None:
    said, reviews = shadowed("replanning", tmp_path)
    assert "'use max' passes" in said and "change top.py" in reviews
    assert "NotImplementedError" in (tmp_path / "work/top.py").read_text()


def test_the_migration_is_only_intended(tmp_path: Path) -> None:
    _, reviews = shadowed("multi_step_migration", tmp_path)
    assert "would call add_column" in reviews and "would call split_names" in reviews
    assert "change query.py" in reviews
    with sqlite3.connect(tmp_path / "shop.db") as db:
        assert list(db.execute("SELECT * FROM customers ORDER BY 1")) == [("Ada Lovelace",), ("Alan Turing",)]
    db.close()


@pytest.mark.sweep
def test_the_orders_stay(server: Server, tmp_path: Path) -> None:
    dsn = server.make("")
    said, reviews = shadowed("postgres_orders", tmp_path, dsn)
    assert "DELETE FROM customers" in reviews and "UPDATE orders SET total = round(total)" in reviews
    assert "after the agent  : Ann, Bob, Cid; orders 10: 9.50" in said
    with psycopg.connect(dsn) as db:
        found = db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert found == [(0,)]


LONG = [pytest.param(name, marks=pytest.mark.sweep) for name in ("git_history", "conversation")]


@pytest.mark.parametrize("name", ["sqlite_migration", *LONG])
def test_what_is_not_a_run_is_tried_as_a_whole(name: str, tmp_path: Path, way: str) -> None:
    tried(name, tmp_path, "here")


@pytest.mark.sweep
def test_the_demo_is_tried_as_a_whole(tmp_path: Path) -> None:
    tried("demo", tmp_path)


def tried(name: str, tmp_path: Path, *words: str) -> None:
    """Run an example in a view, and look at what is outside of it."""
    shop = Workspace.at(tmp_path)
    shop.human("mine.md", "mine\n")
    before = shop.look()
    example = str(REPOSITORY / f"examples/{name}.py")
    said = shop.run("try", "--keep", "--", sys.executable, example, *words)
    assert said.code == 0, said
    assert shop.changes_since(before) == []
    assert sorted(os.listdir(tmp_path)) == ["state", "work"]


def test_what_cannot_be_a_shadow_is_refused(tb: takeback.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_SHADOW", "1")
    with pytest.raises(takeback.UsageError, match="a thread cannot be a shadow"):
        tb.thread(key="k")
    with tb.run("report") as run:
        (run.root / "report.md").write_text("x")
    assert not (tb.root / "report.md").exists()
    with pytest.raises(takeback.UsageError, match="a promotion cannot be a shadow"):
        run.promote(approve=lambda _: True)
    assert tb.stages.names() == ["t1"]
    with pytest.raises(takeback.UsageError, match="a recorded block cannot be a shadow"), tb.recording("x"):
        raise AssertionError("not reached")
