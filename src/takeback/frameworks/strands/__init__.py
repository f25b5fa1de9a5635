"""Strands: a session manager that makes the tool calls of its agents actions of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import STRANDS, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.strands.sessions import Takeback
else:
    __getattr__ = on_first_use(__name__, "strands", STRANDS, {"Takeback": "sessions"})

__all__ = ["Takeback"]
