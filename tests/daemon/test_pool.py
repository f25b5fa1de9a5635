"""Workspaces that stay open: one thread at a time, not too many, and none after an error."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from takeback.daemon.pool import Pool
from takeback.errors import BackendError
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


class Opening:
    """Opens real workspaces, and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[str] = []

    def __call__(self, root: Path) -> Workspace:
        self.opened.append(root.name)
        return open_workspace(root, home=self.folder / "state")

    def root(self, name: str) -> Path:
        root = self.folder / name
        root.mkdir(exist_ok=True)
        return root


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    return Opening(tmp_path)


def test_a_workspace_stays_open_and_sees_what_changed(opening: Opening) -> None:
    pool, root = Pool(opening), opening.root("a")
    with pool.workspace(root) as workspace:
        workspace.save("first")
    (root / "file").write_text("x")
    with pool.workspace(root) as again:
        assert again is workspace
        assert [str(change.target) for change in again.drift()] == [".", "file"]
    assert opening.opened == ["a"]
    pool.close()


def test_the_one_that_was_not_used_for_longest_is_closed(opening: Opening) -> None:
    pool = Pool(opening, open_max=2)
    for name in ("a", "b", "a", "c"):
        with pool.workspace(opening.root(name)) as workspace:
            workspace.save()
    assert [root.name for root in pool.open()] == ["a", "c"]
    pool.close()
    assert pool.open() == {}


def test_after_an_error_it_is_opened_anew(opening: Opening) -> None:
    pool, root = Pool(opening), opening.root("a")
    with pytest.raises(ZeroDivisionError), pool.workspace(root):
        raise ZeroDivisionError
    with pool.workspace(root) as workspace:
        workspace.save()
    assert opening.opened == ["a", "a"]
    pool.close()


def test_one_thread_at_a_time(opening: Opening) -> None:
    pool = Pool(opening, open_max=1)
    inside: list[str] = []
    seen: list[int] = []

    def use(name: str) -> None:
        for _ in range(5):
            with pool.workspace(opening.root(name)) as workspace:
                inside.append(name)
                seen.append(inside.count(name))
                workspace.save()
                inside.remove(name)

    threads = [threading.Thread(target=use, args=(name,)) for name in ("a", "a", "b", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1} and len(seen) == 20
    pool.close()


def test_a_journal_that_cannot_be_read_for_a_moment_holds_up_nobody(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn was kept by whoever failed at it: from then on every event of the workspace was refused."""
    pool, root = Pool(opening, wait_s=60.0), opening.root("a")
    with pool.workspace(root) as workspace:
        workspace.save("first")

    def broken() -> None:
        raise BackendError("the journal is locked")

    monkeypatch.setattr(workspace.parts.ledger, "refresh", broken)
    with pool.workspace(root) as again:
        again.save("second")
    assert opening.opened == ["a", "a"]
    pool.close()
