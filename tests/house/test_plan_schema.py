"""The schema of plans says what the reader says, and what the documents show is read as they say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from takeback.core.plan import parse_plan
from takeback.errors import UsageError
from takeback.settings.toml import Config, parse_config
from tests.house.repository import document
from tools.plan_schema import schema


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document(name), re.MULTILINE | re.DOTALL)


def test_the_plan_in_the_documents_is_one() -> None:
    (shown,) = blocks("docs/PLANS.md", "json")
    assert [step.id for step in parse_plan(shown.encode()).steps] == ["research", "write", "mail"]
    jsonschema_rs.validator_for(json.loads(schema()), offline=True).validate(json.loads(shown))


@pytest.mark.parametrize(
    "fault",
    [
        {"name": ""},
        {"steps": []},
        {"steps": [{"id": "a"}]},
        {"steps": [{"id": "a b", "tool": "m:f"}]},
        {"steps": [{"id": "a", "tool": "m:f", "retries": -1}]},
        {"steps": [{"id": "a", "tool": "m:f", "effect": "safe"}]},
        {"tools": {"x": "y"}},
        {"more": 1},
    ],
)
def test_the_schema_and_the_reader_refuse_the_same(fault: dict[str, object]) -> None:
    good = {"name": "x", "steps": [{"id": "a", "tool": "m:f"}]}
    validator = jsonschema_rs.validator_for(json.loads(schema()), offline=True)
    assert validator.is_valid(good)
    assert not validator.is_valid(good | fault)
    with pytest.raises(UsageError):
        parse_plan(json.dumps(good | fault).encode())


def test_the_settings_in_the_documents_are_read() -> None:
    defaults, example = blocks("docs/CONFIG.md", "toml")
    assert parse_config(defaults, Path("takeback.toml")) == Config()
    rules = parse_config(example, Path("takeback.toml")).rules
    assert rules.paths is not None
    assert rules.paths.deny == (".env", "*.pem")
    assert rules.effects.irreversible is None, "a call is asked about, and a command that is typed runs"
