"""Programs that run with another time, where the machine has faketime."""

from __future__ import annotations

import shutil

import pytest


def another_time(at: str) -> list[str]:
    """Return the words that let the command behind them run at this time, such as `+1h`; else leave the test out."""
    faketime = shutil.which("faketime")
    if not faketime:
        pytest.skip("not on this platform: there is no faketime")
    return [faketime, "-f", at]
