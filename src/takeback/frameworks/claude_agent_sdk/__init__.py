"""Claude Agent SDK: options with hooks and a session store, so that the agent's calls are actions of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import CLAUDE_AGENT_SDK, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.claude_agent_sdk.hooks import options
    from takeback.frameworks.claude_agent_sdk.transcripts import TakebackSessionStore
else:
    __getattr__ = on_first_use(
        __name__,
        "claude-agent-sdk",
        CLAUDE_AGENT_SDK,
        {"options": "hooks", "TakebackSessionStore": "transcripts"},
    )

__all__ = ["TakebackSessionStore", "options"]
