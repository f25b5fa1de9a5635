"""Each adapter names the versions that work, the same as its extra, without importing its framework."""

from __future__ import annotations

import importlib
import importlib.metadata
import tomllib

import pytest

from takeback.errors import UsageError
from takeback.frameworks import supported
from tests.frameworks.environments import ROOT

ADAPTERS = {
    "agent-framework": (supported.AGENT_FRAMEWORK, "agent_framework", "TakebackMiddleware"),
    "google-adk": (supported.GOOGLE_ADK, "google_adk", "TakebackPlugin"),
    "pydantic-ai": (supported.PYDANTIC_AI, "pydantic_ai", "Takeback"),
}


@pytest.mark.parametrize("extra", ADAPTERS)
def test_an_extra_has_the_versions_that_work(extra: str) -> None:
    packages, _, _ = ADAPTERS[extra]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(map(str, packages)) == sorted(extras[extra])


@pytest.mark.parametrize("extra", ADAPTERS)
def test_a_framework_that_is_missing_or_too_new_is_named(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, module, name = ADAPTERS[extra]
    adapter = importlib.import_module(f"takeback.frameworks.{module}")
    with pytest.raises(UsageError, match=f"{packages[0].package} is not installed") as missing:
        getattr(adapter, name)
    assert f"pip install 'takeback[{extra}]'" in missing.value.hint
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "99.0")
    with pytest.raises(UsageError, match=f"{packages[0].package} 99.0 does not work") as refused:
        getattr(adapter, name)
    assert refused.value.hint == f"pip install '{packages[0]}'"
    with pytest.raises(AttributeError):
        _ = adapter.Nothing
