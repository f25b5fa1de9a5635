"""Several processes protect one folder for the first time, at the same moment."""

from __future__ import annotations

from pathlib import Path

from takeback.testing.forks import end, start
from takeback.workspace.opening import open_workspace


def opened(root: Path, home: Path, name: str) -> None:
    with open_workspace(root, home=home, watching=False) as tb:
        tb.save(name)


def test_opened_at_once(tmp_path: Path) -> None:
    for number in range(10):
        root, home = tmp_path / f"{number}" / "work", tmp_path / f"{number}" / "state"
        root.mkdir(parents=True)
        pids = [start(opened, root, home, f"{n}", errors=tmp_path / "errors") for n in range(4)]
        codes = [end(pid) for pid in pids]
        assert codes == [0] * 4, (tmp_path / "errors").read_text()
        with open_workspace(root, home=home, watching=False) as tb:
            assert list(tb.journal.check()) == [] and len(tb.history.checkpoints) == 4
