"""What happens in the worst moment: an interrupt, or a human's write, between two lines of a look or an undo.

Each was found by somebody who tried to lose work. The places are reached by wrapping the one function of ours that
runs there; everything else is real.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.core import events as e
from takeback.core.rollback import Verdict
from takeback.resources.files.look.capture import RACY_NS, Capture
from takeback.resources.files.put_back import restore
from takeback.resources.files.put_back.restore import FileRestorer
from takeback.resources.files.put_back.staging import Staging
from takeback.resources.files.resource import Files
from takeback.system import linux
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world.picture import differences, picture


class World:
    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "work", folder / "state"
        self.root.mkdir()
        self.opened: list[Workspace] = []

    def open(self, *, watching: bool = False) -> Workspace:
        self.opened.append(open_workspace(self.root, home=self.home, watching=watching))
        return self.opened[-1]

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def agent(self, name: str, text: str) -> Workspace:
        """A workspace in which an agent has just written over a file."""
        self.write(name, "one\n")
        tb = self.open()
        tb.save()
        with tb.recording("agent"):
            self.write(name, text)
        return tb

    def texts(self) -> set[str]:
        """What all files in the workspace say, wherever they are."""
        return {path.read_text() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for workspace in made.opened:
        workspace.close()


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def after(real: Callable[..., Any], do: Callable[[], None]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        found = real(*args, **kwargs)
        do()
        return found

    return both


def before(real: Callable[..., Any], do: Callable[[int], None]) -> Callable[..., Any]:
    calls = iter(range(1, 1000))

    def both(*args: Any, **kwargs: Any) -> Any:
        do(next(calls))
        return real(*args, **kwargs)

    return both


@pytest.mark.parametrize("watching", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_look_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch, watching: bool, when: str
) -> None:
    world.write("f", "one\n")
    tb = world.open(watching=watching)
    first = tb.save()
    tb.save()
    world.write("f", "TWO\n")
    with monkeypatch.context() as patch:
        cut = interrupt if when == "before" else after(Capture.update, interrupt)
        patch.setattr(Capture, "update", cut)
        with pytest.raises(KeyboardInterrupt):
            tb.save()
    tb.close()
    tb = world.open(watching=watching)
    second = tb.save()
    assert [str(change.target) for change in tb.diff(first, second)] == ["f"]
    world.write("f", "THREE\n")
    tb.save()
    tb.restore(second)
    assert world.read("f") == "TWO\n"


def test_an_interrupt_while_the_end_is_recorded_loses_no_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("f", "one\n")
    tb = world.open()
    tb.save()
    id = tb.parts.tracker.begin_single("agent")
    world.write("f", "AGENT\n")
    with monkeypatch.context() as patch:
        patch.setattr(Capture, "update", after(Capture.update, interrupt))
        with pytest.raises(KeyboardInterrupt):
            tb.parts.tracker.end_single(id, e.Outcome.DONE)
    tb.close()
    tb = world.open()
    tb.parts.tracker.end_single(id, e.Outcome.DONE)
    tb.undo()
    assert world.read("f") == "one\n"


def interrupted_exchange(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A human writes right before an exchange, after which the undo is cut short: their version is in its folder."""
    tb = world.agent(name, "AGENT\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            linux,
            "renameat2",
            before(linux.renameat2, lambda n: world.write(name, "HUMAN\n") if n == 1 else None),
        )
        patch.setattr(FileRestorer, "_is_ours", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tb.undo()
    tb.close()


def test_an_interrupt_right_after_an_exchange_keeps_the_humans_version(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_exchange(world, monkeypatch, "f")
    with pytest.raises(takeback.RollbackIncomplete):
        world.open().undo()
    assert world.read("f") == "HUMAN\n"


def test_what_a_human_wrote_after_an_interrupted_exchange_is_kept_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its place is ours, and they go on from there. Their earlier version waits to come back."""
    interrupted_exchange(world, monkeypatch, "f")
    world.write("f", "LATER\n")
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        world.open().undo()
    assert world.read("f") == "LATER\n"
    assert world.read("takeback-rescued-1-f") == "HUMAN\n"
    (why,) = [item.why for item in caught.value.report.items if str(item.target) == "f"]
    assert "kept as takeback-rescued-1-f" in why


def test_a_version_whose_place_was_taken_again_is_kept_under_a_visible_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("other", "x")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        world.write("n", "agent\n")

    def human(call: int) -> None:
        if call == 1:
            world.write("n.tmp", "HUMAN v1\n")
            os.rename(world.root / "n.tmp", world.root / "n")
        elif call == 2:
            world.write("n", "HUMAN v2\n")

    with monkeypatch.context() as patch:
        patch.setattr(linux, "renameat2", before(linux.renameat2, human))
        with pytest.raises(takeback.RollbackIncomplete) as caught:
            tb.undo()
    assert world.read("n") == "HUMAN v2\n"
    assert "HUMAN v1\n" in world.texts()
    assert "takeback-rescued-1-n" in next(i.why for i in caught.value.report.items if str(i.target) == "n")


def test_a_version_whose_folder_is_gone_is_kept_under_a_visible_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The human's version waits in the staging folder of a rollback that was cut short; then its folder goes."""
    (world.root / "sub").mkdir()
    interrupted_exchange(world, monkeypatch, "sub/f")
    shutil.rmtree(world.root / "sub")
    world.write("takeback-rescued-1-f", "a name that is taken\n")
    tb = world.open()
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert world.read("takeback-rescued-2-f") == "HUMAN\n"
    assert world.read("takeback-rescued-1-f") == "a name that is taken\n"
    item = next(item for item in caught.value.report.items if str(item.target) == "sub/f")
    assert item.did == "conflict" and "kept as takeback-rescued-2-f" in item.why
    assert not list(world.root.glob(".takeback-*"))


def test_a_write_between_swap_and_verification_is_the_humans(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tb = world.agent("f", "AGENT\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            Files, "_verified", before(Files._verified, lambda _: world.write("f", "HUMAN precious\n"))
        )
        with pytest.raises(takeback.RollbackIncomplete):
            tb.undo()
    with pytest.raises(takeback.ConflictError):
        tb.redo()
    assert world.read("f") == "HUMAN precious\n"


def test_what_a_program_wrote_through_an_open_file_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tb = world.agent("f", "AGENT\n")
    with (world.root / "f").open("a") as log, monkeypatch.context() as patch:

        def write(_: int) -> None:
            log.write("HUMAN LINE\n")
            log.flush()

        patch.setattr(FileRestorer, "_dress_in_place", before(FileRestorer._dress_in_place, write))
        tb.undo()
    assert world.read("f") == "one\n"
    assert "AGENT\nHUMAN LINE\n" in world.texts()


def test_an_action_that_spans_a_checkpoint_is_taken_back_in_two_parts(world: World) -> None:
    world.write("f", "one\n")
    tb = world.open()
    tb.save()
    with tb.recording("agent") as action:
        world.write("f", "AGENT 1\n")
        middle = tb.save()
        world.write("f", "AGENT 2\n")
    tb.undo(to=middle)
    assert world.read("f") == "AGENT 1\n"
    tb.undo(action)
    assert world.read("f") == "one\n"


def test_of_two_versions_written_around_both_exchanges_each_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One before ours takes its place, and another before the first one goes back there."""
    tb = world.agent("f", "AGENT\n")

    def human(call: int) -> None:
        if call in (1, 2):
            world.write("f.tmp", f"HUMAN v{call}\n")
            os.rename(world.root / "f.tmp", world.root / "f")

    with monkeypatch.context() as patch:
        patch.setattr(linux, "renameat2", before(linux.renameat2, human))
        with pytest.raises(takeback.RollbackIncomplete) as caught:
            tb.undo()
    assert world.read("f") == "HUMAN v1\n"
    assert world.read("takeback-rescued-1-f") == "HUMAN v2\n"
    assert "takeback-rescued-1-f" in next(i.why for i in caught.value.report.items if str(i.target) == "f")


def test_a_version_in_the_place_of_a_folder_goes_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.root / "data").mkdir()
    world.write("data/file", "one\n")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        shutil.rmtree(world.root / "data")
        world.write("data", "agent\n")

    def write(call: int) -> None:
        if call == 1:
            world.write("data", "the human's\n")

    monkeypatch.setattr(linux, "renameat2", before(linux.renameat2, write))
    with pytest.raises(takeback.RollbackIncomplete):
        tb.undo()
    assert world.read("data") == "the human's\n"
    assert os.listdir(world.root) == ["data"]


@pytest.mark.parametrize("was", ["folder", "file"])
def test_an_undo_cut_short_between_a_file_and_a_folder_is_finished(world: World, was: str) -> None:
    def make(kind: str) -> None:
        if kind == "folder":
            (world.root / "data").mkdir()
        world.write("data/file" if kind == "folder" else "data", "one\n")

    make(was)
    seen = picture(bytes(world.root))
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        shutil.rmtree(world.root / "data") if was == "folder" else (world.root / "data").unlink()
        make("file" if was == "folder" else "folder")
    with crash.at(restore.REMOVED, interrupt), pytest.raises(KeyboardInterrupt):
        tb.undo()
    tb.undo()
    assert differences(seen, picture(bytes(world.root))) == []


def item_of(caught: pytest.ExceptionInfo[takeback.RollbackIncomplete], name: str) -> e.Item:
    items: tuple[e.Item, ...] = caught.value.report.items
    return next(item for item in items if str(item.target) == name)


def human_at(world: World, monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Let a human do something right before the first exchange or removal."""
    monkeypatch.setattr(linux, "renameat2", before(linux.renameat2, lambda call: do() if call == 1 else None))


def test_a_version_that_could_go_back_leaves_nothing_beside_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tb = world.agent("f", "AGENT\n")
    human_at(world, monkeypatch, lambda: world.write("f", "HUMAN\n"))
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert world.read("f") == "HUMAN\n" and os.listdir(world.root) == ["f"]
    item = item_of(caught, "f")
    assert (item.did, item.why) == (e.Did.CONFLICT, "it was changed while it was being taken back")


def test_a_version_that_can_go_nowhere_stays_where_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came out, its place was taken meanwhile, and the disk has no room for another name."""
    world.write("other", "x")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        world.write("n", "agent\n")

    def human(call: int) -> None:
        if call in (1, 2):
            world.write("n.tmp", f"HUMAN v{call}\n")
            os.rename(world.root / "n.tmp", world.root / "n")

    def no_room(*_: Any) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(linux, "renameat2", before(linux.renameat2, human))
        patch.setattr(Staging, "let_out", no_room)
        with pytest.raises(takeback.RollbackIncomplete):
            tb.undo()
    assert world.texts() >= {"HUMAN v1\n", "HUMAN v2\n"}


def test_a_file_that_is_made_anew_in_the_last_instant_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("f", "one\n")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        (world.root / "f").unlink()
    human_at(world, monkeypatch, lambda: world.write("f", "HUMAN\n"))
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert world.read("f") == "HUMAN\n" and os.listdir(world.root) == ["f"]
    item = item_of(caught, "f")
    assert (item.did, item.why) == (
        e.Did.CONFLICT,
        "someone created it again while it was being taken back",
    )


def test_a_folder_that_gets_a_file_in_the_last_instant_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("data", "one\n")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        (world.root / "data").unlink()
        (world.root / "data").mkdir()
        world.write("data/file", "agent\n")
    human_at(world, monkeypatch, lambda: world.write("data/new", "HUMAN\n"))
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert world.read("data/new") == "HUMAN\n"
    item = item_of(caught, "data")
    assert (item.did, item.why) == (e.Did.CONFLICT, "a folder with others' files is in its place")


def test_a_folder_that_became_a_file_in_the_last_instant_stays_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("other", "x")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        (world.root / "data").mkdir()
        world.write("data/file", "agent\n")

    def human() -> None:
        os.rename(world.root / "data", world.root / "moved")
        world.write("data", "HUMAN\n")

    human_at(world, monkeypatch, human)
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert world.read("data") == "HUMAN\n"
    item = item_of(caught, "data")
    assert (item.did, item.why) == (e.Did.FAILED, os.strerror(errno.ENOTDIR))


def same_but(path: Path, what: str) -> None:
    """Change a file so that nothing of what a look sees of it differs but this."""
    was = path.stat()
    if what == "file":
        fresh = path.with_name("fresh")
        fresh.write_text("HUMAN\n")
        fresh.chmod(was.st_mode)
        fresh.rename(path)
    elif what == "mode":
        path.chmod(0o600)
    else:
        path.write_text("HUMAN\n" if what == "time" else "HUMAN, and more\n")
    if what != "time":
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.parametrize("what", ["file", "size", "time", "mode"])
def test_whatever_is_different_about_it_it_is_not_what_was_to_be_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    tb = world.agent("f", "AGENT\n")
    path = world.root / "f"
    human_at(world, monkeypatch, lambda: same_but(path, what))
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert item_of(caught, "f").did == e.Did.CONFLICT
    assert (path.stat().st_mode & 0o777 == 0o600) if what == "mode" else path.read_text().startswith("HUMAN")
    assert os.listdir(world.root) == ["f"]


def test_what_was_only_to_get_its_mode_back_and_is_written_in_the_last_instant_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("f", "one\n")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        (world.root / "f").chmod(0o600)
    dress = FileRestorer._dress_in_place
    monkeypatch.setattr(FileRestorer, "_dress_in_place", before(dress, lambda _: world.write("f", "HUMAN\n")))
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    item = item_of(caught, "f")
    assert (item.did, item.why) == (e.Did.CONFLICT, "it was changed while it was being taken back")
    assert world.read("f") == "HUMAN\n" and (world.root / "f").stat().st_mode & 0o777 == 0o600


def test_a_mode_that_a_human_sets_while_files_are_put_back_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are back by then, so only the mode differs, as after an undo that was cut short: it was not."""
    path = world.root / "app.db"

    def sets(number: int) -> None:
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE numbers SET number = ?", (number,))

    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, number)")
        db.execute("INSERT INTO numbers VALUES (1, 1)")
    path.chmod(0o644)
    world.write("f", "one\n")
    tb = world.open()
    tb.save()
    with tb.recording("agent"):
        world.write("f", "agent\n")
        sets(2)

    def human() -> None:
        sets(1)
        path.chmod(0o600)

    monkeypatch.setattr(Files, "swap", after(Files.swap, human))
    tb.undo()
    assert world.read("f") == "one\n" and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("watching", [False, True])
@pytest.mark.parametrize("place", ["_stage", "_remove", "_remove_one"])
@pytest.mark.parametrize("is_older", [False, True])
def test_a_file_that_a_human_puts_into_a_folder_that_an_undo_removes_is_theirs(
    world: World, monkeypatch: pytest.MonkeyPatch, watching: bool, place: str, is_older: bool
) -> None:
    """However long before the next look: the folder is kept, and the next look finds the file in it."""
    tb = world.open(watching=watching)
    tb.save()
    new = world.root / "new"
    with tb.recording("agent"):
        new.mkdir()
        (new / "a").write_text("a\n")

    def human(turn: int) -> None:
        if turn == 1:
            (new / "mine").write_text("mine\n")

    def grow_older(_turn: int) -> None:
        while is_older and time.time_ns() - new.stat().st_ctime_ns <= 2 * RACY_NS:
            pass

    monkeypatch.setattr(FileRestorer, place, before(getattr(FileRestorer, place), human))
    monkeypatch.setattr(Files, "_verified", before(Files._verified, grow_older))
    report = tb.undo()
    assert {str(item.target): item.did for item in report.items if not item.minor} == {
        "new": "kept",
        "new/a": "removed",
    }
    assert report.verdict is Verdict.CLEAN
    assert (new / "mine").read_text() == "mine\n"
    (drift,) = [action for action in tb.history.actions.values() if action.kind == "outside"]
    assert "new/mine" in {str(entry.target) for entry in drift.made}
