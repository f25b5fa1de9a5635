"""Big records are small rows: what is packed comes back byte for byte, and damage to it is named."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.core import events as e
from takeback.core.codec import digest
from takeback.core.record import Envelope, Record, seal
from takeback.errors import CorruptionError
from takeback.ports.relocation import Stored
from takeback.storage.journal import packed
from takeback.storage.journal.batch import PACK_BYTES, JournalRow
from takeback.storage.journal.packed import BASE_BYTES, DEPTH_MAX, Packer, unpacked
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.storage.journal.stored_journal import Unpacker
from takeback.testing import big
from tests.storage.journal_tampering import tamper_file

ENOUGH = 1500
"""So many changes that a record can be a base."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def stored_rows(path: Path) -> dict[int, JournalRow]:
    db = apsw.Connection(str(path))
    found = db.execute("SELECT seq, stream, n, ifnull(key, ''), digest, body FROM events ORDER BY seq")
    rows = [JournalRow(*row) for row in cast("Iterable[JournalRow]", found)]
    db.close()
    return {row.seq: row for row in rows}


def swept(path: Path, count: int = ENOUGH) -> list[Record]:
    journal = SqliteJournal(path)
    records = big.sweep(journal, count)
    journal.close()
    return records


# What it takes


def test_60000_files_deleted_and_brought_back_take_6_mb(path: Path) -> None:
    records = swept(path, 60_000)
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    assert size <= 6_000_000
    rows = stored_rows(path)
    end, undo, done = (rows[record.seq].body for record in records)
    assert len(end) < 4_000_000 and len(undo) < 1_500_000 and len(done) < 700_000


def test_a_small_record_is_stored_as_it_is(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([e.RunBegan("x" * (PACK_BYTES - 1000))], stream="")
    journal.append([e.RunBegan("x" * PACK_BYTES)], stream="")
    journal.close()
    small, large = stored_rows(path).values()
    assert digest(small.body) == small.digest
    assert len(large.body) < 500 and digest(large.body) != large.digest


def test_undoing_and_redoing_over_and_over_stays_small_and_shallow(path: Path) -> None:
    journal = SqliteJournal(path)
    _, undo, done = big.sweep(journal, ENOUGH)
    plan = cast("e.RollbackBegan", undo.event)
    for _ in range(6):
        again = e.RollbackBegan(
            e.RollbackKind.UNDO,
            plan.of,
            plan.swaps,
            tuple(
                e.Item(item.target, item.did, settles=item.settles, seqs=(done.seq,)) for item in plan.items
            ),
        )
        (undo,) = journal.append([again], stream="w")
        (done,) = journal.append([big.taken_back(undo.id, again)], stream="w")
    assert list(journal.check()) == []
    journal.close()
    headers = [packed._Header.of(row.body) for row in stored_rows(path).values()]
    assert max(header.depth for header in headers if header) == DEPTH_MAX
    assert [row.seq for row in stored_rows(path).values() if row.seq > 5 and len(row.body) > 60_000] == []


# Round trips


def made(seq: int, text: str) -> tuple[Stored, Record]:
    envelope = Envelope(1, seq, "w", seq, "", 1, e.StepBegan(text))
    body, name = seal(envelope)
    return (seq, "w", seq, "", name, body), Record(envelope, name)


texts = st.tuples(
    st.text(max_size=50), st.integers(0, 2 * BASE_BYTES // 50), st.text(max_size=300), st.integers(0, 20)
).map(lambda drawn: drawn[0] * drawn[1] + drawn[2] * drawn[3])


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=1, max_size=6), st.integers(1, 6), st.booleans())
def test_any_records_come_back_byte_for_byte(texts: list[str], size: int, is_kept: bool) -> None:
    """In one packing or several, by one packer or a new one for each: bases are found or not."""
    pairs = [made(seq, text) for seq, text in enumerate(texts, 1)]
    packer, there = Packer(), dict[int, Stored]()
    for at in range(0, len(pairs), size):
        part = pairs[at : at + size]
        packer = packer if is_kept else Packer()
        rows = packer.pack([row for row, _ in part], [record for _, record in part], there.get)
        there |= {row[0]: row for row in rows}

    def whole(seq: int) -> Stored | None:
        return unpacked(there[seq], whole) if seq in there else None

    unpacker = Unpacker(whole)
    assert [unpacker.whole(row) for row in there.values()] == [row for row, _ in pairs]
    assert [whole(seq) for seq in reversed(there)] == [row for row, _ in reversed(pairs)]
    for row in there.values():
        assert len(row[5]) < max(PACK_BYTES, len(pairs[row[0] - 1][0][5]) + 1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_to_packed_bytes_goes_unnoticed(data: st.DataObject) -> None:
    pairs = [made(seq, "".join(map(str, range(60_000))) + str(seq)) for seq in (1, 2)]
    rows = Packer().pack([row for row, _ in pairs], [record for _, record in pairs], lambda _: None)
    there = {row[0]: row for row in rows}
    seq = data.draw(st.sampled_from([1, 2]))
    body = bytearray(there[seq][5])
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(1, len(body) - 1)) :]
    else:
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] ^= data.draw(st.integers(1, 255))
    there[seq] = (*there[seq][:5], bytes(body))

    def whole(seq: int) -> Stored | None:
        return unpacked(there[seq], whole) if seq in there else None

    with suppress(CorruptionError):
        found = whole(seq)
        assert found
        # What the header says of its depth is a hint for writers alone.
        assert digest(found[5]) != found[4] or found == pairs[seq - 1][0]


