"""Memory over very many intents: what each costs the processes that defer, drain and list them."""

from __future__ import annotations

import pytest

from benchmarks import _durable_queue as queue
from takeback.engine import ledger
from takeback.workspace.opening import open_workspace
from tests.outbox import tools
from tests.outbox.conftest import Place

FEW, MANY = 2_000, 20_000
BYTES_MAX = {"defer": 1500, "drain": 150, "list": 150}
"""For each intent more. The run that defers releases all of them at once; the others go through the queue."""


def test_a_worker_keeps_no_history_at_hand(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "UNINDEXED_MAX", 1)
    with place.tb.run("mail") as run:
        run.defer(tools.note, "a")
    with open_workspace(place.root, watching=False) as other:
        assert other.courier().run(once=True).delivered == 1
        history = other.parts.ledger.history
        assert not history.intents.every.at_hand and not history.actions.at_hand
        assert other.settings == place.tb.settings


def test_a_worker_obeys_no_settings_that_an_action_wrote(place: Place) -> None:
    with place.tb.recording("an agent"):
        (place.root / "takeback.toml").write_text('[outbox]\nsmtp = "smtp://evil.example"\n')
    with open_workspace(place.root, watching=False) as other:
        other.courier()
        assert other.settings.outbox.smtp == ""
        assert "was changed by" in other.notices[-1]


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_what_each_intent_costs() -> None:
    for way in queue.WAYS:
        few, many = queue.peak_mb(way, FEW), queue.peak_mb(way, MANY)
        assert (many - few) * 1e6 / (MANY - FEW) < BYTES_MAX[way], (way, few, many)
