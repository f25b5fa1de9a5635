"""A workspace whose history is in a shared store works as one whose history is here."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import takeback
from takeback.errors import BackendError, SeatLost, UsageError
from takeback.settings import environment
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.storage.state import location
from takeback.testing import crash
from takeback.workspace.opening import find_workspace
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import STORE
from tests.world.settings import write


@pytest.fixture
def root(server: Server, tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def dsn() -> str:
    return os.environ[STORE]


def state_of(root: Path) -> Path:
    with takeback.open(root) as tb:
        return tb.state


def test_a_run_is_taken_back(root: Path) -> None:
    (root / "kept").write_text("mine")
    with takeback.open(root, store=dsn()) as tb:
        assert isinstance(tb.journal, PostgresJournal)
        checkpoint = tb.save("before")
        with tb.recording("agent"):
            (root / "kept").write_text("spoiled")
            (root / "new").write_text("x")
        report = tb.undo()
        assert report.verdict == "clean"
        assert (root / "kept").read_text() == "mine" and not (root / "new").exists()
        tb.redo()
        assert (root / "new").exists()
        tb.restore(checkpoint.id)
        assert tb.verify(deep=True) == []
    # The next one knows where it is, without being told.
    with takeback.open(root) as tb:
        assert isinstance(tb.journal, PostgresJournal)
        assert checkpoint.id in tb.history.checkpoints
    assert not (tb.state / "journal.db").exists()


def test_commands_find_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_STORE", dsn())
    write(root, '[store]\nstore = "$SHOP_STORE"\nworkspace = "shop"\n')

    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "takeback", *words],
            cwd=root,
            env=crash.child_environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command("save", "first")
    command("run", "--", "sh", "-c", "echo x > made")
    assert "made" in command("log")
    command("undo")
    assert not (root / "made").exists()
    command("verify")
    kept = location.read(state_of(root))
    assert kept and (kept.store, kept.workspace) == ("$SHOP_STORE", "shop")


def test_where_it_is_is_kept_private(root: Path) -> None:
    with takeback.open(root, store=dsn()) as tb:
        path = tb.state / location.FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert dsn() not in repr(location.read(tb.state))


def test_settings_do_not_lead_a_history_astray(root: Path) -> None:
    takeback.open(root).close()
    write(root, '[store]\nstore = "postgresql://127.0.0.1:1/nowhere"\n')
    with takeback.open(root) as tb:
        assert not isinstance(tb.journal, PostgresJournal)
        assert tb.settings.store.store
        assert any("stays where it was begun" in notice for notice in tb.notices)
    with pytest.raises(UsageError, match="kept on this machine"):
        takeback.open(root, store=dsn())


def test_a_workspace_stays_in_its_store(root: Path) -> None:
    takeback.open(root, store=dsn(), workspace="one").close()
    with pytest.raises(UsageError, match="history of this workspace is kept on postgresql"):
        takeback.open(root, store="postgresql://127.0.0.1:1/other")
    with pytest.raises(UsageError, match="in its store is one, not two"):
        takeback.open(root, workspace="two")
    # The way there may change.
    with takeback.open(root, store=dsn() + "&application_name=agent") as tb:
        kept = location.read(tb.state)
    assert kept and "agent" in kept.store and kept.workspace == "one"
    with find_workspace(root) or pytest.fail("lost") as tb:
        assert isinstance(tb.journal, PostgresJournal)


@pytest.mark.parametrize(
    "address, said",
    [
        ("postgresql://127.0.0.1:1/nowhere?password=hunter2", "cannot be reached"),
        ("postgresql://me:hunter2@127.0.0.1:1/nowhere", "cannot be reached"),
        ("https://me:hunter2@example.org", "not the address of a store"),
        ("postgresql://me:hunter2@[::1", "not an address"),
    ],
)
def test_a_wrong_address_begins_nothing(address: str, said: str, root: Path) -> None:
    with pytest.raises((UsageError, BackendError), match=said) as caught:
        takeback.open(root, store=address)
    assert "hunter2" not in str(caught.value)
    # Nothing holds it there: it can be begun elsewhere.
    with takeback.open(root, store=dsn()) as tb:
        assert isinstance(tb.journal, PostgresJournal)


def test_a_variable_that_is_not_set_is_named(root: Path) -> None:
    write(root, '[store]\nstore = "postgresql://me:${SHOP_PASSWORD}@127.0.0.1/shop"\n')
    with pytest.raises(UsageError, match="needs the variable SHOP_PASSWORD"):
        takeback.open(root)


def test_variables_are_written_as_parts_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "a/b@c:d")
    monkeypatch.setenv("ALL", "postgresql://me:x%2Fy@host/db")
    assert environment.expanded("postgresql://me:$SECRET@host/db") == "postgresql://me:a%2Fb%40c%3Ad@host/db"
    assert (
        environment.expanded("postgresql://me:${SECRET}@host/db") == "postgresql://me:a%2Fb%40c%3Ad@host/db"
    )
    assert environment.expanded("$ALL") == "postgresql://me:x%2Fy@host/db"
    assert environment.expanded("postgresql://me:cash$$@host/db") == "postgresql://me:cash$@host/db"


def test_two_machines_see_one_history_and_one_of_them_writes_it(server: Server, tmp_path: Path) -> None:
    """Two state folders stand for two machines."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "file").write_text("x")
    with (
        takeback.open(tmp_path / "a", home=tmp_path / "home-a", store=dsn(), workspace="both") as one,
        takeback.open(tmp_path / "b", home=tmp_path / "home-b", store=dsn(), workspace="both") as two,
    ):
        one.save("from one")
        with pytest.raises(SeatLost, match=r"has been in .*/a since"):
            two.save("from two")
        with pytest.raises(SeatLost), two.run("agent"):
            pytest.fail("it began")
        assert [r.event for r in one.journal.read()] == [r.event for r in two.journal.read()]
        assert list(one.journal.check()) == list(two.journal.check()) == []
        assert (
            two.log() and two.history.moves.seat and two.history.moves.seat.place.root == str(tmp_path / "a")
        )
        # Whoever is told of events, from whichever machine, knows them again.
        assert location.source_of(one.state) == location.source_of(two.state) == "urn:takeback:both"
