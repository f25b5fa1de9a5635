"""OpenAI Agents: agents whose tool calls are actions, sessions that go back with the world, and links from traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import OPENAI_AGENTS, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.openai_agents.protection import protect
    from takeback.frameworks.openai_agents.session import TakebackSession
    from takeback.frameworks.openai_agents.tracing import TakebackTracing
else:
    _NAMES = {"protect": "protection", "TakebackSession": "session", "TakebackTracing": "tracing"}
    __getattr__ = on_first_use(__name__, "openai-agents", OPENAI_AGENTS, _NAMES)

__all__ = ["TakebackSession", "TakebackTracing", "protect"]
