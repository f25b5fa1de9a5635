"""With CI=true a skipped test is a failed one, and the long sweeps run only on demand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT

SAMPLE = """
import pytest

def test_runs(): pass
def test_skips(): pytest.skip("no database here")
@pytest.mark.skipif(True, reason="not on this platform: no inotify")
def test_cannot(): pass
@pytest.mark.sweep
def test_sweeps(): pass
"""


def outcome(folder: Path, *args: str, ci: str, **files: str) -> tuple[int, str]:
    """Run pytest with our conftest over these files; give its exit code and last line."""
    shutil.copy(ROOT / "tests/conftest.py", folder)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = sweep\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *args],
        cwd=folder,
        env=os.environ | {"CI": ci},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "ci, code, counts",
    [
        ("true", 1, "1 failed, 1 passed, 1 skipped, 1 deselected"),
        ("", 0, "1 passed, 2 skipped, 1 deselected"),
    ],
)
def test_a_skip_fails_only_in_ci(tmp_path: Path, ci: str, code: int, counts: str) -> None:
    got, last = outcome(tmp_path, ci=ci, test_sample=SAMPLE)
    assert (got, last.rpartition(" in ")[0]) == (code, counts)


def test_a_skipped_file_fails_too(tmp_path: Path) -> None:
    skipping = "import pytest; pytest.importorskip('no_such_module')"
    code, last = outcome(tmp_path, ci="true", test_sample=skipping)
    assert code != 0
    assert "1 error" in last


def test_all_runs_the_sweeps(tmp_path: Path) -> None:
    code, last = outcome(tmp_path, "--all", ci="", test_sample=SAMPLE)
    assert code == 0
    assert last.startswith("2 passed, 2 skipped")
