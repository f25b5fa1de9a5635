"""A repository goes to another machine, with everything that plain git shows of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

from takeback.core.events import Did, Mark
from takeback.errors import CorruptionError
from takeback.ports.progress import silent
from takeback.ports.resource import Swapped
from takeback.resources.git.mirror import travel
from takeback.testing import crash

from . import travelling
from .conftest import made
from .desk import Desk, git, picture
from .test_taking_back import EVERYTHING, prepared


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


def bundles(bucket: Path) -> list[Path]:
    return sorted(path for path in bucket.rglob("git/objects/*") if path.is_file())


def send(desk: Desk, bucket: Path) -> Mark:
    return travelling.sent(desk.root, desk.home, bucket)


def bring(desk: Desk, mark: Mark, there: Path, bucket: Path) -> None:
    done = travelling.brought(mark, there, desk.tb.state / "packs", bucket)
    assert unsound(done) == []
    shutil.copytree(
        desk.root, there, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git")
    )


def unsound(done: Iterable[Swapped]) -> list[tuple[str, str]]:
    return [(one.target.name, one.why) for one in done if one.did is not Did.RESTORED or not one.verified]


def differing(desk: Desk, there: Path) -> list[str]:
    """What plain git does not say alike here and there."""
    one, other = desk.picture(), picture(there)
    # A linked worktree is named by its full path, which is another one there.
    return [name for name in one if one[name] != other[name] and name != "worktrees"]


def test_a_repository_with_everything_in_progress_arrives_as_it_was(
    desk: Desk, bucket: Path, tmp_path: Path
) -> None:
    prepared(desk)
    desk.agent(EVERYTHING)
    bring(desk, send(desk, bucket), tmp_path / "there", bucket)
    assert differing(desk, tmp_path / "there") == []
    git(tmp_path / "there", "fsck", "--full", "--strict")


def test_a_repository_with_sha256_arrives(tmp_path: Path, bucket: Path) -> None:
    desk = made(tmp_path / "sha256", tmp_path / "sha256-state", "--object-format=sha256")
    bring(desk, send(desk, bucket), tmp_path / "there", bucket)
    assert differing(desk, tmp_path / "there") == []
    desk.tb.close()


def test_only_what_is_new_is_sent(desk: Desk, bucket: Path) -> None:
    send(desk, bucket)
    (first,) = bundles(bucket)
    send(desk, bucket)
    assert bundles(bucket) == [first]
    desk.commit("c", "three\n")
    send(desk, bucket)
    (second,) = set(bundles(bucket)) - {first}
    assert second.stat().st_size < first.stat().st_size


def test_a_pack_of_what_was_sent_is_not_sent_again(desk: Desk, bucket: Path, tmp_path: Path) -> None:
    send(desk, bucket)
    desk.git("gc", "-q")
    send(desk, bucket)
    assert len(bundles(bucket)) == 1
    desk.commit("c", "three\n")
    desk.git("gc", "-q")
    bring(desk, send(desk, bucket), tmp_path / "there", bucket)
    assert differing(desk, tmp_path / "there") == []


def test_objects_of_a_repository_that_is_gone_come_along(desk: Desk, bucket: Path, tmp_path: Path) -> None:
    """An undo of what removed it needs them, on whatever machine."""
    earlier, before = send(desk, bucket), desk.picture()
    shutil.move(desk.root / ".git", tmp_path / "gone")
    there = tmp_path / "there"
    bring(desk, send(desk, bucket), there, bucket)
    assert not (there / ".git").exists()
    # From here on without the bucket: what is needed is here.
    shutil.rmtree(bucket)
    bring(desk, earlier, there, bucket)
    after = picture(there)
    assert [name for name in before if before[name] != after[name] and name != "worktrees"] == []


def test_large_files_come_in_pieces(
    desk: Desk, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travel, "BUNDLE_BYTES", 100)
    desk.git("gc", "-q")
    bring(desk, send(desk, bucket), tmp_path / "there", bucket)
    assert differing(desk, tmp_path / "there") == []
    assert len(bundles(bucket)) > 3


def test_a_damaged_bundle_brings_nothing(desk: Desk, bucket: Path, tmp_path: Path) -> None:
    mark = send(desk, bucket)
    for path in bundles(bucket):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match="damaged; nothing was changed"):
        bring(desk, mark, tmp_path / "there", bucket)
    assert not (tmp_path / "there/.git").exists()


def test_an_object_that_is_not_what_its_name_says_is_not_brought(
    desk: Desk, bucket: Path, tmp_path: Path
) -> None:
    mark = send(desk, bucket)
    shelf = travelling.shelf_at(bucket)
    (name,) = shelf.names("git/")
    pieces = msgspec.msgpack.decode(shelf.get(name), type=list[travel.Piece])
    false = [msgspec.structs.replace(pieces[0], data=pieces[1].data, size=len(pieces[1].data)), *pieces[1:]]
    data = msgspec.msgpack.encode(false)
    bundles(bucket)[0].unlink()
    shelf.put_new(f"git/objects/{blake3(data).hexdigest()}", data)
    with pytest.raises(CorruptionError, match="damaged or incomplete"):
        bring(desk, mark, tmp_path / "there", bucket)
    assert not (tmp_path / "there/.git").exists()


@pytest.mark.parametrize("name", ["../../escape", "pack-00.sh", "a" * 37])
def test_a_name_that_leads_elsewhere_is_refused(bucket: Path, tmp_path: Path, name: str) -> None:
    shelf = travelling.shelf_at(bucket)
    data = msgspec.msgpack.encode([travel.Piece("ab", name, 0, 1, b"x")])
    shelf.put_new(f"git/objects/{blake3(data).hexdigest()}", data)
    with pytest.raises(CorruptionError, match="which is not a git object"):
        travel.Travel(tmp_path / "objects", shelf, silent).fetch()
    assert not list(tmp_path.rglob("*escape*"))


@pytest.mark.parametrize(
    "point, commit",
    [
        ("travel-sent", False),
        ("travel-sent", True),
        ("travel-noted", True),
        ("git-object-linked", True),
    ],
)
def test_killed_on_the_way_there_nothing_is_left_out(
    desk: Desk, bucket: Path, tmp_path: Path, point: str, commit: bool
) -> None:
    if commit:
        send(desk, bucket)
        desk.commit("c", "three\n")
    command: list[str | Path] = ["tests.resources.git.travelling:send", desk.root, desk.home, bucket]
    assert crash.run(point, 1, command).returncode == crash.KILLED
    bring(desk, send(desk, bucket), tmp_path / "there", bucket)
    assert differing(desk, tmp_path / "there") == []


@pytest.mark.parametrize("point", ["travel-arrived", "git-objects-given", "git-lock-renamed"])
def test_killed_on_the_way_here_it_can_be_called_again(
    desk: Desk, bucket: Path, tmp_path: Path, point: str
) -> None:
    mark, there, packs = send(desk, bucket), tmp_path / "there", desk.tb.state / "packs"
    command: list[str | Path] = ["tests.resources.git.travelling:bring", mark.state, there, packs, bucket]
    assert crash.run(point, 1, command).returncode == crash.KILLED
    bring(desk, mark, there, bucket)
    assert differing(desk, there) == []
