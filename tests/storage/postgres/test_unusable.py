"""A store that cannot be used: each reason in clear words, no secret told, and the agent's work recoverable here."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import takeback
from takeback.cli.app import main
from takeback.core.lifecycle import Life
from takeback.errors import BackendError, RollbackIncomplete, TakebackError, UsageError
from takeback.storage.journal.postgres.connection import Address
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.testing import crash
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import Proxy
from tests.storage.postgres.world import STORE
from tests.world.settings import write

WAY = "TAKEBACK_TEST_WAY"
"""The address by which a process goes to the store; each may have its own way there."""


class Line:
    """The way to the store: it can be cut, and mended."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.dsn = proxy.dsn

    def cut(self) -> None:
        self._proxy.refuse = True
        self._proxy.cut()

    def mend(self) -> None:
        self._proxy.refuse = False


@pytest.fixture
def line(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    proxy = Proxy(os.environ[STORE])
    monkeypatch.setitem(PostgresJournal.__init__.__kwdefaults__ or {}, "patience_s", 0.1)
    yield Line(proxy)
    proxy.close()


@pytest.fixture
def root(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "kept").write_text("mine")
    write(made, f'[store]\nstore = "${WAY}"\nworkspace = "{tmp_path}"\n')
    monkeypatch.setenv(WAY, line.dsn)
    with takeback.open(made) as tb:
        tb.save("before")
    return made


def spoil(root: Path) -> None:
    (root / "kept").write_text("spoiled")
    (root / "new").write_text("x")


def is_spoiled(root: Path) -> bool:
    return (root / "kept").read_text() == "spoiled" and (root / "new").exists()


def is_clean(root: Path) -> bool:
    return (root / "kept").read_text() == "mine" and not (root / "new").exists()


# The server goes away


def test_at_the_beginning_nothing_is_started(root: Path, line: Line) -> None:
    line.cut()
    with pytest.raises(BackendError, match="cannot be reached") as caught:
        takeback.open(root)
    assert caught.value.retryable and "all files and content are here" in caught.value.hint


def way_of_its_own() -> Line:
    """In a child: a line that ends with it."""
    defaults = PostgresJournal.__init__.__kwdefaults__
    assert defaults
    defaults["patience_s"] = 0.1
    line = Line(Proxy(os.environ[STORE]))
    os.environ[WAY] = line.dsn
    return line


def command_that_is_cut_off(folder: str) -> None:
    line, root = way_of_its_own(), Path(folder)
    with takeback.open(root) as tb, tb.recording("agent"):
        spoil(root)
        line.cut()


def test_in_the_middle_of_a_command(root: Path) -> None:
    cut_off = crash.run("never", 1, [f"{__name__}:command_that_is_cut_off", root])
    assert cut_off.returncode == 1 and "cannot be reached" in cut_off.stderr
    assert is_spoiled(root), "what was done is here"
    with takeback.open(root) as tb:
        tb.recover()
        (action,) = [one for one in tb.history.actions.values() if one.is_tool]
        assert action.life is Life.SETTLED
        assert [change for change in action.changes if change.in_doubt] == [], "it lived until its end"
        assert tb.undo().verdict == "clean"
        assert is_clean(root)
        assert tb.verify(deep=True) == []


def takeback_run_that_is_cut_off(folder: str) -> None:
    """`takeback run`; its line is cut when the command has begun, and the command writes after that."""
    line, root = way_of_its_own(), Path(folder)
    os.chdir(root)

    def cut() -> None:
        while not (root.parent / "began").exists():
            time.sleep(0.01)
        line.cut()
        (root.parent / "cut").touch()

    threading.Thread(target=cut, daemon=True).start()
    script = (
        "touch ../began; until test -e ../cut; do sleep 0.01; done; printf spoiled > kept; touch new; exit 5"
    )
    main(["run", "--", "sh", "-c", script])


def test_in_the_middle_of_takeback_run(root: Path) -> None:
    cut_off = crash.run("never", 1, [f"{__name__}:takeback_run_that_is_cut_off", root])
    assert cut_off.returncode == 5, "a command that has run ends with its own code"
    assert "what a6 changed is not recorded yet: the database" in cut_off.stderr
    assert "Nothing was changed in it" in cut_off.stderr, "in the database"
    assert is_spoiled(root)
    with takeback.open(root) as tb:
        tb.recover()
        (action,) = [one for one in tb.history.actions.values() if one.is_tool]
        assert [change for change in action.changes if change.in_doubt] == [], "it lived until its end"
        assert action.why.startswith("no end of it was recorded; all ")
        assert tb.undo().verdict == "clean"
    assert is_clean(root)


@takeback.action(effect="restorable")
def work(path: str) -> None:
    with open(path, "a") as file:
        file.write("x")


def program(folder: str, cut_after: str = "") -> None:
    """It works on its files in two steps; between them its line may be cut."""
    line, root = way_of_its_own(), Path(folder)
    with takeback.open(root) as tb, tb.run("job", key="job") as run:
        for name in ("one", "two"):
            with run.step(name):
                run.call(work, str(root / name))
            if name == cut_after:
                line.cut()


def test_in_the_middle_of_a_run_and_it_goes_on_later(root: Path) -> None:
    cut_off = crash.run("never", 1, [f"{__name__}:program", root, "one"])
    assert cut_off.returncode == 1 and "cannot be reached" in cut_off.stderr
    assert (root / "one").exists() and not (root / "two").exists()
    done = crash.run("never", 1, [f"{__name__}:program", root])
    assert done.returncode == 0, done.stderr
    assert (root / "one").read_text() == "x", "what was recorded is not done again"
    with takeback.open(root) as tb:
        assert tb.undo(next(iter(tb.history.runs))).verdict == "clean"
    assert not (root / "one").exists() and not (root / "two").exists()


def program_that_lives_on(folder: str) -> None:
    """Its line is cut; later it goes on by itself, in the same process."""
    line, root = way_of_its_own(), Path(folder)
    with takeback.open(root) as tb:
        for attempt in (1, 2):
            try:
                with tb.run("job", key="job") as run:
                    for name in ("one", "two"):
                        with run.step(name):
                            run.call(work, str(root / name))
                            if attempt == 1 and name == "two":
                                line.cut()
            except BackendError:
                assert attempt == 1
                line.mend()
            else:
                assert attempt == 2


def test_in_the_middle_of_a_run_and_the_same_process_goes_on_later(root: Path) -> None:
    done = crash.run("never", 1, [f"{__name__}:program_that_lives_on", root])
    assert done.returncode == 0, done.stderr
    assert ((root / "one").read_text(), (root / "two").read_text()) == ("x", "x"), "nothing is done twice"
    with takeback.open(root) as tb:
        (run,) = tb.history.runs.values()
        assert run.life is Life.DONE
        assert tb.undo(run.id).verdict == "clean"


def test_at_an_undo(root: Path, line: Line) -> None:
    with takeback.open(root) as tb:
        with tb.recording("agent"):
            spoil(root)
        line.cut()
        with pytest.raises(BackendError, match=r"cannot be reached.*Nothing was"):
            tb.undo()
        assert is_spoiled(root), "nothing was taken back without a record of it"
        line.mend()
        assert tb.undo().verdict == "clean"
    assert is_clean(root)


def test_in_the_middle_of_an_undo(root: Path, line: Line) -> None:
    with takeback.open(root) as tb:
        with tb.recording("agent"):
            spoil(root)
        with crash.at("rollback-swapped", line.cut), pytest.raises((BackendError, RollbackIncomplete)):
            tb.undo()
    line.mend()
    with takeback.open(root) as tb:
        tb.recover()
        assert is_clean(root)
        assert any("finished the interrupted undo" in notice for notice in tb.notices)
        assert tb.verify(deep=True) == []


# The server says no


def role(dsn: str, name: str, *more: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as db:
        for statement in (f"CREATE ROLE {name} LOGIN", *more):
            db.execute(statement.encode())
    return dsn.replace("postgresql://postgres:", f"postgresql://{name}:")


@pytest.mark.parametrize("who", ["a role that may only read", "a database that may only be read"])
def test_who_may_only_read_reads(who: str, root: Path, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    with takeback.open(root) as tb, tb.recording("agent"):
        spoil(root)
    if who == "a role that may only read":
        role(
            os.environ[STORE],
            "only_reads",
            "GRANT USAGE ON SCHEMA takeback_store TO only_reads",
            "GRANT SELECT ON ALL TABLES IN SCHEMA takeback_store TO only_reads",
        )
        monkeypatch.setenv(WAY, line.dsn.replace("postgres:@", "only_reads:@"))
    else:
        monkeypatch.setenv(WAY, f"{line.dsn}?options=-c%20default_transaction_read_only%3Don")
    with takeback.open(root) as tb:
        assert [entry.id[0] for entry in tb.log()] == ["c", "a"]
        assert tb.diff().changes and tb.undo(preview=True).items
        assert tb.verify(deep=True) == [] and not tb.leases.live() and not tb.outbox.page()
        for write in (tb.save, tb.undo, tb.gc):
            with pytest.raises(BackendError, match=r"cannot be written to.*Nothing was recorded") as caught:
                write()
            assert "SELECT, INSERT, UPDATE and DELETE" in caught.value.hint
    assert is_spoiled(root)


def test_a_role_with_what_the_hint_names_does_everything(
    root: Path, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    role(
        os.environ[STORE],
        "worker",
        "GRANT USAGE ON SCHEMA takeback_store TO worker",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA takeback_store TO worker",
    )
    monkeypatch.setenv(WAY, line.dsn.replace("postgres:@", "worker:@"))
    with takeback.open(root) as tb:
        with tb.run("job") as run:
            run.lock("src")
            run.defer("command", ["true"])
        assert tb.courier().run(once=True).delivered == 1
        with tb.recording("agent"):
            spoil(root)
        assert tb.undo().verdict == "clean" and is_clean(root)


def test_a_role_with_too_few_connections_waits_and_is_told(
    server: Server, line: Line, tmp_path: Path
) -> None:
    dsn = role(os.environ[STORE], "crowded", "ALTER ROLE crowded CONNECTION LIMIT 1")
    with psycopg.connect(dsn), pytest.raises(BackendError, match="has no free connection") as caught:
        PostgresJournal(dsn, "x", tmp_path / "anchor")
    assert caught.value.retryable and "CONNECTION LIMIT" in caught.value.hint


def test_a_wrong_password(server: Server) -> None:
    dsn = server.make(schema="")
    name = dsn.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
        db.execute(f"GRANT CREATE ON DATABASE {name} TO guest".encode())
        row = db.execute("SHOW hba_file").fetchone()
        assert row
        rules = Path(row[0])
        before = rules.read_text()
        rules.write_text(f"local {name} guest scram-sha-256\n{before}")
        db.execute("SELECT pg_reload_conf()")
    try:
        given = dsn.replace("postgresql://postgres:", "postgresql://guest:{}")
        Address(given.format("right")).check()
        for wrong in ("hunter2", ""):
            with pytest.raises(BackendError, match="rejected this login") as caught:
                Address(given.format(wrong)).check()
            assert "hunter2" not in str(caught.value) and "password" in caught.value.hint
    finally:
        rules.write_text(before)


def test_a_wrong_name_does_not_look_like_a_history_that_is_gone(
    root: Path, line: Line, tmp_path: Path
) -> None:
    with takeback.open(root) as tb:
        assert tb.notices == []
    (tmp_path / "other").mkdir()
    with takeback.open(tmp_path / "other", store=line.dsn, workspace=f"{tmp_path} typo") as tb:
        assert any(f"a new history was begun in the store, as {tmp_path} typo" in one for one in tb.notices)


@pytest.mark.parametrize(
    "address, kind, said",
    [
        (
            "postgresql://me:hunter2@no.such.host.invalid/shop",
            BackendError,
            "cannot be found: failed to resolve",
        ),
        ("postgresql://me:hunter2@127.0.0.1:port/shop", UsageError, "not an address of a database"),
        ("postgresql://me:hunter2@127.0.0.1/shop?colour=red", UsageError, "not an address of a database"),
        ("postgresql//me:hunter2@127.0.0.1/shop", UsageError, "not the address of a store"),
    ],
)
def test_a_wrong_address(address: str, kind: type[TakebackError], said: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=said) as caught:
        takeback.open(tmp_path, store=address)
    assert "hunter2" not in str(caught.value)
