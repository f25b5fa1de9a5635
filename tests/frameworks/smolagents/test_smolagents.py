"""The recipe for smolagents, as its page has it: the contract of adapters, with both kinds of agents."""

from __future__ import annotations

import pytest

from tests.frameworks.contract import PREPARED, AdapterContract, World

pytestmark = pytest.mark.sweep


class TestSmolagents(AdapterContract):
    framework = "smolagents"
    words_are_memory = True

    @pytest.mark.parametrize("when", ["in book", "after book"])
    def test_an_agent_that_writes_code_calls_once(self, when: str, world: World) -> None:
        world.set(CODE="1")
        world.killed(when, "say", "prepare")
        account = world.agent("resume", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]
        world.agent("say", "both")
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.rooms == ["attic"] and world.files == ["a.txt"]

    def test_an_agent_that_writes_code_waits_for_approval(self, world: World) -> None:
        world.set(CODE="1")
        assert world.agent("say", "pay").asked == "pay"
        assert world.rows("payments") == []
        assert world.agent("answer", "yes").asked == ""
        assert world.rows("payments") == [{"amount": 7}]
