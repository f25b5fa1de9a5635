"""A workspace, a booking service and two independent witnesses: a walker of files, and the service itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeback.testing.crash import child_environment
from takeback.workspace.workspace import Workspace
from tests.runs.service import ask
from tests.world.picture import Picture, differences, picture

READ_MEMORY = """
import json, sys, takeback
from pathlib import Path
from takeback.core.memory import unflatten
with takeback.open(sys.argv[1], home=Path(sys.argv[2]), watching=False) as tb:
    print(json.dumps({id: unflatten(tb.history.memory_of(id)) for id in tb.history.runs}))
"""


@dataclass
class Scene:
    root: Path
    home: Path
    tb: Workspace

    def human(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None

    def look(self) -> Seen:
        return Seen(picture(os.fsencode(self.root)), items())

    def memories(self) -> dict[str, Any]:
        """What every run remembers, as a process that was not there reads it."""
        done = subprocess.run(
            [sys.executable, "-c", READ_MEMORY, str(self.root), str(self.home)],
            env=child_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def sound(self) -> None:
        """The journal is whole, and every event in it was one that could come."""
        assert list(self.tb.journal.check()) == []
        assert self.tb.history.breaches == []


@dataclass(frozen=True)
class Seen:
    """The world at one moment."""

    files: Picture
    bookings: dict[str, int]

    def residue(self, later: Seen) -> list[str]:
        found = differences(self.files, later.files)
        if self.bookings != later.bookings:
            found.append(f"bookings were {self.bookings} and are {later.bookings}")
        return found


def items() -> dict[str, int]:
    """How often each item is booked now."""
    return dict(Counter(booking["item"] for booking in ask("world")["bookings"]))


def made(item: str) -> int:
    """How often a booking of this item was ever made."""
    count: int = ask("world")["made"].get(item, 0)
    return count
