"""The check behind `verify`: hold every row against its digest, its columns, its chain and the anchor.

One act of tampering should give one finding that names its place, so each row is charged with the first fault
that applies, a fault that goes on over neighbouring rows is said once, and what merely follows from a fault
already named is not charged again. For that, a faulty row is remembered by every digest that it may have had
(`_excused`): the row after it is in chain if it follows any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from takeback.core.codec import digest
from takeback.core.record import Envelope, unseal
from takeback.errors import CorruptionError, FormatTooNew
from takeback.ports.journal import Finding

StoredOrTorn = tuple[int, str, int, str, str, bytes | None]
"""A stored row; its content is None where the storage cannot give it back."""


def audit(rows: Iterable[StoredOrTorn], anchored: Mapping[int, str]) -> Iterator[Finding]:
    """Name what is wrong with all the rows of a journal; `anchored` gives digests by sequence number."""
    auditor = _Auditor(anchored)
    yield from _grouped(auditor.faults(rows))
    yield from auditor.missing()
    yield from auditor.rewritten()


def events(first: int, last: int) -> str:
    """A range of events, in words."""
    return f"event {first}" if first == last else f"events {first} to {last}"


class _Fault(NamedTuple):
    """What is wrong with one row. Of a moved one, `shift` says how far; of another, `why` may say more."""

    seq: int
    what: str
    shift: int = 0
    why: str = ""

    def continues(self, other: _Fault) -> bool:
        return self.seq == other.seq + 1 and (self.what, self.shift) == (other.what, other.shift)


class _End(NamedTuple):
    """The last row of a stream so far. `root` is the replaced event that its chain was rewritten after."""

    n: int
    digest: str
    root: int = 0


class _Auditor:
    def __init__(self, anchored: Mapping[int, str]) -> None:
        self._anchored = anchored
        self._anchored_max = max(anchored, default=0)
        self._at = 0
        self._seen: list[int] = []
        self._ends: dict[str, _End] = {}
        self._excused: set[str] = set()
        self._followers: Counter[int] = Counter()

    def faults(self, rows: Iterable[StoredOrTorn]) -> Iterator[_Fault]:
        for row in rows:
            if fault := self._judge(row):
                yield fault

    def missing(self) -> Iterator[Finding]:
        """Events that were written, by the numbers of the others or by the anchor, and are not there."""
        expected = 1
        for seq in (*sorted(self._seen), self._anchored_max + 1):
            if seq > expected:
                yield Finding(
                    events(expected, seq - 1), "missing: written once, and no longer there", expected
                )
            expected = max(expected, seq + 1)

    def rewritten(self) -> Iterator[Finding]:
        """What follows from a replaced event: later ones of its stream, that were made to fit."""
        if self._followers:
            root, count = min(self._followers), self._followers.total()
            yield Finding(f"after event {root}", f"{count} more rewritten, to follow what was replaced", root)

    def _judge(self, row: StoredOrTorn) -> _Fault | None:
        seq, _, _, _, name, body = row
        self._excuse_gap(seq)
        actual = digest(body) if isinstance(body, bytes) else ""
        envelope, why = _read(row)
        self._seen.append(envelope.seq if envelope and actual == name else seq)
        fault = self._fault(row, envelope, actual, why)
        if fault:
            before = self._ends.get(envelope.stream) if envelope else None
            self._excused.update((name, actual, self._anchored.get(seq, ""), before.digest if before else ""))
            self._excused.discard("")  # the first of a stream follows nothing; that is no excuse for another
        if envelope:
            fault = self._follow(envelope, actual, fault)
        self._at = max(self._at, seq)
        return fault

    def _fault(self, row: StoredOrTorn, envelope: Envelope | None, actual: str, why: str) -> _Fault | None:
        seq, stream, n, key, name, _ = row
        if envelope and envelope.seq != seq:
            return _Fault(seq, "moved", shift=envelope.seq - seq)
        if actual and actual != name:
            return _Fault(seq, "changed since it was written: the content does not match its digest")
        if envelope is None:
            return _Fault(seq, "unreadable", why=why)
        if (envelope.stream, envelope.n, envelope.key) != (stream, n, key):
            return _Fault(seq, "wrongly labelled: stream, number or key differ from the content")
        if seq <= self._at:
            return _Fault(seq, "there a second time")
        if self._anchored.get(seq, actual) != actual:
            return _Fault(seq, _REPLACED)
        return None

    def _follow(self, envelope: Envelope, actual: str, fault: _Fault | None) -> _Fault | None:
        """Take the record as the new end of its stream; one without a fault is charged if it does not fit."""
        end = self._ends.get(envelope.stream, _End(0, ""))
        fits = (envelope.n, envelope.prev) == (end.n + 1, end.digest)
        root = 0
        if fault and fault.what == _REPLACED:
            root = end.root if fits and end.root else envelope.seq
            if root != envelope.seq:
                self._followers[root] += 1
                fault = None
        elif not fault and not fits and envelope.prev not in self._excused:
            fault = _Fault(
                envelope.seq, "out of chain: it does not follow what stands before it in its stream"
            )
        self._ends[envelope.stream] = _End(envelope.n, actual, root)
        return fault

    def _excuse_gap(self, seq: int) -> None:
        for missing in range(self._at + 1, min(seq, self._anchored_max + 1)):
            if missing in self._anchored:
                self._excused.add(self._anchored[missing])


_REPLACED = "replaced: it is not what the anchor names"


def _read(row: StoredOrTorn) -> tuple[Envelope | None, str]:
    body = row[5]
    if not isinstance(body, bytes):
        return None, "its content is damaged on the disk"
    try:
        return unseal(body, "its content"), ""
    except (CorruptionError, FormatTooNew) as error:
        return None, error.message


def _grouped(faults: Iterable[_Fault]) -> Iterator[Finding]:
    """Say a fault once where it goes on over neighbouring rows."""
    first: _Fault | None = None
    last: _Fault | None = None
    for fault in faults:
        if first and last and not fault.continues(last):
            yield _finding(first, last)
            first = None
        first, last = first or fault, fault
    if first and last:
        yield _finding(first, last)


def _finding(first: _Fault, last: _Fault) -> Finding:
    what = first.why or first.what
    if first.shift:
        what = f"moved: written as {events(first.seq + first.shift, last.seq + last.shift)}"
    return Finding(events(first.seq, last.seq), what, first.seq)
