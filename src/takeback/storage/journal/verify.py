"""The check behind `verify`: compare every row with its digest, its columns, its chain and the anchor.

One act of tampering should yield one finding that names its place. So each row is charged with the first fault that
applies, a fault that spans neighbouring rows is reported once, and what merely follows from a reported fault is not
charged again. For that, `_excused` remembers every digest that a faulty row may have had: the next row is in chain
if it follows any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from takeback.core.codec import digest
from takeback.core.record import Envelope, unseal
from takeback.errors import CorruptionError, FormatTooNew
from takeback.ports.journal import Finding
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import FROM_THE_FIRST, REDUCED, Checked, record_of
from takeback.storage.journal.stored_journal import Unpacker

StoredOrTorn = tuple[int, str, int, str, str, bytes | str]
"""A stored row; where the storage cannot return its content, there are words instead that say why."""


def whole_or_torn(row: Stored, unpacker: Unpacker) -> StoredOrTorn:
    """Return a row with its content, or with what is wrong with it."""
    try:
        return unpacker.whole(row)
    except CorruptionError as error:
        return (*row[:5], error.message)


VERIFYING = "Verifying the journal"


def _none(_seq: int) -> bool:
    return False


def audit(
    rows: Iterable[StoredOrTorn],
    anchored: Mapping[int, str],
    checked: Checked = FROM_THE_FIRST,
    is_recorded: Callable[[int], bool] = _none,
) -> Iterator[Finding]:
    """Yield what is wrong with the rows of a journal: with all of them, or with those after what was checked before.

    `anchored` maps sequence numbers to digests. `is_recorded` knows the records that a recorded compaction names.
    The digest of a compacted record is only stated: its links and the anchor have to confirm it.
    """
    auditor = _Auditor(anchored, checked, is_recorded)
    yield from _grouped(auditor.faults(rows))
    yield from auditor.missing()
    yield from auditor.rewritten()


def events(first: int, last: int) -> str:
    """Return a range of events as text."""
    return f"event {first}" if first == last else f"events {first} to {last}"


class _Fault(NamedTuple):
    """A fault in one row. For a moved row `shift` says how far; for others `why` may add details."""

    seq: int
    what: str
    shift: int = 0
    why: str = ""

    def continues(self, other: _Fault) -> bool:
        return self.seq == other.seq + 1 and (self.what, self.shift) == (other.what, other.shift)


class _End(NamedTuple):
    """The last row of a stream so far. `root` is the replaced event after which its chain was rewritten."""

    n: int
    digest: str
    root: int = 0


class _Auditor:
    def __init__(
        self, anchored: Mapping[int, str], checked: Checked, is_recorded: Callable[[int], bool]
    ) -> None:
        self._anchored = anchored
        self._is_recorded = is_recorded
        self._anchored_max = max(anchored, default=0)
        self._checked = checked
        self._at = checked.seq
        self._seen: list[int] = []
        self._ends: dict[str, _End] = {}
        self._excused: set[str] = set()
        self._followers: Counter[int] = Counter()

    def faults(self, rows: Iterable[StoredOrTorn]) -> Iterator[_Fault]:
        for row in rows:
            if fault := self._judge(row):
                yield fault

    def missing(self) -> Iterator[Finding]:
        """Yield events that are gone, though other numbers or the anchor show that they were written."""
        expected = self._checked.seq + 1
        for seq in (*sorted(self._seen), self._anchored_max + 1):
            if seq > expected:
                yield Finding(
                    events(expected, seq - 1), "missing: written earlier, and no longer there", expected
                )
            expected = max(expected, seq + 1)

    def rewritten(self) -> Iterator[Finding]:
        """Yield the later events of a stream that were rewritten to fit a replaced one."""
        if self._followers:
            root, count = min(self._followers), self._followers.total()
            yield Finding(f"after event {root}", f"{count} more rewritten to follow the replaced event", root)

    def _judge(self, row: StoredOrTorn) -> _Fault | None:
        seq, _, _, _, name, body = row
        self._excuse_gap(seq)
        envelope, why = _read(row)
        actual = digest(body) if isinstance(body, bytes) else ""
        if _is_reduced(body):
            actual = name if envelope else ""
        self._seen.append(envelope.seq if envelope and actual == name else seq)
        fault = self._fault(row, envelope, actual, why)
        if fault:
            before = self._end(envelope.stream).digest if envelope else ""
            self._excused.update((name, actual, self._anchored.get(seq, ""), before))
            self._excused.discard("")  # the first event of a stream follows nothing, which excuses no other
        if envelope:
            fault = self._follow(envelope, actual, fault)
        self._at = max(self._at, seq)
        return fault

    def _fault(self, row: StoredOrTorn, envelope: Envelope | None, actual: str, why: str) -> _Fault | None:
        seq, stream, n, key, name, body = row
        if envelope and envelope.seq != seq:
            return _Fault(seq, "moved", shift=envelope.seq - seq)
        if actual and actual != name:
            return _Fault(seq, "changed since it was written: the content does not match its digest")
        if envelope is None:
            return _Fault(seq, "unreadable", why=why)
        if (envelope.stream, envelope.n, envelope.key) != (stream, n, key):
            return _Fault(seq, "wrongly labelled: stream, number or key differ from the content")
        if seq <= self._at:
            return _Fault(seq, "stored twice")
        if _is_reduced(body) and not self._is_recorded(seq):
            return _Fault(seq, "without its details, and no recorded compaction names it")
        if self._anchored.get(seq, actual) != actual:
            return _Fault(seq, _REPLACED)
        return None

    def _follow(self, envelope: Envelope, actual: str, fault: _Fault | None) -> _Fault | None:
        """Make the record the new end of its stream. Charge a record without another fault if it does not fit."""
        end = self._end(envelope.stream)
        fits = (envelope.n, envelope.prev) == (end.n + 1, end.digest)
        root = 0
        if fault and fault.what == _REPLACED:
            root = end.root if fits and end.root else envelope.seq
            if root != envelope.seq:
                self._followers[root] += 1
                fault = None
        elif not fault and not fits and envelope.prev not in self._excused:
            fault = _Fault(envelope.seq, "out of chain: it does not follow the event before it in its stream")
        self._ends[envelope.stream] = _End(envelope.n, actual, root)
        return fault

    def _end(self, stream: str) -> _End:
        if stream not in self._ends:
            before = self._checked.end_of(stream)
            self._ends[stream] = _End(before.count, before.digest)
        return self._ends[stream]

    def _excuse_gap(self, seq: int) -> None:
        for missing in range(self._at + 1, min(seq, self._anchored_max + 1)):
            if missing in self._anchored:
                self._excused.add(self._anchored[missing])


_REPLACED = "replaced: the anchor has another digest"


def _is_reduced(body: bytes | str) -> bool:
    return isinstance(body, bytes) and body[:1] == REDUCED


def _read(row: StoredOrTorn) -> tuple[Envelope | None, str]:
    body = row[5]
    if not isinstance(body, bytes):
        return None, body or "its content is missing"
    try:
        if _is_reduced(body):
            return record_of((*row[:5], body)).envelope, ""
        return unseal(body, "its content"), ""
    except (CorruptionError, FormatTooNew) as error:
        return None, error.message


def _grouped(faults: Iterable[_Fault]) -> Iterator[Finding]:
    """Report a fault once if it spans neighbouring rows."""
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
