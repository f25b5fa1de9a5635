"""The anchor: a second, independent memory of what the journal holds.

A text file beside the database, append-only, with one line for each record: its sequence number and its
digest. Whoever cuts the journal, or rewrites it together with its chain, must rewrite this file too, to stay
unseen; it finds tampering by those who did not, and says no more than that.

A line is written after its record is durable, and made durable later. Hence:

- The anchor behind the journal is normal: a crash came between. The next writer adds the missing lines.
- The anchor ahead of the journal is never normal: records are gone.
- Lines may stand out of order or twice, because processes write them without a lock. They never disagree.
- A write that was cut short leaves a piece of a line. A line begins with a space and is told by its end, so
  the piece before the next one says nothing; nor do zeros, which a power cut leaves on some file systems.
- A missing anchor beside a journal with records is never normal: it is made before the first record. The next
  writer starts a new one, whose first line says `lost N`: what came up to event N is held by its chain alone.
  It is not anchored again, since that would launder whatever was done to it, and `verify` names it for ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from takeback.errors import CorruptionError
from takeback.ports.journal import Finding, Head
from takeback.storage.journal.batch import cut
from takeback.system import durable
from takeback.system.crash_points import crash_point, reach
from takeback.system.private_files import unusable

Line = tuple[int, str]
"""A sequence number and the digest of its record."""

TAIL_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_LINE = re.compile(rb"(?:.* )?([1-9][0-9]{0,17}) ([a-z0-9]+:[0-9a-f]{64})")
_LOST = re.compile(rb"lost ([1-9][0-9]{0,17})")


class Tail(NamedTuple):
    """The last lines of an anchor. What came up to event `low` is older than these, or lost."""

    known: dict[int, str]
    low: int

    @property
    def high(self) -> int:
        return max(self.known, default=self.low)


class Anchor:
    """One anchor file. Not locked: a line is one write at the end, which the system does not interleave."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def exists(self) -> bool:
        return self.path.exists()

    def start(self, *, lost: int) -> None:
        """Make the file. `lost` is how many records there are already, that no anchor knows any more."""
        self.close()
        # Whole or not at all: an anchor that came to be without its first line would look merely behind.
        with durable.replacing(self.path, temporary=self.path.with_name(f"{self.path.name}.new")) as fd:
            if lost:
                durable.write_all(fd, b"lost %d\n" % lost)

    def write(self, lines: Iterable[Line]) -> None:
        """Add lines, in one write."""
        durable.write_all(self._open(), "".join([f" {seq} {digest}\n" for seq, digest in lines]).encode())

    def tail(self) -> Tail:
        """The last lines, however long the file is."""
        fd = self._open()
        size, span = os.fstat(fd).st_size, TAIL_BYTES
        while True:
            start = max(0, size - span)
            lines = os.pread(fd, size - start, start).split(b"\n")
            # The last piece has no newline, so it is torn or empty; the first one may have begun earlier.
            tail = _tail(lines[1 if start else 0 : -1], whole=not start)
            if tail.known or not start:
                return tail
            span *= 16

    def read(self) -> tuple[dict[int, str], list[Finding]]:
        """Every line, and what is wrong with them."""
        known: dict[int, str] = {}
        findings: list[Finding] = []
        for number, line in enumerate(self._lines(), 1):
            place = f"anchor line {number}"
            if found := _LINE.fullmatch(line):
                seq, digest = int(found[1]), found[2].decode()
                if known.setdefault(seq, digest) != digest:
                    findings.append(Finding(place, f"names event {seq} again, with another digest", seq))
            elif found := _LOST.fullmatch(line):
                findings.append(
                    Finding(place, f"the anchor was lost; events up to {found[1].decode()} have none")
                )
            elif b"\0" not in line:
                findings.append(Finding(place, "cannot be read"))
        return known, findings

    def sync(self) -> None:
        """Make every line so far survive a power cut."""
        if self._fd < 0:
            return
        try:
            durable.fsync(self._fd)
        except OSError as error:
            raise unusable(self.path, error) from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self) -> int:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        return self._fd

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        with open(self.path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        # What is left has no newline: a write that was cut short, or one that goes on at this moment.


def _tail(lines: list[bytes], *, whole: bool) -> Tail:
    known: dict[int, str] = {}
    low = 0
    for line in lines:
        if found := _LINE.fullmatch(line):
            known.setdefault(int(found[1]), found[2].decode())
        elif found := _LOST.fullmatch(line):
            low = int(found[1])
    if known and not low and not whole:
        low = min(known) - 1
    return Tail(known, low)


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

    def last(self) -> Head:
        """The last event that has a line, so that it is durable."""
        file = Anchor(self.file.path)  # ours may be closed already, and stays so
        try:
            tail = file.tail()
        except FileNotFoundError:
            return Head(0, "")
        except OSError as error:
            raise unusable(file.path, error) from error
        finally:
            file.close()
        return Head(tail.high, tail.known[tail.high]) if tail.known else Head(0, "")

    def read(self, *, is_needed: bool) -> tuple[dict[int, str], list[Finding]]:
        """What it says, and what is wrong with it."""
        try:
            return self.file.read()
        except FileNotFoundError:
            what = f"{self.file.path} is missing: the events are held by their chain alone"
            return {}, [Finding("anchor", what)] if is_needed else []
        except OSError as error:
            raise unusable(self.file.path, error) from error
