"""A calendar in this process, as another system that agents book rooms in. It knows nothing of Takeback."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Office:
    """Rooms with a note each, and their bookings. Whoever asks twice books twice."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self.bookings: list[dict[str, str]] = []
        self.empty()

    def empty(self) -> None:
        self.notes = dict.fromkeys(("red", "blue", "green"), "")
        self.bookings = []

    def book(self, room: str, key: str) -> dict[str, str]:
        self.bookings.append({"room": room, "key": key})
        self.notes[room] = "booked by the agent"
        return {"room": room}

    def cancel(self, key: str, *, keep_note: bool = False) -> None:
        gone = [booking["room"] for booking in self.bookings if booking["key"] == key]
        self.bookings = [booking for booking in self.bookings if booking["key"] != key]
        if not keep_note:
            self.notes |= dict.fromkeys(gone, "")

    def find(self, key: str) -> str | None:
        return next((booking["room"] for booking in self.bookings if booking["key"] == key), None)

    def world(self) -> dict[str, Any]:
        return {"notes": self.notes, "bookings": self.bookings}

    def counts(self) -> dict[str, int]:
        return dict(Counter(booking["room"] for booking in self.bookings))


office = Office()
