"""A framework's own store is left out; anything that may be a user's is not."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import takeback
from takeback.core.change import Target
from takeback.core.history import History
from takeback.errors import RollbackIncomplete, TakebackError
from takeback.resources.sqlite import framework_stores
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

from .tool import ask, picture, sql

# The statements of langgraph-checkpoint-sqlite 3.1.2 (SqliteSaver.setup), openai-agents 0.24.0 (SQLiteSession),
# google-adk 2.13.0 (SqliteSessionService) and crewai 1.15.30 (SQLiteFlowPersistence), without types.
LANGGRAPH = """
PRAGMA journal_mode=WAL;
CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE IF NOT EXISTS writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL,
    channel TEXT NOT NULL, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""
OPENAI = """
PRAGMA journal_mode=WAL;
CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id) ON DELETE CASCADE);
CREATE INDEX idx_agent_messages_session_id ON agent_messages (session_id, id);
"""
ADK = """
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL);
CREATE TABLE user_states (app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL,
    update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id));
CREATE TABLE sessions (app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
    create_time REAL NOT NULL, update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id, id));
CREATE TABLE events (id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
    invocation_id TEXT NOT NULL, timestamp REAL NOT NULL, event_data TEXT NOT NULL,
    PRIMARY KEY (app_name, user_id, session_id, id));
"""
CREWAI = """
PRAGMA journal_mode=WAL;
CREATE TABLE flow_states (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL, method_name TEXT NOT NULL,
    timestamp DATETIME NOT NULL, state_json TEXT NOT NULL);
CREATE TABLE pending_feedback (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL UNIQUE,
    context_json TEXT NOT NULL, state_json TEXT NOT NULL, created_at DATETIME NOT NULL);
"""
STORES = {"LangGraph": LANGGRAPH, "OpenAI Agents": OPENAI, "Google ADK": ADK, "CrewAI": CREWAI}
ROW = "INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint) VALUES ('t', {}, randomblob(900))"


def left_out(history: History) -> list[str]:
    return [store for mark in history.marks.values() for store in mark.left_out]


@takeback.action(effect="restorable")
def edit(path: str, text: str) -> None:
    Path(path).write_text(text)


