"""The port of seats: in which folder a workspace is whose history several machines share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from takeback.core.event_base import Mark
from takeback.core.seats import Place, Seat


class Seats(Protocol):
    """The seat of a workspace, as seen from one place. Time is told by the clock of the store.

    The first place that appends has it. From then on an append from any other place is refused, however long ago the
    last sign of life was, until `take` has moved the workspace there. Every append renews the seat.
    """

    @property
    def place(self) -> Place:
        """This one."""

    @property
    def mine(self) -> Seat | None:
        """The seat under which this process has appended; None before that."""

    def now(self) -> Seat | None:
        """Where the workspace sits; None where nobody has sat down yet."""

    def refuse_moved(self) -> None:
        """Raise SeatLost if an append would be refused now."""

    def take(
        self, marks: Collection[Mark], *, after: int, actor: str = "", fences: Collection[int] = ()
    ) -> Seat:
        """Move the workspace here, and record it with how things are here.

        Raises SeatHeld while another place shows signs of life, and JournalMoved if event `after` is not the last
        any more; nothing has changed then. `fences` are as in `Journal.append`. Whatever this process had appended
        before, it sits anew.
        """

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        """Let these last as long again from now on; gives those that still hold."""
