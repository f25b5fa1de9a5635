"""No rights, no tables, a newer format, a full disk, damage, a busy writer, a fork: clear words and no loss."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken, RunBegan
from takeback.errors import BackendError, CorruptionError, FormatTooNew, TakebackError, UsageError
from takeback.storage.journal.postgres import errors, schema
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.testing import crash
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import STORE, opened


def append(journal: PostgresJournal, text: str = "x") -> int:
    return journal.append([CheckpointTaken(text)], stream=ids.WORKSPACE)[0].seq


def ask(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.encode())


def role(server: Server, dsn: str, name: str, *grants: str) -> str:
    """An address for a role that may only do this."""
    ask(dsn, f"DROP ROLE IF EXISTS {name}", f"CREATE ROLE {name} LOGIN", *grants)
    return dsn.replace("postgresql://postgres:", f"postgresql://{name}:")


# Opening


def test_a_role_without_rights_is_told_so(server: Server, tmp_path: Path) -> None:
    dsn = server.make(schema="")
    poor = role(server, dsn, "poor")
    with pytest.raises(BackendError, match="has no Takeback tables yet, and this role may not") as caught:
        opened(tmp_path, poor)
    assert not caught.value.retryable and "CREATE" in caught.value.hint


def test_a_role_that_may_only_read_reads(server: Server, tmp_path: Path) -> None:
    dsn = server.make(schema="")
    journal = opened(tmp_path, dsn)
    append(journal)
    reader = role(
        server,
        dsn,
        "reader",
        "GRANT USAGE ON SCHEMA takeback_store TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA takeback_store TO reader",
    )
    other = opened(tmp_path, reader)
    assert other.head().count == 1
    with pytest.raises(BackendError, match=r"cannot be written to.*Nothing was recorded"):
        append(other)
    (tmp_path / "new").mkdir()
    with pytest.raises(BackendError, match="cannot be written to"):
        opened(tmp_path / "new", reader)
    other.close()
    ask(dsn, "DROP OWNED BY reader")
    journal.close()


def test_a_database_that_may_only_be_read(server: Server, tmp_path: Path) -> None:
    dsn = server.make(schema="")
    opened(tmp_path, dsn).close()
    journal = opened(tmp_path, dsn + "&options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(BackendError, match="read-only"):
        append(journal)
    assert journal.head().count == 0
    journal.close()


def test_a_newer_format_is_left_alone(server: Server, tmp_path: Path) -> None:
    dsn = server.make(schema="")
    opened(tmp_path, dsn).close()
    ask(dsn, "UPDATE takeback_store.format SET version = 99")
    with pytest.raises(FormatTooNew, match="format 99"):
        opened(tmp_path, dsn)


def test_a_database_or_role_that_is_not_there(server: Server, tmp_path: Path) -> None:
    for address in (server.dsn("nowhere"), server.dsn("postgres", user="nobody")):
        with pytest.raises(BackendError, match="rejected this login") as caught:
            opened(tmp_path, address, patience_s=5)
        assert not caught.value.retryable


def test_text_of_one_language_is_refused(server: Server, tmp_path: Path) -> None:
    ask(
        server.dsn("postgres"),
        "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'",
    )
    with pytest.raises(BackendError, match="LATIN1"):
        opened(tmp_path, server.dsn("latin"))


def test_tables_are_made_once_by_many(server: Server, tmp_path: Path) -> None:
    dsn = server.make(schema="")
    place = f"{dsn} {tmp_path / 'journal.anchor'}"
    command = [sys.executable, "-m", "takeback.testing.crash", "never", "1", "--"]
    children = [
        subprocess.Popen(
            [*command, "tests.crash.journal_worker:open_and_close", place],
            env=crash.child_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        _, said = child.communicate(timeout=60)
        assert child.returncode == 0, said
    with psycopg.connect(dsn) as db:
        assert db.execute("SELECT version FROM takeback_store.format").fetchall() == [(schema.FORMAT,)]
        assert db.execute("SELECT count(*) FROM takeback_store.workspaces").fetchone() == (1,)


def test_as_many_formats_as_migrations() -> None:
    assert [number for number, _ in schema.scripts(after=0)] == list(range(1, schema.FORMAT + 1))


# Writing


def test_a_writer_that_holds_the_row_too_long(server: Server, tmp_path: Path) -> None:
    journal = opened(tmp_path, busy_s=0.1)
    append(journal)
    with psycopg.connect(os.environ[STORE]) as db:
        db.execute("SELECT 1 FROM takeback_store.workspaces WHERE name = %s FOR UPDATE", (str(tmp_path),))
        with pytest.raises(BackendError, match=r"is busy.*Nothing was recorded") as caught:
            append(journal)
        assert caught.value.retryable
    assert append(journal) == 2
    journal.close()


def test_a_full_disk_is_said() -> None:
    error = errors.explain(psycopg.errors.DiskFull("could not extend file"), "the database shop")
    assert isinstance(error, BackendError) and error.retryable
    assert "no space left" in error.message and "Nothing was recorded" in error.message


def test_an_append_that_the_server_refuses_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """As a full disk does: an error in the middle of the statement."""
    dsn = server.make(schema="")
    journal = opened(tmp_path, dsn)
    append(journal)
    ask(
        dsn,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$",
        "CREATE TRIGGER full_disk AFTER INSERT ON takeback_store.events EXECUTE FUNCTION full_disk()",
    )
    for _ in range(2):
        with pytest.raises(BackendError, match=r"no space left.*Nothing was recorded"):
            append(journal)
    ask(dsn, "DROP TRIGGER full_disk ON takeback_store.events")
    assert append(journal) == 2
    assert list(journal.check()) == []
    journal.close()


def test_tables_that_were_dropped_are_said(server: Server, tmp_path: Path) -> None:
    dsn = server.make(schema="")
    journal = opened(tmp_path, dsn)
    append(journal)
    ask(dsn, "DROP TABLE takeback_store.events CASCADE")
    with pytest.raises(CorruptionError, match=r"lacks one of Takeback's tables.*Nothing was recorded"):
        append(journal)
    journal.close()


def test_a_name_with_a_nul_is_refused(journal: PostgresJournal) -> None:
    for stream, key in (("a\0b", ""), (ids.WORKSPACE, "a\0b")):
        with pytest.raises(UsageError, match="NUL"):
            journal.append([CheckpointTaken()], stream=stream, key=key)
    assert journal.append([CheckpointTaken("a\0b")], stream=ids.WORKSPACE, key="ünïcödé ✓")


def test_a_closed_journal_says_so(journal: PostgresJournal) -> None:
    journal.close()
    for use in (lambda: append(journal), journal.head):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_a_signal_handler_that_appends_meanwhile_is_refused(journal: PostgresJournal) -> None:
    append(journal)
    caught: list[BaseException] = []

    def nested() -> None:
        try:
            append(journal, "nested")
        except TakebackError as error:
            caught.append(error)

    with crash.at("journal-inside", nested):
        append(journal, "outer")
    assert len(caught) == 1 and "this thread is already using the journal" in str(caught[0])
    assert journal.head().count == 2


def test_an_interrupt_is_for_one_thread_alone(journal: PostgresJournal) -> None:
    append(journal)
    inside, go_on = threading.Event(), threading.Event()

    def interrupted() -> None:
        inside.set()
        go_on.wait()
        raise KeyboardInterrupt

    def first() -> None:
        with crash.at("journal-inside", interrupted), pytest.raises(KeyboardInterrupt):
            append(journal, "interrupted")

    def second() -> None:
        append(journal, "waited")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    inside.wait()
    threads.append(threading.Thread(target=second))
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    said = [record.event.message for record in journal.read() if isinstance(record.event, CheckpointTaken)]
    assert said == ["x", "waited"]
    assert list(journal.check()) == []


def test_both_sides_of_a_fork_go_on(journal: PostgresJournal) -> None:
    append(journal)
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(5):
                append(journal, "child")
            journal.close()
        except BaseException:  # noqa: BLE001  the parent is told by the code
            os._exit(1)
        os._exit(0)
    for _ in range(5):
        append(journal, "parent")
    assert os.waitpid(pid, 0)[1] == 0
    assert journal.head().count == 11
    assert list(journal.check()) == []


# Sharing


def test_many_writers_share_a_commit(journal: PostgresJournal) -> None:
    """While one commit is under way the others queue up, and the next takes all of them."""
    append(journal)
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go_on.wait()

    with crash.at("journal-inside", hold) as passes:
        threads = [threading.Thread(target=append, args=(journal, f"{n}")) for n in range(20)]
        threads[0].start()
        inside.wait()
        for thread in threads[1:]:
            thread.start()
        while len(journal._line) < 19:
            pass
        go_on.set()
        for thread in threads:
            thread.join()
        assert passes["journal-inside"] == 2
    assert journal.head().count == 21
    assert list(journal.check()) == []


def test_workspaces_in_one_database_do_not_meet(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = opened(tmp_path / "a"), opened(tmp_path / "b")
    one.append([RunBegan("run")], stream="", key="k")
    assert two.find("k") == () and two.head().count == 0
    two.append([RunBegan("another run")], stream="", key="k")
    assert [record.event for record in one.read()] == [RunBegan("run")]
    assert [record.event for record in two.read()] == [RunBegan("another run")]
    for journal in (one, two):
        assert list(journal.check()) == []
        journal.close()


def test_a_waiting_reader_is_told_at_once(server: Server, tmp_path: Path) -> None:
    writer, reader = opened(tmp_path), opened(tmp_path)
    append(writer)
    assert reader.wait(0, 10)
    assert not reader.wait(1, 0.05)
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(reader.wait(1, 60)))
    thread.start()
    append(writer)
    thread.join(timeout=30)
    assert heard == [True]
    writer.close()
    reader.close()
