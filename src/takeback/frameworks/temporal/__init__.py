"""Temporal: a plugin for workers that makes activities actions of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import TEMPORAL, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.temporal.activities import TakebackPlugin
else:
    __getattr__ = on_first_use(__name__, "temporal", TEMPORAL, {"TakebackPlugin": "activities"})

__all__ = ["TakebackPlugin"]
