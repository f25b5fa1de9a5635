"""pydantic-ai: a capability that makes the tool calls of an agent actions of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import PYDANTIC_AI, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.pydantic_ai.capability import Takeback
else:
    __getattr__ = on_first_use(__name__, "pydantic-ai", PYDANTIC_AI, {"Takeback": "capability"})

__all__ = ["Takeback"]
