"""Seats in the journal's own database: each append checks in its own statement that this folder holds the seat.

The fence of the seat is in the row that every append moves, so an append needs no extra query. If the row is not as
this process last saw it, the append is repeated in a transaction that locks the row and reads who holds the seat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core.event_base import Mark
from takeback.core.events import Event
from takeback.core.ids import WORKSPACE
from takeback.core.seats import Place, Seat, WorkspaceSeated
from takeback.errors import JournalMoved, SeatHeld, SeatLost
from takeback.storage.journal.batch import Batch, refuse_lost
from takeback.storage.journal.group_commit import PendingAppend
from takeback.storage.journal.postgres import statements
from takeback.storage.journal.postgres.lease_table import PostgresLeaseTable
from takeback.storage.journal.postgres.session import PostgresSession
from takeback.system import crash_points

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

SEAT_S = 60.0
"""After this long without a sign of life, the workspace can be moved elsewhere."""

TAKEN = crash_points.crash_point("seat-taken")

_NOW = (
    b"SELECT s.fence, s.place, s.since_us, w.seat_us,"
    b" greatest(0, extract(epoch FROM w.seat_until - clock_timestamp()) * 1000000)::bigint"
    b" FROM takeback_store.workspaces AS w JOIN takeback_store.seats AS s ON s.workspace = w.id AND s.fence = w.seat"
    b" WHERE w.id = %s"
)
_SIT = (
    b"UPDATE takeback_store.workspaces SET fence = fence + 1, seat = fence + 1, seat_us = %s,"
    b" seat_until = clock_timestamp() + %s * interval '1 microsecond' WHERE id = %s RETURNING seat"
)
_NOTE = b"INSERT INTO takeback_store.seats VALUES (%s, %s, %s, %s)"
_PLACES = b"SELECT place FROM takeback_store.seats WHERE workspace = %s"
_RENEW = (
    b"UPDATE takeback_store.workspaces SET seat_until = clock_timestamp() + seat_us * interval '1 microsecond'"
    b" WHERE id = %s AND seat = ANY(%s) RETURNING seat"
)


class PostgresSeats:
    """The seat of a workspace, as seen from one folder: `takeback.ports.seats.Seats`."""

    def __init__(
        self,
        session: PostgresSession,
        decide: Callable[[Callable[[Db], list[Event]]], None],
        leases: PostgresLeaseTable,
        now_us: Callable[[], int],
        place: Place,
        *,
        ttl_s: float,
        may_sit: bool = True,
    ) -> None:
        """With `may_sit=False` this folder may not take a free seat: it is not complete yet."""
        self._session = session
        self._decide = decide
        self._leases = leases
        self._now_us = now_us
        self._ttl_us = int(ttl_s * 1e6)
        self._may_sit = may_sit
        self.place = place
        self.fence = 0
        """The fence under which this process works; 0 before its first append."""
        self._earlier: int | None = None
        """The previous fence, kept until it is known whether the transaction that took the seat was committed."""

    @property
    def _id(self) -> int:
        return self._session.id

    # For the journal, in a transaction that locks its end

    def admit(self, db: Db, sitting: int, group: Sequence[PendingAppend]) -> Sequence[PendingAppend]:
        """Return the appends that may be written, and end the others with an error. A free seat is taken now."""
        bound = [waiting for waiting in group if not waiting.anywhere]
        if not bound or sitting == self.fence != 0:
            return group
        if not sitting and self._may_sit:
            event = self._sit(db)
            return [*group, PendingAppend(Batch((event,), WORKSPACE, None, ""), durable=True)]
        seat = self._now(db)
        if seat and not self.fence and seat.place.id == self.place.id:
            self.fence = seat.fence
            return group
        lost = self._lost(db, seat)
        for waiting in bound:
            waiting.end(lost)
        return [waiting for waiting in group if not waiting.is_done]

    def settled(self, *, is_there: bool) -> None:
        """Keep or drop the new fence, once it is known whether the transaction that took the seat was committed.

        If it was not, another process may get the same number.
        """
        if self._earlier is not None and not is_there:
            self.fence = self._earlier
        self._earlier = None

    def _sit(self, db: Db, marks: Collection[Mark] = (), actor: str = "") -> WorkspaceSeated:
        row = db.execute(_SIT, (self._ttl_us, self._ttl_us, self._id)).fetchone()
        assert row
        self._earlier = self.fence if self._earlier is None else self._earlier
        self.fence = row[0]
        db.execute(_NOTE, (self._id, self.fence, msgspec.json.encode(self.place), self._now_us()))
        return WorkspaceSeated(self.place, self.fence, actor, tuple(marks))

    # For all callers

    @property
    def mine(self) -> Seat | None:
        return Seat(self.fence, self.place, 0, self._ttl_us, self._ttl_us) if self.fence else None

    def now(self) -> Seat | None:
        return self._session.ask(self._now)

    def refuse_moved(self) -> None:
        if lost := self._session.ask(self._refusal):
            raise lost

    def _refusal(self, db: Db) -> SeatLost | None:
        seat = self._now(db)
        if seat is None:
            return None if self._may_sit else self._lost(db, seat)
        is_mine = seat.place.id == self.place.id and self.fence in (0, seat.fence)
        return None if is_mine else self._lost(db, seat)

    def take(
        self, marks: Collection[Mark], *, after: int, actor: str = "", fences: Collection[int] = ()
    ) -> Seat:
        earlier = self.fence

        def move(db: Db) -> list[Event]:
            self._refuse_live(self._now(db))
            refuse_lost(fences, self._leases.held(db, fences))
            if (last := statements.head(db, self._id).count) != after:
                raise JournalMoved(
                    f"the journal has {last} events where {after} were expected; nothing was moved",
                    hint="read the journal again and decide again",
                )
            return [self._sit(db, marks, actor)]

        try:
            self._decide(move)
        except BaseException:
            self.fence = earlier
            raise
        crash_points.reach(TAKEN)
        assert self.mine
        return self.mine

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        return self._session.ask(
            lambda db: frozenset(seat for (seat,) in db.execute(_RENEW, (self._id, list(fences))))
        )

    def _now(self, db: Db) -> Seat | None:
        row = db.execute(_NOW, (self._id,)).fetchone()
        if row is None:
            return None
        fence, place, since_us, ttl_us, left_us = row
        return Seat(fence, msgspec.json.decode(place, type=Place), since_us, ttl_us, left_us)

    def _refuse_live(self, seat: Seat | None) -> None:
        if seat and seat.is_live and seat.place.id != self.place.id:
            raise SeatHeld(
                f"the workspace {self._session.workspace} is in use in {seat.place.said} (last sign of life "
                f"less than {seat.ttl_us / 1e6:g} s ago); nothing was moved",
                hint=f"stop what runs there, and try again {seat.ttl_us / 1e6:g} s later",
                left_s=seat.left_us / 1e6,
            )

    def _lost(self, db: Db, seat: Seat | None) -> SeatLost:
        name, here = self._session.workspace, self.place
        if seat is None:
            return SeatLost(
                f"{here.root} is not complete yet. Nothing was recorded",
                hint=f"`takeback resume --into {here.root}` fetches the rest",
            )
        at = datetime.fromtimestamp(seat.since_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if seat.place.id == here.id:
            return SeatLost(
                f"the workspace {name} was moved away and back, at {at}, while this process was using it; "
                "nothing more was recorded. The files here were not changed",
                hint="start this process again; it then reads what is new from the journal",
            )
        every = db.execute(_PLACES, (self._id,)).fetchall()
        was_here = any(msgspec.json.decode(place, type=Place).id == here.id for (place,) in every)
        if was_here:
            return SeatLost(
                f"the workspace {name} moved to {seat.place.said} at {at}; nothing was recorded. "
                "The files here were not changed",
                hint="continue there; `takeback log` still works here, and `takeback resume --into DIR` brings the "
                "workspace to a new folder",
            )
        what = (
            "and the state folder here may be a copy of that one"
            if seat.place.said == here.said
            else "not here"
        )
        return SeatLost(
            f"the workspace {name} has been in {seat.place.said} since {at}, {what}; nothing was recorded",
            hint="give this folder its own workspace name in takeback.toml, or move the workspace to a new "
            "folder: takeback resume --into DIR",
        )
