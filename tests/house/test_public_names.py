"""The public names are a promise: one is added or taken away only on purpose."""

from __future__ import annotations

import takeback
from tests.house.repository import ROOT

FROZEN = ROOT / "tests/house/public_names.txt"


def test_public_names_are_frozen() -> None:
    promised = FROZEN.read_text(encoding="utf-8").split()
    assert sorted(takeback.__all__) == promised, (
        f"if this change is meant, write it down in {FROZEN.relative_to(ROOT)} and in changelog.d"
    )


def test_each_public_name_exists() -> None:
    assert [name for name in takeback.__all__ if not hasattr(takeback, name)] == []