def saver(path: Path) -> sqlite3.Connection:
    """LangGraph's connection to its store."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(LANGGRAPH)
    return db


@pytest.mark.parametrize("framework", STORES)
def test_a_known_store_is_left_out_and_said(
    tb: Workspace, root: Path, tmp_path: Path, framework: str
) -> None:
    path = root / "threads.db"
    sql(path, STORES[framework])
    tb.save()
    (said,) = left_out(tb.history)
    assert said.startswith("threads.db, ") and said.endswith(f" of {framework}")
    assert f"left out: {said}" in tb.history.marks["sqlite"].stated
    with open_workspace(root, home=tmp_path / "state", watching=False) as again:
        again.save()
        assert left_out(again.history) == [said]


def test_what_a_framework_writes_meanwhile_stays(tb: Workspace, root: Path) -> None:
    path = root / "threads.db"
    with closing(saver(path)) as db:
        looks = tb.parts.sqlite.looks
        with tb.run("agent", checkpoint="action") as run:
            for number in range(5):
                db.execute(ROW.format(number))
                run.call(edit, str(root / "notes.txt"), str(number))
            assert tb.parts.sqlite.looks == looks and tb.parts.sqlite.helpers == 1
        before = picture(path)
        report = tb.undo()
        assert report.verdict == "clean"
        assert [item.target.name for item in report.items] == ["notes.txt"]
        assert picture(path) == before and (root / "notes.txt").read_text() == "3"


def test_one_that_is_made_in_an_empty_file_is_not_touched(tb: Workspace, root: Path) -> None:
    """A framework opens its store before it makes its tables, so at first it is an empty file."""
    path = root / "threads.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("SELECT 1 FROM sqlite_schema").fetchall()
        assert path.stat().st_size == 0
        first = tb.save()
        with tb.recording("agent"):
            db.executescript(LANGGRAPH)
            db.execute(ROW.format(1))
            (root / "notes.txt").write_text("agent's")
        inode, before = path.stat().st_ino, picture(path)
        report = tb.undo()
        assert report.verdict == "clean"
        assert {item.target.name for item in report.items} == {".", "notes.txt"}
        assert tb.redo().verdict == "clean"
        assert tb.restore(first.id).verdict == "clean"
        assert (path.stat().st_ino, picture(path)) == (inode, before)
        db.execute(ROW.format(2))
    assert ask(path, "SELECT count(*) FROM checkpoints") == [(2,)]


def test_one_that_is_deleted_or_made_by_an_agent_is_left_to_it(tb: Workspace, root: Path) -> None:
    tb.save()
    with tb.recording("agent"):
        sql(root / "threads.db", ADK)
        (root / "notes.txt").write_text("agent's")
    assert tb.undo().verdict == "clean"
    assert (root / "threads.db").exists()


NOT_ONE = {
    "another table": f"{LANGGRAPH}; CREATE TABLE mine (a)",
    "another column": f"{LANGGRAPH}; ALTER TABLE writes ADD COLUMN mine",
    "a view": f"{LANGGRAPH}; CREATE VIEW mine AS SELECT 1",
    "a trigger": f"{LANGGRAPH}; CREATE TRIGGER mine AFTER INSERT ON writes BEGIN DELETE FROM writes; END",
    "a search index": f"{LANGGRAPH}; CREATE VIRTUAL TABLE mine USING fts5(a)",
    "a table less": "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id)",
    "other columns": "CREATE TABLE checkpoints (id, data); CREATE TABLE writes (id, data)",
    "nothing": "PRAGMA user_version = 1",
}


@pytest.mark.parametrize("what", NOT_ONE)
def test_anything_else_is_protected(tb: Workspace, root: Path, what: str) -> None:
    path = root / "app.db"
    sql(path, NOT_ONE[what])
    before = picture(path)
    tb.save()
    assert left_out(tb.history) == []
    with tb.recording("agent"):
        path.unlink()
    assert tb.undo().verdict == "clean"
    assert picture(path) == before


def test_a_table_of_the_users_in_a_store_protects_it_from_then_on(tb: Workspace, root: Path) -> None:
    path = root / "threads.db"
    with closing(saver(path)) as db:
        tb.save()
        assert left_out(tb.history)
        with tb.recording("agent"):
            db.execute("CREATE TABLE mine (a)")
        assert left_out(tb.history) == []
        db.execute("INSERT INTO mine VALUES (1)")
        tb.save()
        with tb.recording("agent"):
            db.execute("DELETE FROM mine")
        assert tb.undo().verdict == "clean"
        assert db.execute("SELECT a FROM mine").fetchall() == [(1,)]
        with tb.recording("agent"):
            db.execute("DROP TABLE mine")
        assert left_out(tb.history) == []
        assert tb.undo().verdict == "clean"
        assert db.execute("SELECT a FROM mine").fetchall() == [(1,)]


def disguise(path: Path) -> None:
    """Give a database the tables of a framework, as an agent could."""
    names = [name for (name,) in ask(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    sql(path, "; ".join(f"DROP TABLE {name}" for name in names) + LANGGRAPH.replace("PRAGMA", ";PRAGMA", 1))


@pytest.mark.parametrize("lost", ["nothing", "the cache", "the rows"])
def test_a_users_database_that_gets_the_tables_of_a_framework_is_put_back(
    root: Path, tmp_path: Path, lost: str
) -> None:
    path = root / "app.db"
    sql(path, "CREATE TABLE orders (a); INSERT INTO orders VALUES (1), (2)")
    before = picture(path)
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        tb.save()
        if lost == "the rows":
            tb.parts.generation.rise()
        with tb.recording("agent"):
            disguise(path)
            if lost == "the rows":
                tb.parts.generation.rise()
            if lost == "the cache":
                tb.parts.sqlite._rows.clear()
        assert left_out(tb.history) == []
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        assert tb.undo().verdict == "clean"
    assert picture(path) == before


def test_a_store_where_a_users_database_was_deleted_is_in_the_way(tb: Workspace, root: Path) -> None:
    path = root / "app.db"
    sql(path, "CREATE TABLE orders (a); INSERT INTO orders VALUES (1)")
    first, before = tb.save(), picture(path)
    with tb.recording("agent"):
        path.unlink()
    deletion = next(reversed(tb.history.actions))
    with tb.recording("agent"):
        sql(path, LANGGRAPH)
    assert left_out(tb.history)
    with pytest.raises(TakebackError, match=r"app\.db"):
        tb.restore(first.id)
    with pytest.raises(TakebackError, match=r"app\.db"):
        tb.undo(deletion)
    assert ask(path, "SELECT * FROM checkpoints") == []
    path.rename(root / "threads.db")
    assert tb.restore(first.id).verdict == "clean"
    assert picture(path) == before
    assert ask(root / "threads.db", "SELECT * FROM checkpoints") == []


def test_a_store_in_place_of_a_users_file_is_never_overwritten(tb: Workspace, root: Path) -> None:
    path = root / "notes.txt"
    path.write_text("a human's notes")
    tb.save()
    with tb.recording("agent"):
        path.unlink()
        sql(path, ADK)
    before = picture(path)
    with pytest.raises(RollbackIncomplete, match="conflict notes"):
        tb.undo()
    assert picture(path) == before
    path.rename(root / "store.db")
    assert tb.undo().verdict == "clean"
    assert path.read_text() == "a human's notes"


def test_it_is_protected_if_the_settings_say_so(root: Path, tmp_path: Path) -> None:
    path = root / "threads.db"
    sql(path, LANGGRAPH)
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        first = tb.save()
        assert left_out(tb.history)
    (root / "takeback.toml").write_text('[files]\nframework-stores = "protect"\n')
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        tb.save()
        assert left_out(tb.history) == []
        with tb.recording("agent"):
            sql(path, ROW.format(1))
        assert tb.undo().verdict == "clean"
        assert ask(path, "SELECT count(*) FROM checkpoints") == [(0,)]
        # It was not captured then, so going back there leaves it alone.
        sql(path, ROW.format(2))
        (root / "takeback.toml").unlink()
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        assert tb.restore(first.id).verdict == "clean"
        assert ask(path, "SELECT count(*) FROM checkpoints") == [(1,)]
        assert left_out(tb.history) == []  # what is captured stays captured


def test_one_that_a_run_writes_to_is_captured(tb: Workspace, root: Path) -> None:
    path = root / "threads.db"
    sql(path, LANGGRAPH)
    tb.save()
    assert left_out(tb.history)
    with tb.run("agent") as run, run.step("write"), run.database("threads.db") as db:
        db.execute(ROW.format(1))
    assert left_out(tb.history) == [] and tb.undo(run.id).verdict == "clean"
    assert ask(path, "SELECT count(*) FROM checkpoints") == [(0,)]


def test_its_version_says_nothing_about_its_content(tb: Workspace, root: Path) -> None:
    with closing(saver(root / "threads.db")) as db:
        tb.save()
        state = tb.history.marks["sqlite"].state
        db.execute(ROW.format(1))
        tb.save()
        assert tb.history.marks["sqlite"].state == state
        target = Target("sqlite", "threads.db")
        assert framework_stores.is_left_out(tb.parts.sqlite.seen([target])[target])
    os.unlink(root / "threads.db")
    tb.save()
    assert left_out(tb.history) == []
