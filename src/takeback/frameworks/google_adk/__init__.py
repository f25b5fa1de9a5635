"""Google ADK: a plugin that makes the tool calls of an app actions of threads, and a session service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import GOOGLE_ADK, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.google_adk.plugin import TakebackPlugin
    from takeback.frameworks.google_adk.sessions import TakebackSessionService
else:
    __getattr__ = on_first_use(
        __name__,
        "google-adk",
        GOOGLE_ADK,
        {"TakebackPlugin": "plugin", "TakebackSessionService": "sessions"},
    )

__all__ = ["TakebackPlugin", "TakebackSessionService"]
