"""The first look at a large tree: read by several processes while it is still being found."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import takeback
from takeback.resources.files.look import capture
from takeback.storage.content.packs.ingest import parallel

FILES = 120
SETTLED_S = 0.05
"""What is younger than this is read with more care, and not with the others."""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(capture, "BULK_FILES_MIN", 20)
    monkeypatch.setattr(parallel, "WORTH_FILES", 20)
    monkeypatch.setattr(parallel, "BATCH_FILES", 8)
    root = tmp_path / "tree"
    for number in range(FILES):
        folder = root / f"{number % 7}/{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_bytes(b"%d\n" % number * (number + 1))
    time.sleep(SETTLED_S)
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("dies", [False, True])
def test_everything_is_kept_whether_or_not_a_worker_dies(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    dismiss = parallel._Worker.dismiss
    dismissed = []

    def ended(worker: parallel._Worker) -> None:
        dismissed.append(worker)
        if dies and worker._process is not None:
            worker._process.kill()
            worker._process.wait()
        dismiss(worker)

    monkeypatch.setattr(parallel._Worker, "dismiss", ended)
    before = contents(tree)
    with takeback.open(tree, home=tmp_path / "home") as tb:
        checkpoint = tb.save("first")
        assert len(dismissed) == 1
        assert tb.parts.files.counted() == (FILES, sum(map(len, before.values())))
        assert tb.verify(deep=True) == []
        for path in tree.rglob("*.txt"):
            path.write_text("wrecked")
        tb.restore(checkpoint)
    assert contents(tree) == before


def test_a_file_that_goes_while_the_tree_is_found_is_no_trouble(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tree / "6/2/41.txt"
    assert victim.exists()
    feed = parallel._Worker.feed

    def remove_and_feed(worker: parallel._Worker, work: object) -> None:
        victim.unlink(missing_ok=True)
        feed(worker, work)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel._Worker, "feed", remove_and_feed)
    with takeback.open(tree, home=tmp_path / "home") as tb:
        tb.save("first")
        assert tb.parts.files.counted()[0] == FILES - 1
        assert tb.verify(deep=True) == []
