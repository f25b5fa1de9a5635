"""A repository goes to another machine, with everything that plain git shows of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from takeback.core.events import Did
from takeback.errors import CorruptionError
from takeback.opening import open_workspace
from takeback.resources.git import travel
from takeback.resources.git.resource import Git

from .conftest import made
from .desk import Desk, git, picture
from .test_taking_back import EVERYTHING, prepared


class Folder:
    """The shared store as a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.put = 0

    def put_new(self, name: str, data: bytes) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.put += 1

    def get(self, name: str) -> bytes:
        return (self.place / name).read_bytes()

    def names(self, under: str) -> Iterable[str]:
        found = [str(path.relative_to(self.place)) for path in self.place.rglob("*") if path.is_file()]
        return [name for name in found if name.startswith(under)]


@pytest.fixture
def shelf(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "shelf")


def shared(desk: Desk, shelf: Folder) -> Git:
    """The repository, with its objects going to the shelf too."""
    found = desk.tb.git
    found._shelf = shelf
    found._mirrors.clear()
    return found


def brought(desk: Desk, shelf: Folder, there: Path) -> dict[str, str]:
    """Another machine with the content of this one; what plain git says of the repository there."""
    mark = shared(desk, shelf).mark()
    there.mkdir()
    with open_workspace(there, home=there.with_name(f"{there.name}-state"), watching=False) as other:
        # What is no object is in the content store, which other machines read.
        other.git._blobs = desk.tb.store
        other.git._contents = desk.tb.git._contents
        other.git._observer.reader = type(other.git._observer.reader)(
            other.git._observer.place, other.git._contents
        )
        other.git._shelf = shelf
        done = other.git.bring(mark)
        assert [(one.target.name, one.why) for one in done if one.did is not Did.RESTORED] == []
        assert all(one.verified for one in done)
        shutil.copytree(
            desk.root, there, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git")
        )
    return picture(there)


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    # A linked worktree is named by its full path, which is another one there.
    return [name for name in one if one[name] != other[name] and name != "worktrees"]


def test_a_repository_with_everything_in_progress_arrives_as_it_was(
    desk: Desk, shelf: Folder, tmp_path: Path
) -> None:
    prepared(desk)
    desk.agent(EVERYTHING)
    assert differing(brought(desk, shelf, tmp_path / "there"), desk.picture()) == []
    git(tmp_path / "there", "fsck", "--full", "--strict")


def test_a_repository_with_sha256_arrives(tmp_path: Path, shelf: Folder) -> None:
    desk = made(tmp_path / "sha256", tmp_path / "sha256-state", "--object-format=sha256")
    assert differing(brought(desk, shelf, tmp_path / "there"), desk.picture()) == []
    desk.tb.close()


def test_only_what_is_new_is_sent(desk: Desk, shelf: Folder) -> None:
    repository = shared(desk, shelf)
    repository.mark()
    assert shelf.put == 1
    repository.mark()
    assert shelf.put == 1
    desk.commit("c", "three\n")
    repository.mark()
    assert shelf.put == 2
    first, second = sorted((len(shelf.get(name)) for name in shelf.names("git/")), reverse=True)
    assert second < first


def test_a_pack_of_what_was_sent_is_not_sent_again(desk: Desk, shelf: Folder, tmp_path: Path) -> None:
    repository = shared(desk, shelf)
    repository.mark()
    desk.git("gc", "-q")
    repository.mark()
    assert shelf.put == 1
    desk.commit("c", "three\n")
    desk.git("gc", "-q")
    assert differing(brought(desk, shelf, tmp_path / "there"), desk.picture()) == []


def test_large_files_come_in_pieces(
    desk: Desk, shelf: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travel, "BUNDLE_BYTES", 100)
    desk.git("gc", "-q")
    assert differing(brought(desk, shelf, tmp_path / "there"), desk.picture()) == []
    assert shelf.put > 3


def test_a_damaged_bundle_brings_nothing(desk: Desk, shelf: Folder, tmp_path: Path) -> None:
    shared(desk, shelf).mark()
    for name in shelf.names("git/"):
        path = shelf.place / name
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match="damaged; nothing was brought"):
        brought(desk, shelf, tmp_path / "there")
    assert not (tmp_path / "there/.git").exists()


@pytest.mark.parametrize("name", ["../../escape", "pack-00.sh", "a" * 37])
def test_a_name_that_leads_elsewhere_is_refused(desk: Desk, shelf: Folder, tmp_path: Path, name: str) -> None:
    bundle = travel.msgspec.msgpack.encode([travel.Piece("ab", name, 0, 1, b"x")])
    shelf.put_new(f"git/objects/{travel.blake3(bundle).hexdigest()}", bundle)
    with pytest.raises(CorruptionError, match="no git object"):
        travel.Travel(tmp_path / "objects", shelf, lambda _what, items, _total: items).fetch()
    assert not list(tmp_path.rglob("*escape*"))
