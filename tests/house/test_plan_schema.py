"""docs/plan.schema.json is what a plan is today."""

from __future__ import annotations

from takeback.cli.plan_schema import schema
from tests.house.repository import document


def test_the_schema_is_made_from_the_plan() -> None:
    stale = "run: python -m takeback.cli.plan_schema > docs/plan.schema.json"
    assert document("docs/plan.schema.json") == schema(), stale
