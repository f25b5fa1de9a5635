"""The old name of `takeback.shell.classify`. Deprecated."""

from __future__ import annotations

import warnings

from takeback.shell.classify import classify

__all__ = ["classify"]

warnings.warn(
    "takeback.commands.judge is deprecated and will be removed: import classify from takeback.shell.classify",
    DeprecationWarning,
    stacklevel=2,
)
