"""A workspace goes to a shared store with its content, and comes back with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import takeback
from takeback.errors import ContentGone, StoreMoved, UsageError
from takeback.ports.progress import silent
from takeback.resources.git.mirror.mirror import is_file
from takeback.resources.git.mirror.travel import Travel
from takeback.storage.content.bucket import SharedStore
from takeback.storage.content.packs import PackStore
from takeback.storage.state import location
from takeback.workspace.store import move
from tests.storage.postgres.world import STORE
from tests.storage.s3.world import BUCKET

pytestmark = pytest.mark.usefixtures("server", "s3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "kept").write_text("mine" * 1000)
    with takeback.open(made) as tb:
        tb.save("before")
        with tb.recording("agent"):
            (made / "kept").write_text("spoiled" * 1000)
    return made


def go(root: Path, to: str, blobs: str = "", name: str = "") -> move.Move:
    with takeback.open(root) as tb:
        return move.move(tb, to, name, blobs)


def here_alone(root: Path) -> set[bytes]:
    """What the history names and this machine has not, whatever a bucket has."""
    with takeback.open(root) as tb:
        needed, packs = tb.needed(), PackStore(tb.state / "packs")
        assert needed
        missing = packs.missing(needed)
        packs.close()
        return missing


def forget_content(root: Path) -> None:
    """As on a machine that has fetched nothing yet."""
    with takeback.open(root) as tb:
        state = tb.state
    shutil.rmtree(state / "packs")


def test_content_goes_with_it_and_comes_back(root: Path) -> None:
    done = go(root, f"${STORE}", f"${BUCKET}", "content")
    assert done.pieces and done.blobs.startswith("s3://")
    with takeback.open(root) as tb:
        assert isinstance(tb.parts.store, SharedStore)
        assert tb.parts.store.unshared(tb.needed()) == set()
    forget_content(root)
    with takeback.open(root) as tb:
        assert tb.undo().verdict == "clean"
    assert (root / "kept").read_text() == "mine" * 1000
    forget_content(root)
    go(root, move.LOCAL)
    assert here_alone(root) == set()
    with takeback.open(root) as tb:
        assert location.read(tb.state) is None and not isinstance(tb.parts.store, SharedStore)
        assert tb.redo().verdict == "clean"
        assert tb.verify(deep=True) == []


def test_a_bucket_comes_later_and_is_changed(root: Path, tmp_path: Path) -> None:
    go(root, f"${STORE}", name="later")
    first, second = f"file://{tmp_path}/first", f"file://{tmp_path}/second"
    go(root, f"${STORE}", first)
    forget_content(root)
    go(root, f"${STORE}", second)
    shutil.rmtree(tmp_path / "first")
    forget_content(root)
    with takeback.open(root) as tb:
        assert tb.undo().verdict == "clean"
        assert tb.verify(deep=True) == []
    with pytest.raises(UsageError, match="already"):
        go(root, f"${STORE}", second)


def test_whoever_has_it_open_does_not_go_on_with_the_old_bucket(root: Path, tmp_path: Path) -> None:
    """Else a record would name content that nobody finds in the new one. Whether it has recorded before or not."""
    go(root, f"${STORE}", name="open-meanwhile")
    with takeback.open(root) as old, takeback.open(root) as older:
        older.save("with no bucket")
        assert old.parts.store.stats().blobs  # it has only looked
        for where in ("first", "second"):
            done = go(root, f"${STORE}", f"file://{tmp_path}/{where}")
            assert not done.with_history
            (root / "kept").write_text(where)
            for one in (old, older):
                with pytest.raises(StoreMoved, match="another bucket"):
                    one.save("lost?")
    with takeback.open(root) as tb:
        tb.save("found")
        assert tb.parts.store.unshared(tb.needed()) == set()


def test_it_does_not_leave_what_is_not_there_any_more(root: Path, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    go(root, f"${STORE}", f"file://{bucket}", "gone")
    forget_content(root)
    hidden = bucket.rename(tmp_path / "hidden")
    bucket.mkdir()
    with pytest.raises(ContentGone, match="neither here nor in the bucket; nothing was moved"):
        go(root, move.LOCAL)
    with takeback.open(root) as tb:
        kept = location.read(tb.state)
        assert kept and kept.store and not kept.moving and not tb.journal.moving.notice()
    shutil.rmtree(bucket)
    hidden.rename(bucket)
    go(root, move.LOCAL)
    assert here_alone(root) == set()


def test_a_repository_goes_from_bucket_to_bucket(root: Path, tmp_path: Path) -> None:
    """What was sent to one is not taken to be in another, nor what was made in between."""

    def commit(name: str) -> None:
        (root / name).write_text(name)
        for words in (["add", "-A"], ["commit", "-qm", name]):
            subprocess.run(["git", *words], cwd=root, check=True)
        with takeback.open(root) as tb:
            tb.save(name)

    def objects_in(bucket: Path) -> int:
        """How many of the kept objects come back from there."""
        with takeback.open(root) as tb:
            assert tb.parts.store.shelf
            fresh = tmp_path / f"from {bucket.name}" / "objects"
            Travel(fresh, tb.parts.store.shelf, silent).fetch()
            return sum(path.is_file() and is_file(path.parent.name, path.name) for path in fresh.glob("*/*"))

    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
    commit("first")
    one, two = tmp_path / "one", tmp_path / "two"
    go(root, f"${STORE}", f"file://{one}", "git")
    assert objects_in(one) == 4  # a commit, a tree, two files
    go(root, move.LOCAL)
    commit("second")
    go(root, f"${STORE}", f"file://{two}", "git")
    assert objects_in(two) == 7


def test_a_bucket_needs_a_server(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no bucket"):
        go(root, move.LOCAL, f"file://{tmp_path}/bucket")
    assert os.listdir(tmp_path) == ["work"]
