"""docs/CLI.md is what the commands say of themselves today."""

from __future__ import annotations

from takeback.cli.reference import reference
from tests.house.repository import document


def test_the_reference_is_made_from_the_commands() -> None:
    stale = "run: python -m takeback.cli.reference > docs/CLI.md"
    assert document("docs/CLI.md") == reference(), stale
