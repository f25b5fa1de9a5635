"""Where a workspace keeps the conversations of agent frameworks: beside its journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from takeback.ports.conversations import Conversations
from takeback.settings import environment
from takeback.storage.state.location import StoreLocation

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace

FILE = "conversations.db"


def conversations_of(workspace: Workspace) -> Conversations:
    """Return what agent frameworks keep of their conversations in an open workspace."""
    return workspace.parts.conversations


def conversations_for(state: Path, kept: StoreLocation, *, in_memory: bool) -> Conversations:
    """Return the store of conversations of a workspace that is kept in this place, creating it on first use."""
    if in_memory:
        from takeback.storage.conversations.memory import MemoryConversations

        return MemoryConversations()
    if kept.store:
        from takeback.storage.conversations.postgres.store import (
            PostgresConversations,  # its driver is an extra
        )

        return PostgresConversations(environment.expanded(kept.store), kept.workspace)
    from takeback.storage.conversations.sqlite.store import SqliteConversations

    return SqliteConversations(state / FILE)


def threads_of(state: Path, kept: StoreLocation) -> list[str]:
    """Return the threads of which conversations are kept in this place. This creates no store."""
    if kept.store:
        from takeback.storage.conversations.postgres.store import threads_there  # its driver is an extra

        return threads_there(environment.expanded(kept.store), kept.workspace)
    if not (state / FILE).exists():
        return []
    found = conversations_for(state, kept, in_memory=False)
    try:
        return found.threads()
    finally:
        found.close()
