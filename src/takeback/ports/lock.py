"""The port of the workspace lock: one process at a time looks at the world, takes back, or cleans up."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Lock(Protocol):
    """The lock of a workspace. Its holder may take it again."""

    def held(self) -> AbstractContextManager[None]:
        """Hold it inside the block. Raise RunBusy if another process keeps it for too long."""

    def tried(self) -> AbstractContextManager[bool]:
        """Hold it inside the block if it is free now. Yield whether it is held."""
