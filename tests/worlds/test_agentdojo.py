"""Environments of others: AgentDojo's tasks fail at each position, and their world is as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.environments import driven

SAMPLES = {"banking": ("user_task_2", "user_task_12"), "workspace": ("user_task_15", "user_task_18")}
EVERY = {"banking": (16, 33, 14, 49), "workspace": (40, 84, 29, 124)}
"""How many tasks, calls, calls that change something, and rounds."""


def played(suite: str, folder: Path, *words: str) -> dict[str, Any]:
    done = driven("agentdojo", "tests.worlds.dojo_play", suite, str(folder), *words, timeout_s=500.0)
    assert done.stdout, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(700)
@pytest.mark.parametrize("suite", SAMPLES)
def test_some_tasks_come_back_wherever_they_fail(tmp_path: Path, suite: str) -> None:
    found = played(suite, tmp_path, *SAMPLES[suite])
    assert found["wrong"] == []
    assert found["tasks"] == 2 and found["deeds"] and found["rounds"] == found["calls"] + found["tasks"]


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", EVERY)
def test_every_task_comes_back_wherever_it_fails(tmp_path: Path, suite: str) -> None:
    found = played(suite, tmp_path)
    assert found["wrong"] == []
    assert tuple(found[name] for name in ("tasks", "calls", "deeds", "rounds")) == EVERY[suite]


@pytest.mark.timeout(700)
def test_an_undo_that_does_nothing_is_found(tmp_path: Path) -> None:
    found = played("banking", tmp_path, "forget=update_scheduled_transaction", "user_task_2")
    (text,) = found["wrong"]
    assert "world.bank_account.scheduled_transactions[1].amount was 1100.0 and is 1200.0" in text
