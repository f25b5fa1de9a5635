"""Making a recorded history look older than it is: every record is written again, earlier, with its chain."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import msgspec

from takeback.core.record import seal
from takeback.storage.journal.packed import Packer
from takeback.storage.journal.sqlite.journal import SqliteJournal

DAY_US = 86_400_000_000


def age(state: Path, days: float, upto: int | None = None) -> int:
    """Make the records of a workspace so many days older, or those up to one of them. Return the last number."""
    path = state / "journal.db"
    journal = SqliteJournal(path)
    rows, records, ends = [], [], dict[str, str]()
    for record in journal.read():
        back = int(days * DAY_US) if upto is None or record.seq <= upto else 0
        prev, at_us = ends.get(record.stream, ""), record.at_us - back
        envelope = msgspec.structs.replace(record.envelope, at_us=at_us, prev=prev)
        body, name = seal(envelope)
        ends[record.stream] = name
        rows.append((record.seq, record.stream, envelope.n, envelope.key, name, body))
        records.append(record)
    journal.close()
    packed = Packer().pack(rows, records, lambda _: None)
    db = apsw.Connection(str(path))
    with db:
        db.executemany(
            "UPDATE events SET digest = ?, body = ? WHERE seq = ?", [(r[4], r[5], r[0]) for r in packed]
        )
    db.close()
    (state / "journal.anchor").write_text("".join(f" {row[0]} {row[4]}\n" for row in rows))
    for derived in ("index.db", "index.seal", "verified.json"):
        (state / derived).unlink(missing_ok=True)
    return len(rows)


def forget_witness(witness: Path) -> None:
    """Remove what would notice that the history was written again."""
    shutil.rmtree(witness, ignore_errors=True)
