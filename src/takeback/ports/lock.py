"""The port of the workspace lock: one process at a time looks at the world, takes back, or cleans up."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Lock(Protocol):
    """The lock of a workspace. Its holder may take it again."""

    def held(self) -> AbstractContextManager[None]:
        """Hold it inside of the block. Raises RunBusy where another process keeps it for too long."""

    def tried(self) -> AbstractContextManager[bool]:
        """Hold it inside of the block where that needs no waiting; the block is told whether it is held."""
