"""The checkpointer, with the real LangGraph: its conformance suite, graphs of ours, and a killed process."""

from __future__ import annotations

import importlib.metadata
import signal
import sys
from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.frameworks import supported
from tests.frameworks.environments import driven, start
from tests.resources.postgres.world import Server

CASES = [
    *(("strict", store) for store in ("file", "postgres", "memory")),
    *(("permissive", store) for store in ("file", "postgres", "memory")),
    ("encrypted", "file"),
]


def address(store: str, server: Server) -> str:
    return server.make("") if store == "postgres" else {"file": "", "memory": "memory"}[store]


@pytest.mark.parametrize("serializer, store", CASES)
def test_it_conforms(serializer: str, store: str, server: Server, tmp_path: Path) -> None:
    module = "tests.frameworks.langgraph.conforming"
    done = driven("langgraph", module, serializer, address(store, server), str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FULL (8/8)" in done.stdout


@pytest.mark.parametrize("store", ["file", "postgres", "memory"])
def test_it_serves_real_graphs(store: str, server: Server, tmp_path: Path) -> None:
    done = driven("langgraph", "tests.frameworks.langgraph.scenes", address(store, server), str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed ") == 17, done.stdout


def test_what_a_killed_graph_had_stored_is_there(tmp_path: Path) -> None:
    module = "tests.frameworks.langgraph.endless"
    with start("langgraph", module, "run", str(tmp_path)) as graph:
        assert graph.stdout
        seen = 0
        for line in graph.stdout:
            seen = int(line)
            if seen == 20:
                graph.send_signal(signal.SIGKILL)
    assert graph.returncode == -signal.SIGKILL
    done = driven("langgraph", module, "look", str(tmp_path))
    assert done.returncode == 0, done.stderr
    # A step begins when the one before it is stored.
    assert int(done.stdout) >= seen - 1


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    import takeback.frameworks.langgraph

    assert "langgraph" not in sys.modules  # it is not even installed here
    with pytest.raises(UsageError, match="langgraph-checkpoint is not installed") as missing:
        _ = takeback.frameworks.langgraph.TakebackSaver
    assert "pip install 'takeback[langgraph]'" in missing.value.hint
    with pytest.raises(AttributeError, match="no attribute 'Saver'"):
        _ = takeback.frameworks.langgraph.Saver  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "version, works", [("4.2.9", False), ("4.3", True), ("4.30.1+local", True), ("5.0.0", False)]
)
def test_a_version_that_does_not_work_is_named(
    version: str, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    if works:
        supported.require("langgraph", supported.LANGGRAPH)
        return
    with pytest.raises(UsageError, match=f"langgraph-checkpoint {version} does not work") as refused:
        supported.require("langgraph", supported.LANGGRAPH)
    assert refused.value.hint == "pip install 'langgraph-checkpoint>=4.3,<5'"
