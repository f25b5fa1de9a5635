"""Somebody writes the settings, or the disk fails, in the very moment in which we do: nobody's version is lost."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.agents.agents_md import remove_section, write_section
from takeback.agents.settings import apply
from takeback.errors import BackendError, ConflictError
from takeback.system import crash_points, exchange, linux
from takeback.testing import crash

OTHERS = b'{"theme": "dark"}\n'
LATER = b'{"theme": "light"}\n'
MOVES = ["new", "replaced", "removed"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = apply.place("codex", project=tmp_path, home=tmp_path, user=False)
    made.parent.mkdir()
    return made


def edit_of(path: Path, move: str) -> apply.Edit:
    if move == "replaced":
        path.write_text("{}\n")
    if move == "removed":
        apply.installing("codex", path).make()
        return apply.uninstalling("codex", path)
    return apply.installing("codex", path)


def left(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, by name; nothing where there is none."""
    return {entry.name: entry.read_bytes() for entry in folder.glob("*") if entry.is_file()}


def written_anew(path: Path, text: bytes = OTHERS) -> None:
    fresh = path.with_name("editor")
    fresh.write_bytes(text)
    fresh.replace(path)


def written_in_place(path: Path) -> None:
    path.write_bytes(OTHERS)


def interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def meanwhile(deeds: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    """Others do something each time that we pass a named place."""

    def hook(name: str) -> None:
        if name in deeds:
            deeds[name]()

    with crash.hooked(hook):
        yield


@pytest.mark.parametrize("move", MOVES)
def test_what_is_not_as_it_was_seen_is_not_even_moved(move: str, path: Path) -> None:
    edit = edit_of(path, move)
    path.write_bytes(OTHERS)
    inode = path.stat().st_ino
    passed: list[str] = []
    with crash.hooked(passed.append), pytest.raises(ConflictError, match="it was left as it is"):
        edit.make()
    assert left(path.parent) == {path.name: OTHERS} and path.stat().st_ino == inode
    assert not [name for name in passed if name.startswith("exchange")], "nothing was put beside it either"


@pytest.mark.parametrize("move", ["replaced", "removed"])
def test_what_was_removed_since_it_was_seen_stays_away(move: str, path: Path) -> None:
    edit = edit_of(path, move)
    path.unlink()
    with pytest.raises(ConflictError, match="it was left as it is"):
        edit.make()
    assert left(path.parent) == {}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(mode: int, path: Path) -> None:
    edit = edit_of(path, "replaced")
    path.chmod(mode)
    edit.make()
    assert path.stat().st_mode & 0o7777 == mode and path.read_text() == edit.after


def test_a_new_file_has_the_mode_that_the_user_wants_for_new_ones(path: Path) -> None:
    umask = os.umask(0o002)
    try:
        edit_of(path, "new").make()
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o7777 == 0o664


@pytest.mark.parametrize("point", ["", "exchange-staged", "disk-write"])
@pytest.mark.parametrize("move", MOVES)
def test_no_file_stays_open(move: str, point: str, path: Path) -> None:
    edit = edit_of(path, move)
    before = os.listdir("/proc/self/fd")
    with contextlib.suppress(KeyboardInterrupt), meanwhile({point: interrupt}):
        edit.make()
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("write", [written_anew, written_in_place])
@pytest.mark.parametrize("move", MOVES)
def test_what_was_written_in_the_last_instant_stays(
    move: str, write: Callable[[Path], None], path: Path
) -> None:
    edit = edit_of(path, move)
    with (
        meanwhile({"exchange-staged": lambda: write(path)}),
        pytest.raises(ConflictError, match="changed meanwhile"),
    ):
        edit.make()
    assert left(path.parent) == {path.name: OTHERS}


@pytest.mark.parametrize("move", ["replaced", "removed"])
def test_what_was_removed_in_the_last_instant_stays_away(move: str, path: Path) -> None:
    edit = edit_of(path, move)
    with meanwhile({"exchange-staged": path.unlink}), pytest.raises(ConflictError, match="changed meanwhile"):
        edit.make()
    assert left(path.parent) == {}


@pytest.mark.parametrize("move", MOVES)
def test_a_link_that_came_in_the_last_instant_is_left_alone(move: str, path: Path, tmp_path: Path) -> None:
    edit, other = edit_of(path, move), tmp_path / "dotfiles.json"
    other.write_bytes(OTHERS)

    def link() -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(other)

    with meanwhile({"exchange-staged": link}), pytest.raises(ConflictError, match="changed meanwhile"):
        edit.make()
    assert path.is_symlink() and os.listdir(path.parent) == [path.name]
    assert other.read_bytes() == OTHERS


@pytest.mark.parametrize("move", ["replaced", "removed"])
def test_a_link_to_the_same_text_is_not_the_file_that_was_seen(move: str, path: Path, tmp_path: Path) -> None:
    edit, moved = edit_of(path, move), tmp_path / "dotfiles.json"
    text = path.read_bytes()

    def link() -> None:
        path.rename(moved)
        path.symlink_to(moved)

    with meanwhile({"exchange-staged": link}), pytest.raises(ConflictError, match="changed meanwhile"):
        edit.make()
    assert path.is_symlink() and path.read_bytes() == text and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("move", MOVES)
def test_a_pipe_in_its_place_is_not_waited_for(move: str, path: Path) -> None:
    edit = edit_of(path, move)

    def pipe() -> None:
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    with meanwhile({"exchange-staged": pipe}), pytest.raises(ConflictError, match="changed meanwhile"):
        edit.make()
    assert path.is_fifo() and os.listdir(path.parent) == [path.name]


def test_a_file_that_has_our_name_for_the_new_one_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = edit_of(path, "replaced")
    monkeypatch.setattr(exchange, "token_hex", lambda _: "taken")
    there = path.with_name(f"{path.name}.takeback-taken")
    there.write_bytes(OTHERS)
    with pytest.raises(BackendError, match=r"File exists.*it is unchanged"):
        edit.make()
    assert there.read_bytes() == OTHERS and path.read_text() == edit.before


def test_of_two_versions_that_came_meanwhile_both_are_kept(path: Path) -> None:
    """The later one comes over ours, before the first has gone back to its place."""
    edit = edit_of(path, "replaced")
    deeds = {
        "exchange-staged": lambda: written_anew(path),
        "exchange-moved": lambda: written_anew(path, LATER),
    }
    with meanwhile(deeds), pytest.raises(ConflictError) as raised:
        edit.make()
    files = left(path.parent)
    assert files.pop(path.name) == OTHERS
    ((name, text),) = files.items()
    assert text == LATER and name in raised.value.message


@pytest.mark.parametrize("move", ["replaced", "removed"])
def test_a_version_that_cannot_go_back_is_kept_and_named(move: str, path: Path) -> None:
    edit = edit_of(path, move)
    taken = path.unlink if move == "replaced" else lambda: path.write_bytes(LATER)
    deeds = {"exchange-staged": lambda: written_anew(path), "exchange-moved": taken}
    with meanwhile(deeds), pytest.raises(ConflictError) as raised:
        edit.make()
    files = left(path.parent)
    assert files.pop(path.name, None) == (None if move == "replaced" else LATER)
    ((name, text),) = files.items()
    assert text == OTHERS and name in raised.value.message


def test_a_version_that_cannot_go_back_is_kept_also_where_it_reads_as_ours(path: Path) -> None:
    edit = edit_of(path, "replaced")
    assert edit.after is not None
    theirs = edit.after.encode()
    deeds = {"exchange-staged": lambda: written_anew(path, theirs), "exchange-moved": path.unlink}
    with meanwhile(deeds), pytest.raises(ConflictError) as raised:
        edit.make()
    ((name, text),) = left(path.parent).items()
    assert text == theirs and name in raised.value.message


@pytest.mark.parametrize(
    "code, words",
    [(errno.EINVAL, "its file system cannot swap two files in one step"), (errno.EIO, "Input/output error")],
)
@pytest.mark.parametrize("move", MOVES)
def test_a_file_system_that_cannot_do_it_leaves_all_as_it_was(
    move: str, code: int, words: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    edit = edit_of(path, move)
    monkeypatch.setattr(linux, "renameat2", fail)
    with pytest.raises(BackendError, match=f"{words}.*it is unchanged"):
        edit.make()
    assert left(path.parent) == ({} if edit.before is None else {path.name: edit.before.encode()})


@pytest.mark.parametrize("point", ["exchange-staged", "exchange-moved"])
@pytest.mark.parametrize("move", MOVES)
def test_an_interrupt_is_no_fault_of_the_disk_and_leaves_nothing_lying_about(
    move: str, point: str, path: Path
) -> None:
    edit = edit_of(path, move)
    with meanwhile({point: interrupt}), pytest.raises(KeyboardInterrupt):
        edit.make()
    text = edit.before if point == "exchange-staged" else edit.after
    assert left(path.parent) == ({} if text is None else {path.name: text.encode()})


@pytest.mark.parametrize("move", ["replaced", "removed"])
def test_an_interrupt_before_we_have_looked_clears_nothing_of_others_away(move: str, path: Path) -> None:
    edit = edit_of(path, move)
    deeds = {"exchange-staged": lambda: written_anew(path), "exchange-moved": interrupt}
    with meanwhile(deeds), pytest.raises(KeyboardInterrupt):
        edit.make()
    assert OTHERS in left(path.parent).values()


@pytest.mark.parametrize("move", MOVES)
def test_what_no_longer_needs_to_be_cleared_away_is_no_fault(move: str, path: Path) -> None:
    """Somebody tidied up before us. The settings are as they should be, and nothing else is said."""

    def tidy() -> None:
        for entry in path.parent.iterdir():
            if entry != path:
                entry.unlink()

    edit = edit_of(path, move)
    with meanwhile({"exchange-looked": tidy}):
        edit.make()
    assert left(path.parent) == ({} if edit.after is None else {path.name: edit.after.encode()})


@pytest.mark.parametrize("point", ["disk-write", "disk-sync"])
@pytest.mark.parametrize("move", ["new", "replaced"])
def test_a_full_disk_leaves_all_as_it_was(move: str, point: str, path: Path) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    edit = edit_of(path, move)
    with meanwhile({point: full}), pytest.raises(BackendError, match=r"No space left.*it is unchanged"):
        edit.make()
    assert left(path.parent) == ({} if edit.before is None else {path.name: edit.before.encode()})


def make(path: str, move: str, others: str) -> None:
    """In a process of its own: the edit, and if so somebody who writes in its last instant."""
    killing = crash_points.set_hook(None)
    assert killing is not None
    edit = edit_of(Path(path), move)

    def hook(name: str) -> None:
        if others and name == "exchange-staged":
            written_anew(Path(path))
        killing(name)

    crash_points.set_hook(hook)
    edit.make()


@pytest.mark.parametrize("others", ["", "others"])
@pytest.mark.parametrize("point", ["staged", "moved", "looked", "given-back"])
@pytest.mark.parametrize("move", ["replaced", "removed"])
def test_a_kill_leaves_one_whole_version_and_loses_none_of_others(
    move: str, point: str, others: str, path: Path
) -> None:
    done = crash.run(f"exchange-{point}", 1, ["tests.agents.test_settings_race:make", path, move, others])
    reached = (point != "given-back" or others) and (point != "looked" or not others)
    assert (done.returncode == crash.KILLED) == bool(reached), done.stderr
    files = left(path.parent)
    whole = edit_of(path.with_name("again.json"), move)
    versions = {(text or "").encode() for text in (whole.before, whole.after)} | {OTHERS}
    assert files.get(path.name, b"") in versions
    assert not others or OTHERS in files.values()


# --- AGENTS.md, which is a human's own ---


def test_rules_that_a_human_writes_meanwhile_stay(tmp_path: Path) -> None:
    rules = tmp_path / "AGENTS.md"
    rules.write_bytes(b"old\n")
    for change in (write_section, remove_section):
        with (
            meanwhile({"exchange-staged": lambda: written_in_place(rules)}),
            pytest.raises(ConflictError, match="changed meanwhile"),
        ):
            change(tmp_path)
        assert left(tmp_path) == {"AGENTS.md": OTHERS}
        write_section(tmp_path)
