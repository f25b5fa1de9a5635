"""The command line in this process, on an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import call, folder

__all__ = ["call", "folder"]


@pytest.fixture
def root(folder: Path) -> Path:
    """The folder that commands work on."""
    return folder
