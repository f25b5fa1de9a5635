"""LangChain: middleware that makes the tool calls of an agent actions of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import LANGCHAIN, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.langchain.middleware import Takeback
else:
    __getattr__ = on_first_use(__name__, "langchain", LANGCHAIN, {"Takeback": "middleware"})

__all__ = ["Takeback"]
