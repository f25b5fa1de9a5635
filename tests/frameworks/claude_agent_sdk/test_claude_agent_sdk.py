"""The options for the Claude Agent SDK, with its real program and a scripted model: the contract of adapters, and its
own ways of approving, resuming and storing."""

from __future__ import annotations

import pytest

from tests.frameworks.contract import PREPARED, AdapterContract, World


class TestClaudeAgentSdk(AdapterContract):
    framework = "claude_agent_sdk"

    @pytest.mark.parametrize("when", ["in book", "after book"])
    def test_a_call_is_made_once_over_a_kill(self, when: str, world: World) -> None:
        # The program goes on only if it is told something, so the transcript has one message more.
        world.killed(when, "say", "prepare")
        assert world.rooms == ["attic"]
        account = world.agent("resume", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "go on", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]
