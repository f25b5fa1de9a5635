"""The rules of seats: the one folder, on one machine, where a workspace of a shared store is. A store keeps them.

A workspace is in one folder at a time. Moving it takes a fence number higher than all before, and a process that
still uses an old number is refused.
"""

from __future__ import annotations

import msgspec

from takeback.core.event_base import Base, Mark

TREE = "files"
"""The resource whose mark describes what can be brought to another folder."""


class Place(msgspec.Struct, frozen=True):
    """One folder on one machine."""

    id: str
    """Unique: another folder at the same path is another place."""
    host: str
    root: str

    @property
    def said(self) -> str:
        return f"{self.host}:{self.root}" if self.host else self.root


class Seat(msgspec.Struct, frozen=True):
    """The present seat of a workspace."""

    fence: int
    place: Place
    since_us: int
    ttl_us: int
    left_us: int
    """How long the seat is protected unless it is renewed, by the clock of the store."""

    @property
    def is_live(self) -> bool:
        return self.left_us > 0


class WorkspaceSeated(Base, frozen=True, tag="workspace-seated"):
    """From this event on, the workspace is in this folder."""

    place: Place
    fence: int
    actor: str = ""
    marks: tuple[Mark, ...] = ()
    """After a move: the state in this folder. Changes that were not recorded before did not come along."""

    @property
    def is_move(self) -> bool:
        return bool(self.marks)


class Moves(msgspec.Struct):
    """Where the workspace sat, and what was done but did not come along when it moved.

    A completed call is known by its result, but its changes to files only from the next look on. If the workspace
    moves to another folder before that look, the call has to be made there again.
    """

    seat: WorkspaceSeated | None = None
    since_us: int = 0
    looked_at: int = 0
    """The event with the last look at the files."""
    looked_us: int = 0
    moved: int = 0
    """The event with which it last came from another folder: what was at work before is not at work any more."""
    lost: set[str] = set()
    seats: list[tuple[int, WorkspaceSeated]] = []

    def looked(self, resource: str, seq: int, at_us: int) -> None:
        """Note that a mark of this resource was recorded."""
        if resource == TREE:
            self.looked_at, self.looked_us = seq, at_us

    def seated(self, seq: int, at_us: int, event: WorkspaceSeated) -> None:
        self.seat, self.since_us = event, at_us
        self.seats.append((seq, event))
        if event.is_move:
            self.moved = seq

    def at(self, seq: int) -> Place | None:
        """Return the place of the workspace at an event; None if it never had a seat."""
        sat = [seat.place for since, seat in self.seats if since <= seq] or [
            s.place for _, s in self.seats[:1]
        ]
        return sat[-1] if sat else None

    def here(self, path: str, seq: int) -> str:
        """Translate a path recorded at event `seq` to the folder where the workspace is now."""
        then, now = self.at(seq), self.seat.place if self.seat else None
        if then is None or now is None:
            return path
        if path == then.root or path.startswith(f"{then.root}/"):
            return now.root + path[len(then.root) :]
        return path
