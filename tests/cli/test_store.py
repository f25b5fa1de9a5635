"""`takeback store`: where the history is, and how it gets to another place."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from takeback.storage.state import location
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import STORE
from tests.world.settings import write

from .conftest import Call


@pytest.fixture
def used(call: Call, folder: Path, server: Server, tmp_path: Path) -> Call:
    (folder / "plan.md").write_text("old\n")
    call("save", "first")
    call("run", "--", "sh", "-c", "echo new > plan.md")
    return call


def test_there_and_back(used: Call, tmp_path: Path) -> None:
    """What it prints is what it did."""
    to = ("--to", f"${STORE}", "--workspace", tmp_path.name)
    foreseen = used("store", "copy", *to, "--preview")
    assert foreseen.stdout.startswith("Would move the history from this machine")
    assert f"as {tmp_path.name}: 6 events, 0 intents." in foreseen.stdout
    assert used("store", "show").stdout.startswith("history   this machine (")
    moved = used("store", "copy", *to)
    assert moved.code == 0 and "each read back and compared" in moved.stdout
    assert "it can no longer be written to" in moved.stdout and "to remove it: rm " in moved.stdout
    told = msgspec.json.decode(used("store", "show", "--json").stdout)
    assert (told["shared"], told["workspace"], told["events"]) == (True, tmp_path.name, 7)
    assert os.environ[STORE] not in moved.stdout + used("store", "show").stdout
    assert used("undo").code == 0 and Path("plan.md").read_text() == "old\n"
    back = msgspec.json.decode(used("store", "copy", "--to", "local", "--json").stdout)
    assert (back["done"], back["events"], back["old"]) == (True, 9, None)
    wanted = {"done", "from", "to", "events", "streams", "intents", "pieces", "blobs", "old", "with_history"}
    assert back.keys() == wanted
    assert used("redo").code == 0 and Path("plan.md").read_text() == "new\n"
    assert used("verify", "--deep").code == 0


@pytest.mark.parametrize(
    "words, code, said",
    [
        (("--to", "local"), 2, "already"),
        (("--to", "mysql://me:hunter2@h/x"), 2, "is not the address of a store; nothing was moved"),
        (("--to", "local", "--workspace", "x"), 2, "no name and no bucket"),
        (("--to", "$TAKEBACK_TEST_NO_SUCH"), 2, "needs the variable TAKEBACK_TEST_NO_SUCH"),
        (("--to", "postgresql://me:hunter2@127.0.0.1:1/x", "--preview"), 4, "cannot be reached"),
        (("--to", f"${STORE}", "--blobs", "ftp://x"), 2, "bucket"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], code: int, said: str, used: Call) -> None:
    done = used("store", "copy", *words)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr and "hunter2" not in done.stderr
    assert used("store", "show").stdout.startswith("history   this machine (")


def test_a_server_that_is_away_does_not_hide_where_it_is(used: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    used("store", "copy", "--to", f"${STORE}")
    monkeypatch.setenv(STORE, "postgresql://me:hunter2@no.such.host.invalid/x")
    monkeypatch.setattr("takeback.storage.journal.postgres.session.Backoff.again", lambda _: False)
    done = used("store", "show")
    assert done.code == 4
    assert done.stdout.startswith("history   the database x on no.such.host.invalid, as ")
    assert "state     " in done.stdout and "hunter2" not in done.stdout + done.stderr
    assert location.FILE in os.listdir(done.stdout.split("state")[1].split()[0])


def test_another_folder_reads_what_is_in_the_store_without_having_written(
    call: Call, folder: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = f'[store]\nstore = "${STORE}"\nworkspace = "{tmp_path.name}"\n'
    write(folder, settings)
    assert call("save", "first").code == 0
    other = tmp_path / "other"
    other.mkdir()
    assert call("-C", str(other), "log").code == 2, "nothing names a store there"
    (other / "takeback.toml").write_text(settings)
    assert call("-C", str(other), "log").code == 2, "nobody has accepted it"
    assert "has been in" in call("-C", str(other), "init", "--accept-config").said
    told = call("-C", str(other), "log")
    assert (told.code, 'checkpoint "first"' in told.stdout) == (0, True), told.said
    assert call("-C", str(other), "outbox", "worker", "--once").code == 0
    assert "has been in" in call("-C", str(other), "save", "second").said
    assert call("-C", str(folder), "save", "second").code == 0, "and the first one still sits where it was"


def test_a_store_that_let_nobody_in_does_not_become_this_machine(
    call: Call, folder: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever looks in between: the history is begun where takeback.toml says, or not at all."""
    write(folder, f'[store]\nstore = "$WAY"\nworkspace = "{tmp_path.name}"\n')
    monkeypatch.setenv("WAY", "postgresql://me@127.0.0.1:1/shop")
    assert call("save", "first").code == 4
    for words in (("store", "show"), ("log",), ("status",), ("store", "copy", "--to", "local")):
        assert "this machine" not in call(*words).said
    monkeypatch.setenv("WAY", os.environ[STORE])
    assert call("save", "first").code == 0
    assert msgspec.json.decode(call("store", "show", "--json").stdout)["shared"]
