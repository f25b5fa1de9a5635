"""The anchor: a second, independent record of the journal's digests.

An append-only text file beside the database, with one line for each record: its sequence number and its digest. An
attacker who truncates the journal, or rewrites it together with its chain, must rewrite this file too. The anchor
detects tampering that left it alone; it proves no more than that.

A line is written after its record is durable, and made durable later. Hence:

/- An anchor behind the journal is normal: a crash came in between. The next writer adds the missing lines.
- An anchor ahead of the journal is never normal: records are gone.
- Lines may be out of order or duplicated, because processes write them without a lock. They never disagree.
- An interrupted write leaves a fragment of a line. A line begins with a space and is parsed from its end, so a
  fragment before it is ignored; so are the zeros that a power cut leaves on some file systems.
- A missing anchor beside a journal with records is never normal: it is created before the first record. The next
  writer starts a new one, whose first line says `lost N`: only the chain protects the events up to N. They are not
  anchored again, because that would hide any tampering; `verify` reports the loss from then on.
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
_OUT_OF_ORDER_MAX = 1000
_LINE = re.compile(rb"(?:.* )?([1-9][0-9]{0,17}) ([a-z0-9]+:[0-9a-f]{64})")
_LOST = re.compile(rb"lost ([1-9][0-9]{0,17})")


class Tail(NamedTuple):
    """The last lines of an anchor. Events up to `low` are older than these lines, or lost their anchor."""

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
        """Create the file. `lost` is the number of existing records that no anchor covers any more."""
        self.close()
        # Atomically: an anchor created without its first line would look as if it were merely behind.
        with durable.replacing(self.path, temporary=self.path.with_name(f"{self.path.name}.new")) as fd:
            if lost:
                durable.write_all(fd, b"lost %d\n" % lost)

    def write(self, lines: Iterable[Line]) -> None:
        """Append lines, in one write."""
        durable.write_all(self._open(), "".join([f" {seq} {digest}\n" for seq, digest in lines]).encode())

    def tail(self) -> Tail:
        """Return the last lines. The cost does not depend on the size of the file."""
        fd = self._open()
        size, span = os.fstat(fd).st_size, TAIL_BYTES
        while True:
            start = max(0, size - span)
            lines = os.pread(fd, size - start, start).split(b"\n")
            # The last piece has no newline, so it is torn or empty; the first one may start in the middle of a
            # line.
            tail = _tail(lines[1 if start else 0 : -1], whole=not start)
            if tail.known or not start:
                return tail
            span *= 16

    def read(self, since: int = 0) -> tuple[dict[int, str], list[Finding]]:
        """Return every line, and the problems found in them; with `since` at least the lines of later events."""
        known: dict[int, str] = {}
        findings: list[Finding] = []
        start = self._place_of(since) if since else 0
        for number, line in enumerate(self._lines(start), 1):
            place = f"anchor line {number}" + f" from byte {start} on" * bool(start)
            if found := _LINE.fullmatch(line):
                seq, digest = int(found[1]), found[2].decode()
                if known.setdefault(seq, digest) != digest:
                    findings.append(Finding(place, f"lists event {seq} again, with a different digest", seq))
            elif found := _LOST.fullmatch(line):
                findings.append(
                    Finding(place, f"the anchor was lost; it does not cover events up to {found[1].decode()}")
                )
            elif b"\0" not in line:
                findings.append(Finding(place, "cannot be read"))
        return known, findings

    def sync(self) -> None:
        """Make every line written so far survive a power cut."""
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

    def _place_of(self, seq: int) -> int:
        """Return a place in the file, the beginning of a line, before all lines of later events.

        Processes write without a lock, so lines may be out of order, but not by much.
        """
        with open(self.path, "rb") as file:
            size, span = file.seek(0, os.SEEK_END), TAIL_BYTES
            while span < size:
                file.seek(size - span)
                torn = file.readline()
                first = next((found for line in file if (found := _LINE.fullmatch(line[:-1]))), None)
                if first and int(first[1]) <= seq - _OUT_OF_ORDER_MAX:
                    return size - span + len(torn)
                span *= 4
        return 0

    def _lines(self, start: int = 0) -> Iterator[bytes]:
        rest = b""
        with open(self.path, "rb") as file:
            file.seek(start)
            while chunk := file.read(_CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        # What is left has no newline: an interrupted write, or one still in progress.


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
"""Returns the lines of all events after the given one, in order."""


class Anchoring:
    """One anchor file, and the lines that wait until their events are durable."""

    def __init__(
        self, path: Path, backup: str, *, catch_up_max: int | None = None, fresh: bool = False
    ) -> None:
        """`backup` names what to restore. Of more than `catch_up_max` missing lines, only the last is added.

        With `fresh` the hint offers to start a new journal in place of this one.
        """
        self.file = Anchor(path)
        self._hint = (
            f"`takeback verify --all` shows what is missing or differs; restore {backup} from a backup"
        )
        self._hint += ", or start a new history: takeback init --fresh" * fresh
        self._catch_up_max = catch_up_max
        self.is_trusted = False
        self._seen = 0
        self._later: list[Line] = []

    def trust(self, head: Head, digests: Digests) -> None:
        """Raise CorruptionError if the journal is not the one that was written."""
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
        """Compare the end of the journal with the end of the anchor, and collect the missing lines."""
        tail = self.file.tail()
        if tail.high > head.count:
            raise cut(head.count, tail.high, self._hint)
        if self._catch_up_max is not None and head.count - tail.high > self._catch_up_max:
            if tail.known:
                self._same(tail, next(iter(digests(tail.high - 1)), (tail.high, "")))
            self._later = [(head.count, head.digest)]
            return
        found = [self._same(tail, line) for line in digests(tail.low)]
        # Do not write them yet: another process may have just appended these events, and they may not be durable.
        self._later = [line for line in found if line[0] not in tail.known]
        if self._later:
            reach(CATCHING_UP)

    def _same(self, tail: Tail, line: Line) -> Line:
        """Return this line. Raise CorruptionError if the anchor has another digest for the same event."""
        seq, digest = line
        if tail.known.get(seq, digest) != digest:
            raise CorruptionError(
                f"event {seq} is not what was written: the anchor has another digest. Nothing was recorded",
                hint=self._hint,
            )
        return line

    def add(self, lines: Sequence[Line], *, durable: bool) -> None:
        """Add lines for events that now exist. Once an event is durable, all before it are durable too."""
        self._later += lines
        if durable and self._later:
            ready, self._later = self._later, []
            self._seen = max(self._seen, ready[-1][0])
            try:
                self.file.write(ready)
            except OSError:
                # The events are durable and the anchor is behind, as after a crash; the next append adds the lines.
                self.is_trusted = False

    def last(self) -> Head:
        """Return the last event that has a line; having one, it is durable."""
        file = Anchor(self.file.path)  # our own descriptor may be closed already, and stays closed
        try:
            tail = file.tail()
        except FileNotFoundError:
            return Head(0, "")
        except OSError as error:
            raise unusable(file.path, error) from error
        finally:
            file.close()
        return Head(tail.high, tail.known[tail.high]) if tail.known else Head(0, "")

    def read(self, *, is_needed: bool, since: int = 0) -> tuple[dict[int, str], list[Finding]]:
        """Return the lines of the events after `since`, and the problems found in the anchor."""
        try:
            known, findings = self.file.read(since)
            return {seq: digest for seq, digest in known.items() if seq > since} if since else known, findings
        except FileNotFoundError:
            what = f"{self.file.path} is missing: only their chain protects the events"
            return {}, [Finding("anchor", what)] if is_needed else []
        except OSError as error:
            raise unusable(self.file.path, error) from error
