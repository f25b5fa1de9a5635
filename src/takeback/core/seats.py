"""Seats: in which folder, of which machine, a workspace of a shared store sits. Rules only; a store keeps them.

A workspace sits in one folder at a time. Whoever moves it takes a number that is higher than every one before, and
whatever works with an old number is refused.
"""

from __future__ import annotations

import msgspec

from takeback.core.event_base import Base, Mark

TREE = "files"
"""The resource whose mark says what can be brought to another folder."""


class Place(msgspec.Struct, frozen=True):
    """One folder on one machine."""

    id: str
    """Its own: another folder at the same path is another place."""
    host: str
    root: str

    @property
    def said(self) -> str:
        return f"{self.host}:{self.root}" if self.host else self.root


class Seat(msgspec.Struct, frozen=True):
    """Where a workspace sits now."""

    fence: int
    place: Place
    since_us: int
    ttl_us: int
    left_us: int
    """How long nobody else can have it unless it is renewed, by the clock of the store."""

    @property
    def is_live(self) -> bool:
        return self.left_us > 0


class WorkspaceSeated(Base, frozen=True, tag="workspace-seated"):
    """From here on the workspace is worked on in this folder."""

    place: Place
    fence: int
    actor: str = ""
    marks: tuple[Mark, ...] = ()
    """Where it came from another folder: how things are in this one. What was not recorded before did not come."""

    @property
    def is_move(self) -> bool:
        return bool(self.marks)


class Moves:
    """Where the workspace sat, and what was done but did not come along when it moved.

    A call that was completed is known by its result. What it did to files is known only from the next look on; if
    the workspace is brought to another folder before that, the call has to be made there again.
    """

    def __init__(self) -> None:
        self.seat: WorkspaceSeated | None = None
        self.since_us = 0
        self.looked_us = 0
        """When the files were last looked at."""
        self.moved = 0
        """The event with which it last came from another folder: what was at work before is not at work any more."""
        self.lost: set[str] = set()
        self._unseen: dict[str, None] = {}
        self._seats: list[tuple[int, WorkspaceSeated]] = []

    def done(self, action: str) -> None:
        """An action that may have changed files is over, and nobody has looked at them."""
        self._unseen[action] = None

    @property
    def unseen(self) -> list[str]:
        """What was done since somebody last looked: it would be lost if the workspace moved now."""
        return list(self._unseen)

    def looked(self, resource: str, at_us: int) -> None:
        """A mark of this resource was recorded."""
        if resource == TREE:
            self._unseen.clear()
            self.looked_us = at_us

    def seated(self, seq: int, at_us: int, event: WorkspaceSeated) -> None:
        self.seat, self.since_us = event, at_us
        self._seats.append((seq, event))
        if event.is_move:
            self.moved = seq
            self.lost.update(self._unseen)

    def at(self, seq: int) -> Place | None:
        """Where it sat at an event; None before anybody sat down."""
        sat = [seat.place for since, seat in self._seats if since <= seq] or [
            s.place for _, s in self._seats[:1]
        ]
        return sat[-1] if sat else None

    def here(self, path: str, seq: int) -> str:
        """A path of the machine on which something began, as it is where the workspace sits now."""
        then, now = self.at(seq), self.seat.place if self.seat else None
        if then is None or now is None:
            return path
        if path == then.root or path.startswith(f"{then.root}/"):
            return now.root + path[len(then.root) :]
        return path
