"""Where the state of each workspace is kept, and how a moved one is known again."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from takeback.errors import BackendError, ConflictError, CorruptionError, FormatTooNew, UsageError
from takeback.storage.state.registry import CARD, Card, Registry, read_card
from takeback.testing import crash


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "home")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_what_was_not_created_is_not_found(registry: Registry, work: Path) -> None:
    assert registry.find(work) is None
    assert list(registry.cards()) == []
    assert not registry.home.exists(), "looking leaves no traces"


def test_created_once_and_found_ever_after(registry: Registry, work: Path) -> None:
    state = registry.create(work)
    assert registry.create(work) == state == registry.find(work)
    assert read_card(state).path == work
    assert [path for path, _ in registry.cards()] == [state]
    assert (registry.home.stat().st_mode & 0o777, state.stat().st_mode & 0o777) == (0o700, 0o700)


def test_two_folders_of_one_name_are_two_workspaces(registry: Registry, tmp_path: Path) -> None:
    states = set()
    for above in ("a", "b"):
        (tmp_path / above / "work").mkdir(parents=True)
        states.add(registry.create(tmp_path / above / "work"))
    assert len(states) == 2


@pytest.mark.parametrize(
    "name", [b"with space", b"\xff\xfe", b"new\nline", b"..x", b"-x", b"\xe2\x82\xac" * 60, b"a" * 200]
)
def test_any_name_of_a_folder(name: bytes, registry: Registry, tmp_path: Path) -> None:
    root = Path(os.fsdecode(bytes(tmp_path) + b"/" + name))
    root.mkdir()
    state = registry.create(root)
    assert registry.find(root) == state and state.parent == registry.folder
    assert read_card(state).path == root
    assert state.name.isascii() and state.name.isprintable() and len(state.name) <= 60


def test_the_nearest_workspace_counts(registry: Registry, work: Path) -> None:
    deep = work / "a" / "b"
    deep.mkdir(parents=True)
    assert registry.nearest(deep) is None
    registry.create(work)
    assert registry.nearest(deep) == registry.nearest(work) == work
    registry.create(work / "a")
    assert registry.nearest(deep) == work / "a"
    assert registry.nearest(work) == work


def test_a_moved_folder_is_known_and_connected_again(registry: Registry, work: Path, tmp_path: Path) -> None:
    state = registry.create(work)
    (state / "journal.db").write_text("history")
    work.rename(tmp_path / "moved")
    with pytest.raises(ConflictError, match="has been moved") as caught:
        registry.find(tmp_path / "moved")
    assert str(work) in caught.value.message and "takeback init" in caught.value.hint
    connected = registry.create(tmp_path / "moved")
    assert (connected / "journal.db").read_text() == "history"
    assert registry.find(tmp_path / "moved") == connected
    assert [card.path for _, card in registry.cards()] == [tmp_path / "moved"]


def test_a_move_there_and_back(registry: Registry, work: Path, tmp_path: Path) -> None:
    state = registry.create(work)
    (state / "journal.db").write_text("history")
    work.rename(tmp_path / "moved")
    registry.create(tmp_path / "moved")
    (tmp_path / "moved").rename(work)
    assert (registry.create(work) / "journal.db").read_text() == "history"


def test_a_folder_at_another_inode_is_not_the_moved_one(
    registry: Registry, work: Path, tmp_path: Path
) -> None:
    registry.create(work)
    (tmp_path / "other").mkdir()
    work.rmdir()
    assert registry.find(tmp_path / "other") is None


def test_a_new_folder_with_the_inode_of_one_that_was_removed(
    registry: Registry, work: Path, tmp_path: Path
) -> None:
    """File systems use numbers again: a new, empty folder has not become the old workspace."""
    registry.create(work)
    inode = work.stat().st_ino
    work.rmdir()
    for n in range(200):
        new = tmp_path / f"new{n}"
        new.mkdir()
        if new.stat().st_ino == inode:
            break
    else:
        pytest.skip("not on this platform: numbers of removed folders are not used again")
    assert registry.find(new) is None


def test_a_card_that_a_crash_left_half_made(registry: Registry, work: Path) -> None:
    """What was written is not there before it is durable, and the next creation succeeds."""
    with crash.at("disk-sync", _stop), pytest.raises(BackendError):
        registry.create(work)
    assert registry.find(work) is None
    state = registry.create(work)
    assert registry.find(work) == state


def _stop() -> None:
    raise OSError(5, "Input/output error")


def test_a_disk_error_is_a_sentence(registry: Registry, work: Path) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    with crash.at("disk-write", full), pytest.raises(BackendError, match="No space left") as caught:
        registry.create(work)
    assert "nothing was recorded" in caught.value.message
    assert registry.find(registry.create(work).parent) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": "x"}', b"\xff"])
def test_a_damaged_card_is_named_and_hides_no_other(
    data: bytes, registry: Registry, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "sound").mkdir()
    sound, state = registry.create(tmp_path / "sound"), registry.create(work)
    (state / CARD).write_bytes(data)
    with pytest.raises(CorruptionError, match=CARD) as caught:
        registry.find(work)
    assert "takeback init" in caught.value.hint
    assert [path for path, _ in registry.cards()] == [sound]
    # As the hint says.
    (state / CARD).unlink()
    assert registry.create(work) == state


def test_a_card_of_a_later_format_is_left_alone(registry: Registry, work: Path, tmp_path: Path) -> None:
    state = registry.create(work)
    later = msgspec.structs.replace(read_card(state), format=99)
    (state / CARD).write_bytes(msgspec.json.encode(later))
    for ask in (registry.find, registry.create):
        with pytest.raises(FormatTooNew, match="newer Takeback"):
            ask(work)
    assert msgspec.json.decode((state / CARD).read_bytes(), type=Card) == later
    # And another workspace beside it can be used all the same.
    (tmp_path / "other").mkdir()
    assert registry.find(tmp_path / "other") is None
    assert registry.create(tmp_path / "other").exists()


def test_a_root_that_is_not_there(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        registry.create(tmp_path / "missing")
