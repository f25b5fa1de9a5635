"""agent-framework: middleware that makes the tool calls of an agent actions of a thread, and workflow checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import AGENT_FRAMEWORK, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.agent_framework.middleware import TakebackMiddleware
    from takeback.frameworks.agent_framework.workflows import TakebackCheckpointStorage
else:
    __getattr__ = on_first_use(
        __name__,
        "agent-framework",
        AGENT_FRAMEWORK,
        {"TakebackMiddleware": "middleware", "TakebackCheckpointStorage": "workflows"},
    )

__all__ = ["TakebackCheckpointStorage", "TakebackMiddleware"]
