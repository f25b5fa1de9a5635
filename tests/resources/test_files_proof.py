"""The deep look at the files: a lie of the disk is found, by one process or two, and nothing is stored by looking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.resources.files.look import proof
from takeback.system import second_process
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


@pytest.fixture(params=["one process", "two processes"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    two = request.param == "two processes"
    monkeypatch.setattr(proof, "PARALLEL_BYTES_MIN", 0)
    monkeypatch.setattr(second_process, "possible", lambda: two)


def lie(path: Path) -> None:
    """Other bytes under the same size and times, as a bad disk gives them: here the key is what is bent."""
    before = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def believe(tb: Workspace, name: str) -> None:
    """Let the record have the times that the file has now."""
    from takeback.resources.files.entry import key_of
    from takeback.resources.files.tree.tree import TreeRow

    folder = tb.parts.files._observer.known.find(os.fsencode(os.path.dirname(name)))
    assert folder is not None
    base = os.fsencode(os.path.basename(name))
    folder.files[base] = TreeRow(folder.files[base].entry, key_of((tb.root / name).stat()))


@pytest.mark.usefixtures("processes")
def test_a_lie_of_the_disk_is_found(tmp_path: Path) -> None:
    root = tmp_path / "work"
    for folder in ("a", "b", "c/d"):
        (root / folder).mkdir(parents=True)
        for n in range(5):
            (root / folder / f"{n}").write_bytes(b"%s %d" % (folder.encode(), n))
    (root / "large").write_bytes(os.urandom(5 << 20))
    with open_workspace(root, home=tmp_path / "state", watching=False) as tb:
        tb.save()
        assert tb.verify(deep=True) == []
        for name in ("a/1", "c/d/4", "large"):
            lie(root / name)
            believe(tb, name)
        size = tb.parts.store.size_bytes()
        assert sorted(found.place for found in tb.verify(deep=True)) == ["a/1", "c/d/4", "large"]
        assert tb.parts.store.size_bytes() == size
