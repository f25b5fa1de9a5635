"""Putting paths back: in which order, how durable, with which rights, and what is left when it is over."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.core.events import Did
from takeback.engine.rollback.report import ReportItem, RollbackReport
from takeback.errors import CorruptionError
from takeback.resources.files.entry import FILE, FOLDER, FileEntry, StatKey
from takeback.resources.files.put_back import restore
from takeback.resources.files.put_back.restore import FileRestorer, PathRestore, Standing, choose_links
from takeback.resources.files.put_back.staging import Staging
from takeback.system import linux
from takeback.testing import crash
from takeback.workspace.workspace import Workspace
from tests.cli.processes import wait_for
from tests.world.picture import differences, picture


def before(real: Callable[..., Any], do: Callable[[int], object]) -> Callable[..., Any]:
    """The same function, which does something else first; `do` gets the number of the call."""
    calls = iter(range(1, 1000))

    def both(*args: Any, **kwargs: Any) -> Any:
        do(next(calls))
        return real(*args, **kwargs)

    return both


def incomplete(tb: Workspace) -> RollbackReport:
    with pytest.raises(takeback.RollbackIncomplete) as caught:
        tb.undo()
    assert isinstance(caught.value.report, RollbackReport)
    return caught.value.report


def item_of(report: RollbackReport, name: str) -> ReportItem:
    return next(item for item in report.items if str(item.target) == name)


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def is_freed() -> bool:
    """Whether the room of what was replaced is free again, which others do not wait for."""
    return not any(thread.name == "freeing room" for thread in threading.enumerate())


# What cannot be put back


def test_a_socket_cannot_be_made_again(tb: Workspace, root: Path) -> None:
    (root / "plan").write_text("old")
    os.mknod(root / "sock", stat.S_IFSOCK | 0o600)
    tb.save()
    with tb.recording("agent"):
        (root / "sock").unlink()
        (root / "plan").write_text("new")
    item = item_of(incomplete(tb), "sock")
    assert (item.did, item.why) == (
        Did.FAILED,
        "it was a socket, a device or unreadable, so it cannot be recreated",
    )
    assert (root / "plan").read_text() == "old"


def test_where_nothing_can_be_written_each_path_says_so(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tb.save()
    with tb.recording("agent"):
        (root / "one").write_text("x")
        (root / "two").write_text("x")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    had = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(restore, "Staging", refuse)
        report = incomplete(tb)
    for name in ("one", "two"):
        item = item_of(report, name)
        assert (item.did, item.why) == (
            Did.FAILED,
            f"nothing can be written in {root}: {os.strerror(errno.EROFS)}",
        )
    assert descriptors() == had


def test_a_folder_that_others_put_something_into_in_the_last_instant_is_kept(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tb.save()
    with tb.recording("agent"):
        (root / "made").mkdir()
        (root / "made/file").write_text("agent")

    def human(call: int) -> None:
        if call == 1:
            (root / "made/own").write_text("human")

    monkeypatch.setattr(linux, "renameat2", before(linux.renameat2, human))
    item = item_of(tb.try_undo(), "made")
    assert (item.did, item.why) == (Did.KEPT, "it still contains what others put there")
    assert {path.name: path.read_text() for path in (root / "made").iterdir()} == {"own": "human"}


@pytest.mark.parametrize(
    "error, why",
    [
        (
            OSError(errno.EXDEV, os.strerror(errno.EXDEV)),
            "it is on another file system than the folder that it is put back from",
        ),
        (OSError(errno.EIO, os.strerror(errno.EIO)), os.strerror(errno.EIO)),
        (OSError("without a number"), "without a number"),
        (CorruptionError("its content is damaged"), "its content is damaged"),
    ],
    ids=["other file system", "broken disk", "no number", "damaged content"],
)
def test_a_path_that_fails_says_why_and_does_not_stop_the_others(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    (root / "one").write_text("old")
    (root / "two").write_text("old")
    tb.save()
    with tb.recording("agent"):
        (root / "one").write_text("new")
        (root / "two").write_text("new")

    def fail(call: int) -> None:
        if call == 1:
            raise error

    monkeypatch.setattr(Staging, "make", before(Staging.make, fail))
    item = item_of(incomplete(tb), "one")
    assert (item.did, item.why) == (Did.FAILED, why)
    assert [(root / name).read_text() for name in ("one", "two")] == ["new", "old"]


def test_a_folder_that_somebody_replaces_in_the_last_instant_is_theirs(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "made").mkdir()
    tb.save()
    with tb.recording("agent"):
        (root / "made").chmod(0o700)

    def human(_: int) -> None:
        (root / "made").rmdir()
        (root / "made").write_text("human")

    monkeypatch.setattr(FileRestorer, "_dress_folders", before(FileRestorer._dress_folders, human))
    item = item_of(incomplete(tb), "made")
    assert (item.did, item.why) == (Did.FAILED, "something else is there now")
    assert (root / "made").read_text() == "human"


def test_what_a_human_does_to_a_file_that_is_back_already_stays(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "plan").write_text("old")
    tb.save()
    with tb.recording("agent"):
        (root / "plan").write_text("new")
    human = before(FileRestorer._dress_folders, lambda _: (root / "plan").chmod(0o600))
    monkeypatch.setattr(FileRestorer, "_dress_folders", human)
    incomplete(tb)
    assert ((root / "plan").read_text(), mode(root / "plan")) == ("old", 0o600)


def test_a_folder_that_was_only_worked_in_looks_as_before(tb: Workspace, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/plan").write_text("old")
    os.utime(root / "sub", ns=(10**18, 10**18))
    tb.save()
    with tb.recording("agent"):
        (root / "sub/plan").write_text("new")
    assert tb.undo().verdict == "clean"
    assert (root / "sub").stat().st_mtime_ns == 10**18


def test_a_folder_gets_its_mode_back_although_something_in_it_does_too(tb: Workspace, root: Path) -> None:
    (root / "sub").mkdir(mode=0o750)
    (root / "sub/plan").write_text("old")
    seen = picture(bytes(root))
    tb.save()
    with tb.recording("agent"):
        (root / "sub").chmod(0o700)
        (root / "sub/plan").write_text("new")
    assert tb.undo().verdict == "clean"
    assert differences(seen, picture(bytes(root))) == []


def test_a_folder_that_comes_back_is_closed_to_others_until_it_has_its_own_mode(
    tb: Workspace, root: Path
) -> None:
    (root / "sub").mkdir(mode=0o755)
    (root / "sub/plan").write_text("old")
    tb.save()
    with tb.recording("agent"):
        (root / "sub/plan").unlink()
        (root / "sub").rmdir()
    modes: list[int] = []
    with crash.at(restore.SWAPPED, lambda: modes.append(mode(root / "sub"))):
        tb.undo()
    assert (modes, mode(root / "sub")) == ([0o700], 0o755)


# Order


def test_a_folder_comes_before_what_is_in_it_whichever_was_changed_last(tb: Workspace, root: Path) -> None:
    """An undo begins with what was changed last, and a redo with what the undo began with."""
    tb.save()
    with tb.recording("agent") as made:
        (root / "a/b").mkdir(parents=True)
    with tb.recording("agent") as closed:
        (root / "a/b").chmod(0o700)
    seen = picture(bytes(root))
    assert tb.undo(made, closed).verdict == "clean"
    assert tb.redo().verdict == "clean"
    assert differences(seen, picture(bytes(root))) == []


def test_a_link_with_two_names_comes_back_as_one_link(tb: Workspace, root: Path) -> None:
    """It is the link that has two names, not what it leads to."""
    (root / "plan").write_text("old")
    (root / "one").symlink_to("plan")
    os.link(root / "one", root / "two", follow_symlinks=False)
    tb.save()
    seen = picture(bytes(root))
    for gone in (["two"], ["one", "two"]):
        with tb.recording("agent"):
            for name in gone:
                (root / name).unlink()
        assert tb.undo().verdict == "clean"
        assert differences(seen, picture(bytes(root))) == []


# Durability


def syncs(tb: Workspace, point: str) -> int:
    """How often the disk was made to keep something, from this point of an undo on until the next one."""
    passed: list[str] = []
    with crash.hooked(passed.append):
        assert tb.undo().verdict == "clean"
    points = [name for name in passed if name.startswith(("restore-", "rollback-", "disk-sync"))]
    found = points.index(point) + 1
    ends = (place for place, name in enumerate(points) if place >= found and name != "disk-sync")
    return next(ends) - found


@pytest.mark.parametrize("many, wanted", [(2, 2), (20, 1)], ids=["one by one", "together"])
def test_what_is_made_ready_is_durable_before_it_takes_its_place(
    tb: Workspace, root: Path, many: int, wanted: int
) -> None:
    for number in range(many):
        (root / f"{number}").write_text("old")
    tb.save()
    with tb.recording("agent"):
        for number in range(many):
            (root / f"{number}").write_text("new")
    # The few are synced while they are made ready, the many when all are.
    assert syncs(tb, "rollback-recorded" if many == 2 else restore.STAGED) == wanted
    assert (root / "0").read_text() == "old"


@pytest.mark.parametrize("many, wanted", [(2, 3), (20, 1)], ids=["one by one", "together"])
def test_the_names_are_durable_before_the_end_is_recorded(
    tb: Workspace, root: Path, many: int, wanted: int
) -> None:
    """Of each folder in which something was put back, and of the workspace itself."""
    for number in range(many):
        (root / f"{number}").mkdir()
    tb.save()
    with tb.recording("agent"):
        for number in range(many):
            (root / f"{number}/made").write_text("x")
    assert syncs(tb, restore.DRESSED) == wanted


def test_many_are_synced_with_the_whole_file_system(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (root / f"{number}").write_text("old")
    tb.save()
    with tb.recording("agent"):
        for number in range(20):
            (root / f"{number}").write_text("new")
    calls: list[int] = []
    monkeypatch.setattr(linux, "syncfs", before(linux.syncfs, calls.append))
    assert tb.undo().verdict == "clean"
    assert calls == [1]


# What is left


def test_nothing_stays_open(tb: Workspace, root: Path) -> None:
    names = [f"{folder}/{name}" for folder in ("a", "b") for name in range(6)]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("old")
    tb.save()
    with tb.recording("agent"):
        for name in names:
            (root / name).write_text("new")
    tb.undo()
    tb.redo()
    wait_for(is_freed)
    had = descriptors()
    with (root / "a/0").open("a"):
        tb.undo()
    wait_for(is_freed)
    assert descriptors() == had
    assert not list(root.glob(".takeback-*"))


@pytest.mark.parametrize("lacks", [False, True])
def test_where_room_is_lacking_what_was_removed_makes_some_first(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, lacks: bool
) -> None:
    (root / "one").write_text("old")
    (root / "two").write_text("old")
    tb.save()
    with tb.recording("agent"):
        (root / "one").write_text("new")
        (root / "two").write_text("new")
    at_once: list[bool] = []

    def full(call: int) -> None:
        if lacks and call == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def freed(staging: Staging, *, at_once: bool) -> None:
        seen.append(at_once)
        free(staging, at_once=at_once)

    free, seen = Staging.free, at_once
    monkeypatch.setattr(Staging, "make", before(Staging.make, full))
    monkeypatch.setattr(Staging, "free", freed)
    assert tb.undo().verdict == "clean"
    assert at_once == ([True, False] if lacks else [False])
    assert [(root / name).read_text() for name in ("one", "two")] == ["old", "old"]


# Rights


@contextmanager
def bound() -> Iterator[None]:
    """Let permissions bind this thread as they bind anybody, for as long as the block lasts."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, had = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, had) == 0
    given_up = (ctypes.c_uint32 * 6)(*had)
    given_up[0] &= ~0b1110  # to pass over the rights of files and folders, and to be taken for their owner
    assert libc.capset(header, given_up) == 0
    try:
        yield
    finally:
        assert libc.capset(header, had) == 0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_closed_by_the_agent_comes_back_open(tb: Workspace, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/plan").write_text("old")
    with bound():
        tb.save()
        seen = picture(bytes(root))
        with tb.recording("agent"):
            (root / "sub/plan").write_text("new")
            (root / "sub").chmod(0o555)
        assert tb.undo().verdict == "clean"
    assert differences(seen, picture(bytes(root))) == []


@pytest.mark.parametrize("closed", [0o555, 0o400, 0o100, 0])
@pytest.mark.parametrize("what", ["sub/plan", "sub/deep/plan"])
def test_what_was_closed_before_is_closed_again(tb: Workspace, root: Path, closed: int, what: str) -> None:
    (root / "sub/deep").mkdir(parents=True)
    (root / what).write_text("old")
    with bound():
        (root / "sub").chmod(closed)
        tb.save()
        (root / "sub").chmod(0o755)
        seen = picture(bytes(root))
        (root / "sub").chmod(closed)
        with tb.recording("agent"):
            (root / "sub").chmod(0o755)
            (root / what).write_text("new")
            (root / f"{what}-made").write_text("new")
            (root / "sub").chmod(closed)
        report = tb.undo()
        assert report.verdict == "clean", report.items
        assert mode(root / "sub") == closed
        (root / "sub").chmod(0o755)
    assert differences(seen, picture(bytes(root))) == []
    assert tb.redo().verdict == "clean"


def test_folders_are_closed_from_the_inside_out(tb: Workspace, root: Path) -> None:
    chains = [["a", "b", "c", "d"][: depth + 1] for depth in range(4)]
    folders = [root.joinpath(top, *chain) for top in "opqrstuv" for chain in chains]
    for folder in folders:
        folder.mkdir(parents=True)
    with bound():
        for folder in reversed(folders):
            folder.chmod(0)
        tb.save()
        with tb.recording("agent"):
            for folder in folders:
                folder.chmod(0o755)
        assert tb.undo().verdict == "clean"
        for folder in folders:
            assert mode(folder) == 0
            folder.chmod(0o755)


@pytest.mark.parametrize("closed", [0o400, 0o100, 0])
def test_a_folder_inside_of_a_closed_one_gets_its_mode_back(tb: Workspace, root: Path, closed: int) -> None:
    (root / "sub/deep").mkdir(parents=True)
    with bound():
        (root / "sub").chmod(closed)
        tb.save()
        with tb.recording("agent"):
            (root / "sub").chmod(0o755)
            (root / "sub/deep").chmod(0o700)
            (root / "sub").chmod(closed)
        assert tb.undo().verdict == "clean"
        assert mode(root / "sub") == closed
        (root / "sub").chmod(0o755)
    assert mode(root / "sub/deep") == 0o755


@pytest.mark.parametrize("closed", [0o400, 0o100, 0])
def test_another_name_of_a_file_in_a_closed_folder_comes_back(tb: Workspace, root: Path, closed: int) -> None:
    (root / "sub").mkdir()
    (root / "sub/one").write_text("old")
    (root / "two").hardlink_to(root / "sub/one")
    with bound():
        (root / "sub").chmod(closed)
        tb.save()
        with tb.recording("agent"):
            (root / "two").unlink()
        assert tb.undo().verdict == "clean"
        assert mode(root / "sub") == closed
        (root / "sub").chmod(0o755)
    assert (root / "two").samefile(root / "sub/one")


def test_a_file_that_is_closed_to_its_owner_and_open_in_a_program_is_taken_back(
    tb: Workspace, root: Path
) -> None:
    (root / "plan").write_text("old")
    with bound():
        tb.save()
        with (root / "plan").open("a") as program:
            with tb.recording("agent"):
                program.write(" and new")
                program.flush()
                (root / "plan").chmod(0o200)
            report = tb.undo()
    assert report.verdict == "clean" and (root / "plan").read_text() == "old"
    assert "has it open" in item_of(report, "plan").why
    assert (root / "takeback-rescued-1-plan").read_text() == "old and new"


# Files with several names

NONE_STANDING = Standing()


def work(
    path: str, ino: int = 0, *, group: str = "", content: str = "same", old: str | None = "same"
) -> PathRestore:
    """A path that is to get this content, as one of a group of names; `ino` is the file that is there now."""

    def entry(content: str, group: str = "") -> FileEntry:
        return FileEntry(FILE, 0o644, 0, 0, 1, 4, content.encode(), group=group.encode())

    present = None if old is None else entry(old)
    key = StatKey(ino, 4, 1, 1, 0o100644, 1) if ino else None
    return PathRestore(path.encode(), present, entry(content, group), key)


def chosen(*works: PathRestore, standing: Standing = NONE_STANDING) -> dict[str, str]:
    """What becomes of each path: it stays, is made anew, or becomes a link to another one."""
    choose_links(works, standing)
    return {
        each.path.decode(): each.link_to.decode() if each.link_to else "stays" if each.in_place else "anew"
        for each in works
    }


def test_paths_that_are_no_links_stay_or_come_anew() -> None:
    gone = PathRestore(b"gone", None, None, None)
    assert chosen(gone, work("a", 1), work("b", 2, old="other"), work("c", old=None)) == {
        "gone": "anew",
        "a": "stays",
        "b": "anew",
        "c": "anew",
    }


def test_a_name_that_is_gone_becomes_a_link_to_one_that_stays() -> None:
    assert chosen(work("a", group="a", old=None), work("b", 7, group="a")) == {"a": "b", "b": "stays"}


def test_names_that_are_one_file_stay_so() -> None:
    assert chosen(work("a", 7, group="a"), work("b", 7, group="a")) == {"a": "stays", "b": "stays"}


def test_names_that_were_split_become_one_file_again() -> None:
    assert chosen(work("a", 7, group="a"), work("b", 8, group="a")) == {"a": "stays", "b": "a"}


def test_where_none_stays_the_first_is_made_anew_and_the_others_become_links_to_it() -> None:
    works = [
        work("a", 7, group="a", old="x"),
        work("b", 7, group="a", old="x"),
        work("c", group="a", old=None),
    ]
    assert chosen(*works) == {"a": "anew", "b": "a", "c": "a"}


def test_names_that_were_joined_are_told_apart_and_most_keep_the_file() -> None:
    works = [work("own", 7), work("a", 7, group="a"), work("b", 7, group="a")]
    assert chosen(*works) == {"own": "anew", "a": "stays", "b": "stays"}


def test_two_files_of_their_own_that_were_joined_are_told_apart() -> None:
    assert sorted(chosen(work("a", 7), work("b", 7)).values()) == ["anew", "stays"]


def test_the_file_stays_with_those_that_are_not_put_back() -> None:
    standing = Standing({}, {(1, 7): b"/other"})
    assert chosen(work("a", 7), standing=standing) == {"a": "anew"}
    standing = Standing({b"a": b"a"}, {(1, 7): b"a"})
    assert chosen(work("b", 7, group="a"), work("own", 7), standing=standing) == {"b": "a", "own": "anew"}


def test_of_a_file_that_is_written_anew_nobody_keeps_the_old_one() -> None:
    """It has another content now, so whose it is does not count."""
    works = [work("a", 7, group="a", old="x"), work("b", 7, group="a", old="x"), work("own", 7)]
    assert chosen(*works) == {"a": "anew", "b": "a", "own": "stays"}


def test_a_folder_stays_in_its_place_whatever_is_in_it() -> None:
    def folder(node: bytes) -> FileEntry:
        return FileEntry(FOLDER, 0o755, 0, 0, 1, 0, node)

    assert PathRestore(b"sub", folder(b"one"), folder(b""), None).in_place


def test_a_path_that_is_tried_again_begins_anew() -> None:
    tried = work("a", 7, group="a")
    tried.staged, tried.link_to, tried.apart, tried.lacks_room = b"new-a", b"b", True, True
    tried.fail("there is no room on the disk")
    tried.begin_again()
    assert tried == work("a", 7, group="a")
