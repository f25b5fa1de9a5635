"""LangGraph: a checkpointer that keeps the state of threads beside the history of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import LANGGRAPH, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.langgraph.saver import TakebackSaver
else:
    __getattr__ = on_first_use(__name__, "langgraph", LANGGRAPH, {"TakebackSaver": "saver"})

__all__ = ["TakebackSaver"]
