"""The items of a conversation, for frameworks whose sessions are lists: stored beside the history, never in a file of
the workspace, and cut back together with the world."""

from __future__ import annotations

import itertools
import json
import secrets
import threading
from collections.abc import Sequence
from typing import Any

from takeback.core.conversation import Snapshot, Spot, StatePiece
from takeback.workspace.store.conversations import conversations_of
from takeback.workspace.workspace import Workspace

JSON = "json"
_SPACE = "items"


def names_of(workspace: Workspace, prefix: str) -> list[str]:
    """Return the names with this prefix under which there are items."""
    return [name for name in conversations_of(workspace).threads() if name.startswith(prefix)]


class SessionItems:
    """A list of JSON values under a name. What `add` was given is durable when it returns."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.name = name
        self._store = conversations_of(workspace)
        self._lock = threading.RLock()

    def add(self, items: Sequence[Any]) -> str:
        """Append items, and return the position after them."""
        with self._lock:
            if not items:
                return self.position()
            last = self.position()
            # Processes that append at the same time get different ids, so that nothing replaces anything.
            id = f"{int(last.partition('-')[0] or 0) + 1:012}-{secrets.token_hex(4)}"
            self._put(id, last, items)
            return id

    def items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order, or only the newest ones."""
        batches = (json.loads(about.body) for _, about in self._store.spots(self.name, _SPACE))
        newest_first = (item for batch in batches for item in reversed(batch))
        return list(itertools.islice(newest_first, limit))[::-1]

    def batches(self) -> list[tuple[str, list[Any]]]:
        """Return what each `add` appended, in order, each with the position after it."""
        found = [(spot.id, json.loads(about.body)) for spot, about in self._store.spots(self.name, _SPACE)]
        return found[::-1]

    def pop(self) -> Any:
        """Remove the newest item and return it; None if there is none."""
        with self._lock:
            for spot, about in self._store.spots(self.name, _SPACE):
                *rest, last = json.loads(about.body)
                before = self._before(spot.id)
                if rest:
                    self._put(spot.id, before, rest)  # in place of what was there, in one commit
                else:
                    self.go_back(before)
                return last
            return None

    def position(self) -> str:
        """Return the position after the newest item; empty if there is none."""
        return next((spot.id for spot, _ in self._store.spots(self.name, _SPACE)), "")

    def go_back(self, position: str) -> None:
        """Remove what was added after a position."""
        with self._lock:
            if position:
                self._store.delete_after(self.name, position)
            else:
                self._store.delete(self.name)

    def clear(self) -> None:
        """Remove all items."""
        self.go_back("")

    def _before(self, id: str) -> str:
        found = self._store.spots(self.name, _SPACE, before=id)
        return next((spot.id for spot, _ in found), "")

    def _put(self, id: str, parent: str, items: Sequence[Any]) -> None:
        about = StatePiece(JSON, json.dumps(list(items), allow_nan=False).encode())
        snapshot = Snapshot(Spot(self.name, _SPACE, id), parent, "", (), about, StatePiece(JSON, b"null"), ())
        while not self._store.put(self._store.token(self.name), snapshot, {}):
            pass  # another process removed items meanwhile, so the token is outdated
