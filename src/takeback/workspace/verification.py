"""Verifying a workspace: the journal from where the last verification ended, or all of it; then the stored content.

The place where a verification ended is kept in the state folder, with the digest of the record there. It only saves
time. The next verification continues there if the journal still has that very record, and begins with the first
record otherwise. Whoever can rewrite old records can rewrite this file too: only a verification of everything proves
something about old records.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from takeback.core import compaction
from takeback.core.events import CompactionBegan
from takeback.core.history import History
from takeback.engine.outbox.check import disagreements
from takeback.errors import CorruptionError, FormatTooNew
from takeback.ports.journal import Finding, Head, Journal
from takeback.system import durable
from takeback.system.clock import SystemClock
from takeback.workspace.parts import WorkspaceParts

FILE = "verified.json"
FORMAT = 1
_BYTES_MAX, _COUNT_MAX = 4096, 2**63


class VerifiedPosition(msgspec.Struct, frozen=True):
    """Where a verification without findings ended."""

    format: int
    count: int
    digest: str
    at_us: int


class CompactionOf(msgspec.Struct, frozen=True):
    """A recorded compaction: the number of its record, when it was, and how many records it is about."""

    seq: int
    at_us: int
    records: int


class Verification(msgspec.Struct, frozen=True):
    """What a verification has read, and what it found."""

    findings: list[Finding]
    first: int
    """The first record that was read now; one more than `last` where there was nothing new.

    Those before it were read by an earlier verification.
    """
    last: int
    """The last record that there was."""
    earlier_us: int = 0
    """When those before `first` were verified; 0 where there are none."""
    compactions: tuple[CompactionOf, ...] = ()
    """The recorded compactions. Of the records that they name, what is left was compared with what they left."""
    note: str = ""
    """Why it began with the first record although an earlier verification had been noted."""


def verify(
    parts: WorkspaceParts, needed: Callable[[], set[bytes]], *, everything: bool, deep: bool
) -> Verification:
    """Verify the journal, the outbox and the stored content; with `deep` every stored byte and every file too."""
    start, note = (None, "") if everything or deep else _start(parts)
    since = start.count if start else 0
    # Asked before anything is read, so that everything up to here is.
    head = _head(parts.journal)
    findings = list(parts.journal.check(since=since, progress=parts.progress))
    if not findings and (gone := parts.lost):
        findings = [Finding("history", f"{gone}; {gone.hint}")]
    if not findings and not since:
        findings = _breaches(parts, head.count)
    if not findings:
        _note(parts, head)
        findings = list(disagreements(parts.ledger.refresh, parts.outbox))
    if parts.has_content:
        findings += parts.store.check(deep=deep, progress=parts.progress)
    if parts.kept.blobs and not findings:
        findings += _check_bucket(parts, needed, deep=deep)
    if deep and not findings:
        findings += _audit_files(parts)
    compactions = () if findings else tuple(_compactions(parts.journal))
    earlier_us = start.at_us if start else 0
    return Verification(findings, since + 1, max(head.count, since), earlier_us, compactions, note)


def _compactions(journal: Journal) -> Iterator[CompactionOf]:
    for record in journal.compaction.began():
        if isinstance(record.event, CompactionBegan):
            yield CompactionOf(record.seq, record.at_us, compaction.count(record.event.ranges))


def _head(journal: Journal) -> Head:
    """Return the end of the journal; of one that is too damaged to tell, the end that its anchor knows."""
    try:
        return journal.head()
    except CorruptionError:
        return journal.durable_head()


def _breaches(parts: WorkspaceParts, count: int) -> list[Finding]:
    """Return the records that contradict what was recorded before them."""
    records = parts.progress("Reading the history", parts.journal.read(), count)
    return [
        Finding(f"event {breach.seq}", breach.what, breach.seq) for breach in History.of(records).breaches
    ]


def _check_bucket(parts: WorkspaceParts, needed: Callable[[], set[bytes]], *, deep: bool) -> list[Finding]:
    try:
        return list(parts.store.check_shared(needed(), deep=deep, progress=parts.progress))
    except CorruptionError as error:
        return [Finding("content", error.message)]


def _audit_files(parts: WorkspaceParts) -> Iterator[Finding]:
    with parts.lock.held():
        for name, resource in parts.tracker.observed.items():
            if name in parts.history.marks:
                yield from resource.audit()


# The position


def _start(parts: WorkspaceParts) -> tuple[VerifiedPosition | None, str]:
    """Return where to continue, or why that is not possible although there is a position."""
    path = parts.state / FILE
    try:
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(_BYTES_MAX), type=VerifiedPosition)
    except FileNotFoundError:
        return None, ""
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None, f"{path} cannot be read"
    if found.format != FORMAT or not 0 < found.count < _COUNT_MAX:
        return None, f"{path} is not in a format that this program reads"
    try:
        record = parts.journal.get(found.count)
    except (CorruptionError, FormatTooNew):
        record = None
    if record is None or record.digest != found.digest:
        return None, f"the journal does not have the record {found.count:,} that {path} names"
    return found, ""


def _note(parts: WorkspaceParts, head: Head) -> None:
    """Keep this position. Without it the next verification takes longer, and nothing else."""
    if not head.count:
        return
    position = VerifiedPosition(FORMAT, head.count, head.digest, SystemClock().now_us())
    with suppress(OSError):
        durable.replace(parts.state / FILE, msgspec.json.encode(position) + os.linesep.encode())
