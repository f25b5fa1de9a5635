"""A workspace goes from this machine to a shared store and back: all of it, proved, and never in two places."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import takeback
from takeback.core.events import CheckpointTaken, RunBegan
from takeback.errors import BackendError, ConflictError, CorruptionError, RefusedError, RunBusy, StoreMoved
from takeback.ports.journal import Journal
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.storage.state import location
from takeback.testing import crash
from takeback.workspace.store import journal as store_journal
from takeback.workspace.store import move
from takeback.workspace.store.copy import PIECE_ROWS, Copied
from tests.house.repository import ROOT
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import SERVER, Proxy
from tests.storage.postgres.world import STORE

POINTS = [
    move.SHARED,
    move.TARGET_SHUT,
    "store-adopting",
    move.CARRIED,
    move.LEAVING,
    move.SOURCE_SHUT,
    move.PROVED,
    move.SWITCHED,
    store_journal.SETTLED,
]
SAMPLE = range(0, 6000, 60 if os.environ.get("TAKEBACK_TEST_ALL") else 2500)
DONE = (move.SWITCHED, store_journal.SETTLED)


@pytest.fixture
def root(server: Server, tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "kept").write_text("mine")
    return made


def begin(root: Path) -> None:
    """A history with files, runs, keys, intents and locks."""
    with takeback.open(root) as tb:
        tb.save("before")
        with tb.run("mail", key="once") as run:
            run.lock("somewhere")
            run.memory["goal"] = "post"
            for n in range(3):
                run.defer("command", ["true"], key=f"first {n}")
            run.defer("command", ["no such program"], key="never")
        tb.courier().run(once=True)
        with tb.run("more mail") as run:
            run.defer("command", ["true"], key="later")
        with tb.recording("agent"):
            (root / "kept").write_text("spoiled")


def go(root: Path, to: str = f"${STORE}", **more: str) -> move.Move:
    with takeback.open(root) as tb:
        return move.move(tb, to, more.get("name", root.parent.name), preview=bool(more.get("preview")))


def back(root: Path) -> move.Move:
    with takeback.open(root) as tb:
        return move.move(tb, move.LOCAL)


def go_in_a_child(root: str, to: str) -> None:
    with takeback.open(root) as tb:
        move.move(tb, to, Path(root).parent.name if to != move.LOCAL else "")


def is_shared(root: Path) -> bool:
    with takeback.open(root) as tb:
        return isinstance(tb.journal, PostgresJournal)


def undo_all(root: Path) -> None:
    """What is recorded can be taken back, and all is as it was written."""
    with takeback.open(root) as tb:
        assert tb.undo().verdict == "clean"
        assert (root / "kept").read_text() == "mine"
        assert tb.redo().verdict == "clean"
        assert tb.verify(deep=True) == []


# There and back


def test_there_and_back(root: Path) -> None:
    begin(root)
    with takeback.open(root) as tb:
        before, events, intents = list(tb.journal.moving.rows()), tb.journal.head().count, tb.outbox.page()
    done = go(root)
    assert sorted(one.state for one in intents) == ["dead", *["delivered"] * 3, "due"]
    assert done.copied == Copied(events, 4, len(intents))
    with takeback.open(root) as tb:
        assert isinstance(tb.journal, PostgresJournal)
        assert list(tb.journal.moving.rows())[:events] == before
        assert tb.journal.head().count == events + 1, "that it sits here"
        assert [one.result for one in tb.outbox.page()] == [one.result for one in intents]
    undo_all(root)
    back(root)
    assert not is_shared(root) and location.read(state_of(root)) is None
    undo_all(root)
    # What is there by now is an older copy, and is gone on with.
    go(root)
    undo_all(root)
    assert is_shared(root)


def test_a_long_history_goes_in_pieces(root: Path) -> None:
    """So that the memory does not grow with it."""
    begin(root)
    with takeback.open(root) as tb:
        tb.journal.append([CheckpointTaken(f"{n}") for n in range(1200)], stream="w")
        events = tb.journal.head().count
    with crash.at("never", lambda: None) as passes:
        go(root)
    assert passes["store-adopting"] == events // PIECE_ROWS + 1 + 2, "pieces; claims, and numbers of locks"
    with takeback.open(root) as tb:
        assert tb.verify() == []


def test_from_one_server_to_another(root: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", server.make(schema=""))
    begin(root)
    go(root)
    go(root, "$OTHER", name="elsewhere")
    undo_all(root)
    kept = location.read(state_of(root))
    assert kept and (kept.store, kept.workspace, kept.moving) == ("$OTHER", "elsewhere", False)


def test_who_has_had_it_open_is_told_where_it_went(root: Path) -> None:
    begin(root)
    with takeback.open(root) as old:
        assert old.history.checkpoints
        go(root)
        count = old.journal.head().count
        with pytest.raises(
            StoreMoved, match=r"was moved to the database shop\d+, as .*; nothing was recorded"
        ):
            old.save("late")
        assert old.journal.head().count == count
    with takeback.open(root) as shared:
        back(root)
        with pytest.raises(StoreMoved, match=f"was moved to {socket.gethostname()}:"):
            shared.save("late")
    assert not is_shared(root)


def test_a_machine_that_stayed_behind_follows(
    root: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", server.make(schema=""))
    begin(root)
    go(root)
    home, there = tmp_path / "home-b", tmp_path / "b"
    there.mkdir()
    takeback.open(there, home=home, store=os.environ[STORE], workspace=tmp_path.name).close()
    go(root, "$OTHER")
    with takeback.open(there, home=home) as tb:
        with pytest.raises(StoreMoved):
            tb.journal.append([CheckpointTaken()], stream="w")
        with pytest.raises(ConflictError, match="does not have all of it; nothing was changed"):
            move.move(tb, f"${STORE}", "another name")
        assert move.move(tb, "$OTHER", tmp_path.name).done
    with takeback.open(there, home=home) as tb:
        assert list(tb.journal.check()) == []
        assert tb.journal.moving.notice() == ""


def test_what_stays_in_a_database_is_removed_as_the_document_says(root: Path, tmp_path: Path) -> None:
    begin(root)
    go(root)
    back(root)
    text = (ROOT / "docs/STORE.md").read_text().partition("```sql\n")[2].partition("```")[0]
    with psycopg.connect(os.environ[STORE], autocommit=True) as db:
        db.execute(text.replace("billing", tmp_path.name).encode())
        found = db.execute("SELECT 1 FROM takeback_store.workspaces WHERE name = %s", (tmp_path.name,))
        assert found.fetchall() == []
    go(root)
    undo_all(root)


def test_a_preview_changes_nothing(root: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", dsn := server.make(schema=""))
    begin(root)
    told = go(root, "$OTHER", preview="yes")
    assert not told.done and told.copied.events == head(root)
    with psycopg.connect(dsn) as db:
        assert db.execute("SELECT to_regclass('takeback_store.workspaces')").fetchone() == (None,)
    assert not is_shared(root)


# Refused


def test_while_a_run_is_at_work(root: Path) -> None:
    begin(root)
    with takeback.open(root) as tb, tb.run("busy") as run, run.step("one"):
        code = "import takeback; from takeback.workspace.store.move import move; "
        code += f"move(takeback.open({str(root)!r}), '${STORE}')"
        said = subprocess.run(
            ["setsid", sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=crash.child_environment(),
        )
        assert "is at work; nothing was moved" in said.stderr or "this runs inside" in said.stderr
        with takeback.open(root) as other, pytest.raises(RefusedError, match="this runs inside"):
            move.move(other, f"${STORE}")
    assert not is_shared(root)


def test_while_a_worker_delivers(root: Path) -> None:
    begin(root)
    with takeback.open(root) as tb:
        tb.outbox.claim("a worker elsewhere", 1, 600)
        with pytest.raises(RunBusy, match="delivering"):
            move.move(tb, f"${STORE}")
        tb.outbox.free("a worker elsewhere")
        assert tb.journal.moving.notice() == ""
    go(root)


def test_where_another_history_is(root: Path, tmp_path: Path) -> None:
    begin(root)
    anchor = tmp_path / "other.anchor"
    other = PostgresJournal(os.environ[STORE], tmp_path.name, anchor)
    other.append([RunBegan("mine")], stream="")
    with pytest.raises(ConflictError, match="has a history that is in use"):
        go(root)
    assert other.append([CheckpointTaken()], stream="w"), "whoever works there is not in the way of it"
    other.moving.shut("was moved away")
    with pytest.raises(ConflictError, match="the target has another history: event 1 differs"):
        go(root)
    assert (other.head().count, other.moving.notice()) == (2, "was moved away")
    assert not is_shared(root)
    other.close()


def test_what_is_there_goes_on_after_the_end_of_this_one(root: Path, tmp_path: Path) -> None:
    begin(root)
    state = state_of(root)
    saved = {path.name: path.read_bytes() for path in state.glob("journal.*")}
    go(root)
    with takeback.open(root) as tb:
        tb.save("more")
    back(root)
    for name in [path.name for path in state.glob("journal.*")]:
        (state / name).unlink()
    for name, data in saved.items():  # an old backup
        (state / name).write_bytes(data)
    with pytest.raises(ConflictError, match="has 2 more events than the one here"):
        go(root)


def test_what_is_read_back_differently_is_not_gone_to(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(root)

    def spoil() -> None:
        with psycopg.connect(os.environ[STORE], autocommit=True) as db:
            db.execute(
                "UPDATE takeback_store.events SET body = body || ' ' WHERE seq = 3 AND workspace ="
                " (SELECT id FROM takeback_store.workspaces WHERE name = %s)",
                (root.parent.name,),
            )

    with (
        crash.at(move.SOURCE_SHUT, spoil),
        pytest.raises(CorruptionError, match="verification failed: event 3"),
    ):
        go(root)
    assert not is_shared(root)
    undo_all(root)


# Cut short


@pytest.mark.parametrize("point", ["store-adopting", move.SOURCE_SHUT, move.SWITCHED])
def test_killed_at_a_crash_point(point: str, root: Path) -> None:
    kill(point, "there", root)


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["there", "back"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_crash_point(point: str, side: str, root: Path) -> None:
    kill(point, side, root)


def kill(point: str, side: str, root: Path) -> None:
    begin(root)
    if side == "back":
        go(root)
    to = move.LOCAL if side == "back" else f"${STORE}"
    nth = 2 if point == "store-adopting" else 1
    killed = crash.run(point, nth, [f"{__name__}:go_in_a_child", root, to])
    assert killed.returncode == crash.KILLED, killed.stderr
    assert is_shared(root) == ((point in DONE) == (side == "there"))
    assert len(open_places(root)) == 1
    with takeback.open(root) as tb:
        assert tb.verify() == []
        tb.save("between")
    if point not in DONE:
        back(root) if side == "back" else go(root)
    assert is_shared(root) == (side == "there")
    undo_all(root)


def test_a_line_that_is_cut_leaves_it_where_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(root)
    proxy = Proxy(os.environ[STORE])
    monkeypatch.setenv("PROXY", proxy.dsn)
    for place in SAMPLE:
        proxy.cut_after(SERVER, place)
        go(root, "$PROXY", name=f"cut {place}")
        proxy.disarm()
        undo_all(root)
        back(root)
    assert proxy.cuts
    proxy.close()


def test_a_server_that_goes_away_in_the_middle(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(root)
    proxy = Proxy(os.environ[STORE])
    monkeypatch.setenv("PROXY", proxy.dsn)
    monkeypatch.setitem(PostgresJournal.__init__.__kwdefaults__ or {}, "patience_s", 0.1)

    def go_away() -> None:
        proxy.refuse = True
        proxy.cut()

    with crash.at(move.SOURCE_SHUT, go_away), pytest.raises(BackendError, match="cannot be reached"):
        go(root, "$PROXY")
    assert not is_shared(root)
    undo_all(root)


def head(root: Path) -> int:
    with takeback.open(root) as tb:
        return tb.journal.head().count


def state_of(root: Path) -> Path:
    with takeback.open(root) as tb:
        return tb.state


def open_places(root: Path) -> list[str]:
    """Where it can be written to."""
    state = state_of(root)
    places: dict[str, Journal] = {
        "here": SqliteJournal(state / store_journal.JOURNAL),
        "there": PostgresJournal(os.environ[STORE], root.parent.name, state / "other.anchor"),
    }
    found = [name for name, one in places.items() if one.head().count and not one.moving.notice()]
    for journal in places.values():
        journal.close()
    return found
