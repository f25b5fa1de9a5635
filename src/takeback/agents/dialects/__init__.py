"""The languages of the agents: each reads an event of its agent and answers as that agent expects. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from takeback.agents.event import Event, HookAnswer, HookDecision, Kind
from takeback.errors import UsageError

AGENTS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "cursor": "cursor",
    "gemini": "gemini",
    "opencode": "opencode",
    "ruflo": "claude_code",
}
"""Each agent, and the dialect that it speaks."""


class Dialect(Protocol):
    """What each of the modules here is."""

    KINDS: dict[str, Kind]
    """Its events."""

    def read(self, data: bytes, env: Mapping[str, str]) -> Event: ...

    def answer(self, event: Event, decision: HookDecision) -> HookAnswer: ...

    def can_tell(self, event: Event) -> bool: ...

    def can_ask(self, event: Event) -> bool: ...


def dialect(agent: str) -> Dialect:
    """That of this agent. Only it is loaded: a hook has no time for the others."""
    if agent not in AGENTS:
        raise UsageError(f"{agent!r} is no agent that Takeback knows", hint=f"one of {', '.join(AGENTS)}")
    return cast(Dialect, import_module(f"{__name__}.{AGENTS[agent]}"))
