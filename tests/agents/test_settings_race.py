"""Somebody writes the settings, or the disk fails, in the very moment in which we do: nobody's version is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback import faults
from takeback.agents.section import remove_section, write_section
from takeback.agents.settings import apply
from takeback.errors import BackendError, ConflictError
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


@contextmanager
def meanwhile(deeds: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    """Others do something each time that we pass a named place."""

    def hook(name: str) -> None:
        if name in deeds:
            deeds[name]()

    with crash.hooked(hook):
        yield


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


def interrupt() -> None:
    raise KeyboardInterrupt


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
    with meanwhile({point: full}), pytest.raises(BackendError, match=r"No space left.*it is as it was"):
        edit.make()
    assert left(path.parent) == ({} if edit.before is None else {path.name: edit.before.encode()})


def make(path: str, move: str, others: str) -> None:
    """In a process of its own: the edit, and if so somebody who writes in its last instant."""
    killing = faults.set_hook(None)
    assert killing is not None
    edit = edit_of(Path(path), move)

    def hook(name: str) -> None:
        if others and name == "exchange-staged":
            written_anew(Path(path))
        killing(name)

    faults.set_hook(hook)
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
