"""The file of conversations: private, complete, durable, and refused by an older program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import takeback
from takeback.errors import CorruptionError, FormatTooNew, RefusedError, UsageError
from takeback.storage.conversations.sqlite.store import FORMAT, SqliteConversations
from takeback.workspace.store.conversations import conversations_of
from takeback.workspace.store.move import move
from tests.resources.postgres.world import Server
from tests.storage.conversations.test_contract import put, texts_of

PUTTING = """
import sys
from pathlib import Path
from takeback.storage.conversations.sqlite.store import SqliteConversations
from tests.storage.conversations.test_contract import put
store = SqliteConversations(Path(sys.argv[1]))
for n in range(10_000):
    put(store, "t", f"{n:05}", "a", f"message {n}")
    print(n, flush=True)
"""


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    with subprocess.Popen(
        [sys.executable, "-c", PUTTING, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        seen = []
        for line in writer.stdout:
            seen.append(int(line))
            if len(seen) == 100:
                writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    store = SqliteConversations(path)
    for n in seen:
        assert texts_of(store, "t", f"{n:05}") == ["a", f"message {n}"]
    store.close()


def test_every_commit_is_synced(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "conversations.db")
    assert store._connection().pragma("synchronous") == 2
    assert store._connection().pragma("journal_mode") == "wal"
    store.close()


def test_the_file_is_private_and_in_the_state_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with takeback.open(tmp_path / "work") as tb:
        put(conversations_of(tb), "t", "1", "a message")
        path = tb.state / "conversations.db"
        for name in ("conversations.db", "conversations.db-wal", "conversations.db-shm"):
            assert (tb.state / name).stat().st_mode & 0o777 == 0o600
        assert tb.state.stat().st_mode & 0o777 == 0o700
        assert os.listdir(tmp_path / "work") == []
        sizes = tb.upkeep.sizes()
        assert sizes.conversations >= path.stat().st_size > 0
        assert sizes.total == sizes.content + sizes.journal + sizes.index + sizes.conversations


def test_no_file_is_created_for_those_who_need_none(tmp_path: Path) -> None:
    with takeback.open(tmp_path) as tb:
        tb.save("a checkpoint")
        assert not (tb.state / "conversations.db").exists()


def test_a_deleted_thread_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    store = SqliteConversations(path)
    for n in range(20):
        put(store, "t", f"{n:02}", *(f"a very private word {m}" for m in range(n)))
    store.delete("t")
    store.close()  # which also writes back and removes the log
    assert b"private word" not in path.read_bytes()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    SqliteConversations(path).close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", FORMAT + 1)
    db.close()
    before = path.read_bytes()
    with pytest.raises(FormatTooNew, match="Nothing was changed"):
        SqliteConversations(path)
    assert path.read_bytes() == before


def test_another_program_s_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    db = apsw.Connection(str(path))
    db.pragma("application_id", 7)
    db.close()
    path.chmod(0o600)
    with pytest.raises(CorruptionError, match="another program's"):
        SqliteConversations(path)


def test_a_forked_child_has_a_connection_of_its_own(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "conversations.db")
    put(store, "t", "1", "of the parent")
    child = os.fork()
    if not child:
        code = 1
        try:
            put(store, "t", "2", "of the child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(store, "t", "3", "of the parent again")
    assert [texts_of(store, "t", id) for id in "123"] == [
        ["of the parent"],
        ["of the child"],
        ["of the parent again"],
    ]
    store.close()


def test_a_workspace_with_conversations_is_not_moved(tmp_path: Path, server: Server) -> None:
    dsn = server.make("")
    with takeback.open(tmp_path) as tb:
        put(conversations_of(tb), "t", "1", "a message")
        with pytest.raises(RefusedError, match="keep 1 conversations"):
            move(tb, dsn)
        conversations_of(tb).delete("t")
        assert move(tb, dsn).done
    with takeback.open(tmp_path) as tb:
        put(conversations_of(tb), "t", "1", "on the server")
        with pytest.raises(RefusedError, match="Nothing was moved"):
            move(tb, "local")
        assert texts_of(conversations_of(tb), "t") == ["on the server"]


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteConversations(tmp_path / "conversations.db")
    store.close()
    with pytest.raises(UsageError, match="closed"):
        store.threads()
