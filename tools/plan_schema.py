"""docs/plan.schema.json, generated from the Plan type by `./dev docs`."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core.plan import Plan

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> str:
    """Return the JSON Schema of a plan."""
    described: dict[str, Any] = {"$schema": DIALECT, "title": "Takeback plan", **msgspec.json.schema(Plan)}
    return msgspec.json.format(msgspec.json.encode(described), indent=2).decode() + "\n"
