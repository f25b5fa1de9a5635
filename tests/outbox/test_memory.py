"""Memory over very many intents: what each costs the processes that defer, drain and list them."""

from __future__ import annotations

import pytest

from benchmarks import _durable_queue as queue

FEW, MANY = 2_000, 20_000
BYTES_MAX = {"defer": 1500, "drain": 1500, "list": 150}
"""For each intent more. Who defers or drains has the history at hand, which knows of each; who lists has pages."""


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_what_each_intent_costs() -> None:
    for way in queue.WAYS:
        few, many = queue.peak_mb(way, FEW), queue.peak_mb(way, MANY)
        assert (many - few) * 1e6 / (MANY - FEW) < BYTES_MAX[way], (way, few, many)
