"""docs/CLI.md, docs/plan.schema.json, docs/pictures and scripts/ are what the code makes of them today."""

from __future__ import annotations

from pathlib import Path

from tests.house.repository import ROOT
from tools import docs


def test_each_file_is_made_from_the_code() -> None:
    assert docs.stale(ROOT) == [], "run: ./dev docs"


def test_what_is_stale_is_written_and_named(tmp_path: Path) -> None:
    assert docs.write(tmp_path) == list(docs.made()) and docs.stale(tmp_path) == []
    (tmp_path / "docs/CLI.md").write_text("# Old\n")
    assert docs.stale(tmp_path) == docs.write(tmp_path) == ["docs/CLI.md"]
    assert docs.stale(tmp_path) == docs.write(tmp_path) == []
    assert (tmp_path / "scripts/checkpoint_tool.py").stat().st_mode & 0o111
