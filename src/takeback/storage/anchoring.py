"""A journal and its anchor: held against each other at the first append, and brought along with each later one.

A line is written once its event is durable: a crash may lose what was not, and that is no tampering. Of a journal on
another machine the anchor says what was seen from here; each machine has an anchor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from takeback.errors import CorruptionError
from takeback.faults import crash_point, reach
from takeback.ports import Finding, Head
from takeback.storage.anchor import Anchor, Line, Tail
from takeback.storage.private import unusable
from takeback.storage.rows import cut

CATCHING_UP = crash_point("journal-catching-up")

Digests = Callable[[int], Iterable[Line]]
"""What comes after an event, in order."""


class Anchoring:
    """One anchor file, and the lines that wait for their events to be durable."""

    def __init__(
        self, path: Path, backup: str, *, catch_up_max: int | None = None, fresh: bool = False
    ) -> None:
        """`backup` is what one would restore. Of more than `catch_up_max` missing lines only the last is added.

        With `fresh` a new journal can be begun in the place of this one.
        """
        self.file = Anchor(path)
        self._hint = f"`takeback verify` shows what is missing or differs; restore {backup} from a backup"
        self._hint += ", or go on without it: takeback init --fresh" * fresh
        self._catch_up_max = catch_up_max
        self.is_trusted = False
        self._seen = 0
        self._later: list[Line] = []

    def trust(self, head: Head, digests: Digests) -> None:
        """Refuse to go on from a journal that is not the one which was written."""
        if head.count < self._seen:
            raise cut(head.count, self._seen, self._hint)
        if self.is_trusted:
            return
        try:
            if not self.file.exists():
                self.file.start(lost=head.count)
            self._catch_up(head, digests)
        except OSError as error:
            raise unusable(self.file.path, error) from error
        self.is_trusted = True

    def _catch_up(self, head: Head, digests: Digests) -> None:
        """Hold the end of the journal against that of the anchor, and find the lines that are missing."""
        tail = self.file.tail()
        if tail.high > head.count:
            raise cut(head.count, tail.high, self._hint)
        if self._catch_up_max is not None and head.count - tail.high > self._catch_up_max:
            if tail.known:
                self._same(tail, next(iter(digests(tail.high - 1)), (tail.high, "")))
            self._later = [(head.count, head.digest)]
            return
        found = [self._same(tail, line) for line in digests(tail.low)]
        # Not yet written: of what another process has just appended nobody knows here whether it is durable.
        self._later = [line for line in found if line[0] not in tail.known]
        if self._later:
            reach(CATCHING_UP)

    def _same(self, tail: Tail, line: Line) -> Line:
        """This line, unless the anchor knows another one of the same event."""
        seq, digest = line
        if tail.known.get(seq, digest) != digest:
            raise CorruptionError(
                f"event {seq} is not the one that was written: the anchor differs. Nothing was recorded",
                hint=self._hint,
            )
        return line

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