# Damage in a journal


def damaged(body: bytes) -> bytes:
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


def test_a_damaged_base_is_named_and_what_depends_on_it(path: Path) -> None:
    end, undo, done = swept(path)
    tamper_file(
        path,
        lambda rows: [row._replace(body=damaged(row.body)) if row.seq == end.seq else row for row in rows],
    )
    journal = SqliteJournal(path)
    (finding,) = journal.check()
    assert finding.place == f"events {end.seq} to {done.seq}"
    assert "cannot be decompressed" in finding.what
    with pytest.raises(CorruptionError, match=f"event {end.seq} is not what was written"):
        journal.get(undo.seq)
    with pytest.raises(CorruptionError, match=f"event {end.seq} is not what was written"):
        list(journal.read())
    (later,) = journal.append([e.CheckpointTaken("on")], stream="w")
    assert journal.get(later.seq) == later
    journal.close()


def test_a_record_whose_base_is_gone_says_so(path: Path) -> None:
    end, undo, _ = swept(path)
    tamper_file(path, lambda rows: [row for row in rows if row.seq != end.seq])
    journal = SqliteJournal(path)
    with pytest.raises(CorruptionError, match=f"event {end.seq}, which is missing or damaged"):
        journal.get(undo.seq)
    assert end.seq in [finding.seq for finding in journal.check()]
    journal.close()


def test_a_base_that_was_replaced_is_noticed(path: Path) -> None:
    end, undo, done = swept(path)

    def replaced(row: JournalRow) -> JournalRow:
        other = seal(
            Envelope(6, row.seq, row.stream, row.n, "", 1, big.ended("a2", big.changes(ENOUGH, "x")))
        )
        return row._replace(body=other[0], digest=other[1])

    tamper_file(path, lambda rows: [replaced(row) if row.seq == end.seq else row for row in rows])
    journal = SqliteJournal(path)
    first, second = journal.check()
    assert first.seq == end.seq and "replaced" in first.what
    assert second.place == f"events {undo.seq} to {done.seq}"
    assert f"differs from event {end.seq}, which is missing or damaged" in second.what
    journal.close()


def test_nothing_new_depends_on_what_is_damaged(path: Path) -> None:
    end, undo, _ = swept(path)
    tamper_file(
        path,
        lambda rows: [row._replace(body=damaged(row.body)) if row.seq == undo.seq else row for row in rows],
    )
    journal = SqliteJournal(path)
    plan = big.began("a2", undo.seq, cast("e.ActionEnded", end.event).changes)
    (record,) = journal.append([plan], stream="w")
    assert journal.get(record.seq) == record
    journal.close()
