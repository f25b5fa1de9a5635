"""The port of seats: the folder where a workspace with a shared history is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from takeback.core.event_base import Mark
from takeback.core.seats import Place, Seat


class Seats(Protocol):
    """The seat of a workspace, as seen from one place. Time is measured by the clock of the store.

    The first place that appends has it. From then on an append from any other place is refused, however long ago the
    last sign of life was, until `take` has moved the workspace there. Every append renews the seat.
    """

    @property
    def place(self) -> Place:
        """The place of this process."""

    @property
    def mine(self) -> Seat | None:
        """The seat under which this process has appended; None before that."""

    def now(self) -> Seat | None:
        """Return the present seat; None if there is none yet."""

    def refuse_moved(self) -> None:
        """Raise SeatLost if an append would be refused now."""

    def take(
        self, marks: Collection[Mark], *, after: int, actor: str = "", fences: Collection[int] = ()
    ) -> Seat:
        """Move the workspace here, and record that with the present marks.

        Raise SeatHeld while another place shows signs of life, and JournalMoved if event `after` is no longer the
        last; nothing has changed then. `fences` are as in `Journal.append`. The seat is a new one even if
        this process has appended before.
        """

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        """Renew these for their full time from now on. Return those that are still held."""
