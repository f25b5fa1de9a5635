"""The repository as the house rules see it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "takeback"


def files(root: Path = ROOT) -> list[Path]:
    """Every file that is tracked or would be: what git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    paths = {root / name for name in listed.stdout.decode().split("\0") if name}
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def python_files(folder: Path = SOURCE) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def document(name: str) -> str:
    """The text of a document that has to be there."""
    path = ROOT / name
    assert path.exists(), f"{name} is missing"
    return path.read_text(encoding="utf-8")
