"""The dialects of the agents: each module reads its agent's events and encodes the answers. Pure functions."""

from __future__ import annotations

from importlib import import_module

from takeback.agents.event import Dialect
from takeback.errors import UsageError

AGENTS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "cursor": "cursor",
    "gemini": "gemini",
    "opencode": "opencode",
    "ruflo": "claude_code",
}
"""Each agent, and its dialect."""


def dialect(agent: str) -> Dialect:
    """Return the dialect of this agent. Only this one is loaded: a hook has no time for the others."""
    if agent not in AGENTS:
        raise UsageError(
            f"{agent!r} is not an agent that Takeback supports", hint=f"use one of {', '.join(AGENTS)}"
        )
    found: Dialect = import_module(f"{__name__}.{AGENTS[agent]}").DIALECT
    return found
