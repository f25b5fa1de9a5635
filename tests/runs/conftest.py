from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from takeback.engine import ledger
from takeback.resources.calls import resource
from takeback.workspace import known
from takeback.workspace.opening import open_workspace
from tests.runs import service
from tests.runs.scene import Scene


@pytest.fixture(scope="session")
def _service() -> Iterator[None]:
    with service.running():
        yield


@pytest.fixture
def scene(tmp_path: Path, _service: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A folder with one file in it. Afterwards the journal is sound, whatever happened."""
    with _opened(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def scenes(tmp_path: Path, _service: None) -> Callable[[str], AbstractContextManager[Scene]]:
    """Scenes with a history that is the `fold` of its journal, or asked of an `index` that has nothing at hand."""

    @contextmanager
    def opened(reading: str) -> Iterator[Scene]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ledger, "UNINDEXED_MAX", 1)
            patch.setattr(ledger, "LEFT_UNINDEXED", 1)
            patch.setattr(ledger, "AT_HAND_MAX", 0)
            if reading == "fold":
                patch.setattr(known, "StoredIndex", lambda *_: None)
            folder = tmp_path / reading
            folder.mkdir()
            with _opened(folder, patch) as made:
                yield made
                history = made.tb.history
                assert history.postings.position == (0 if reading == "fold" else history.seq)

    return opened


@contextmanager
def _opened(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Scene]:
    patch.setattr(resource, "PAUSE_S", 0.0)
    service.ask("reset")
    root = folder / "work"
    root.mkdir()
    (root / "plan").write_text("old")
    patch.setenv("TAKEBACK_HOME", str(folder / "state"))
    made = Scene(root, folder / "state", open_workspace(root, watching=False))
    yield made
    made.sound()
    made.tb.close()
