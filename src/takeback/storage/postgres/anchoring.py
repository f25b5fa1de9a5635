"""The anchor of a journal that is kept on another machine: what was seen of it from here.

It says no more of other machines' events than that they were there when this one last opened the journal; each
machine has an anchor of its own. A line is written once its event is durable on the server: a server that crashed
may have lost what was not, and that is no tampering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from takeback.errors import CorruptionError
from takeback.faults import crash_point, reach
from takeback.ports import Finding, Head
from takeback.storage.anchor import Anchor, Line
from takeback.storage.private import unusable
from takeback.storage.rows import cut

CATCH_UP_MAX = 10_000
"""Of more events than this, that others wrote, only the last is anchored here."""

CATCHING_UP = crash_point("journal-catching-up")

_RESTORE = "`takeback verify` shows what is missing or differs; restore the database from a backup"


class Anchoring:
    """One anchor file, and the lines that wait for their events to be durable."""

    def __init__(self, path: Path) -> None:
        self.file = Anchor(path)
        self.is_trusted = False
        self._seen = 0
        self._later: list[Line] = []

    def trust(self, head: Head, digests: Callable[[int], Sequence[Line]]) -> None:
        """Refuse to go on from a journal that is not the one which was written.

        `digests` gives what comes after an event.
        """
        if head.count < self._seen:
            raise cut(head.count, self._seen, _RESTORE)
        if self.is_trusted:
            return
        try:
            if not self.file.exists():
                self.file.start(lost=head.count)
            self._catch_up(head, digests)
        except OSError as error:
            raise unusable(self.file.path, error) from error
        self.is_trusted = True

    def _catch_up(self, head: Head, digests: Callable[[int], Sequence[Line]]) -> None:
        """Hold the end of the journal against that of the anchor, and add the lines that are missing."""
        tail = self.file.tail()
        if tail.high > head.count:
            raise cut(head.count, tail.high, _RESTORE)
        if head.count - tail.high > CATCH_UP_MAX:
            if tail.known and digests(tail.high - 1)[:1] != [(tail.high, tail.known[tail.high])]:
                raise _differs(tail.high)
            self._later = [(head.count, head.digest)]
            return
        lines: list[Line] = []
        for seq, digest in digests(tail.low):
            if tail.known.get(seq, digest) != digest:
                raise _differs(seq)
            if seq not in tail.known:
                lines.append((seq, digest))
        if lines:
            reach(CATCHING_UP)
        # Not yet written: of what another process has just appended nobody knows here whether it is durable.
        self._later = lines

    def add(self, lines: Sequence[Line], *, durable: bool) -> None:
        """These events exist. Once one is durable, all before it are."""
        self._later += lines
        if durable and self._later:
            ready, self._later = self._later, []
            self._seen = max(self._seen, ready[-1][0])
            try:
                self.file.write(ready)
            except OSError:
                # The events are durable, the anchor is behind as after a crash: the next append adds the lines.
                self.is_trusted = False

    def read(self, *, is_needed: bool) -> tuple[dict[int, str], list[Finding]]:
        """What it says, and what is wrong with it."""
        try:
            return self.file.read()
        except FileNotFoundError:
            what = f"{self.file.path} is missing: the events are held by their chain alone"
            return {}, [Finding("anchor", what)] if is_needed else []
        except OSError as error:
            raise unusable(self.file.path, error) from error


def _differs(seq: int) -> CorruptionError:
    return CorruptionError(
        f"event {seq} is not the one that was written: the anchor differs. Nothing was recorded",
        hint=_RESTORE,
    )
