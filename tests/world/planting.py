"""Somebody plants a link in the middle of what Takeback does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.testing.crash import hooked


@contextmanager
def struck(wanted: int, strike: Callable[[], None]) -> Iterator[list[str]]:
    """Strike once, when the n-th named place is passed; gives the places that were passed."""
    passed: list[str] = []

    def hook(name: str) -> None:
        passed.append(name)
        if len(passed) == wanted:
            strike()

    with hooked(hook):
        yield passed


def lead_away(folder: Path, to: Path) -> None:
    """Put a link to elsewhere where a folder was."""
    os.rename(folder, folder.with_name("aside"))
    os.symlink(to, folder)
