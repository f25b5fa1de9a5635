"""The anchor of a shared journal: what was seen of it from this machine."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken
from takeback.errors import CorruptionError
from takeback.storage.journal.postgres import journal as store
from takeback.storage.journal.postgres.journal import PostgresJournal
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import STORE, opened

EVENTS = 6
OURS = "workspace = (SELECT id FROM takeback_store.workspaces WHERE name = %(name)s)"


@pytest.fixture
def where(server: Server, tmp_path: Path) -> Path:
    journal = opened(tmp_path)
    for n in range(EVENTS):
        append(journal, f"{n}")
    journal.close()
    return tmp_path


def append(journal: PostgresJournal, text: str = "more") -> int:
    return journal.append([CheckpointTaken(text)], stream=ids.WORKSPACE)[0].seq


def tamper(where: Path, *statements: str) -> None:
    with psycopg.connect(os.environ[STORE]) as db:
        for statement in statements:
            db.execute(statement.encode(), {"name": str(where)})


def cut_to(where: Path, count: int) -> None:
    """As if an old backup had been restored."""
    tamper(
        where,
        f"DELETE FROM takeback_store.events WHERE {OURS} AND seq > {count}",
        f"UPDATE takeback_store.workspaces w SET count = {count}, "
        f"digest = (SELECT digest FROM takeback_store.events e WHERE e.workspace = w.id "
        f"AND e.seq = {count}) WHERE w.name = %(name)s",
    )


def test_events_that_were_cut_are_noticed(where: Path) -> None:
    living = opened(where)
    append(living)
    cut_to(where, 4)
    for journal in (living, opened(where)):
        with pytest.raises(CorruptionError, match=r"events 5 to 7 are missing.*Nothing was recorded"):
            append(journal)
        assert [finding.place for finding in journal.check()] == ["events 5 to 7"]
        assert len(list(journal.read())) == 4
        journal.close()


def test_events_that_were_replaced_are_noticed(where: Path) -> None:
    tamper(
        where, f"UPDATE takeback_store.events SET digest = 'b3:' || repeat('0', 64) WHERE {OURS} AND seq = 6"
    )
    journal = opened(where)
    with pytest.raises(CorruptionError, match="event 6 is not what was written"):
        append(journal)
    assert [finding.place for finding in journal.check()] == ["event 6"]
    journal.close()


def test_an_end_that_is_noted_wrongly_is_named(where: Path) -> None:
    tamper(where, f"DELETE FROM takeback_store.events WHERE {OURS} AND seq = {EVENTS}")
    journal = opened(where)
    assert {finding.place for finding in journal.check()} == {"database", "event 6"}
    journal.close()


def test_an_anchor_that_is_lost_is_named_for_ever(where: Path) -> None:
    (where / "journal.anchor").unlink()
    journal = opened(where)
    assert [finding.place for finding in journal.check()] == ["anchor"]
    append(journal)
    journal.close()
    again = opened(where)
    assert [finding.what for finding in again.check()] == [
        "the anchor was lost; it does not cover events up to 6"
    ]
    again.close()


def test_what_others_wrote_is_anchored_at_the_next_start(where: Path, tmp_path: Path) -> None:
    other = PostgresJournal(os.environ[STORE], str(where), tmp_path / "other.anchor")
    append(other)
    other.close()
    journal = opened(where)
    append(journal)
    journal.close()
    lines = (where / "journal.anchor").read_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, EVENTS + 3))


def test_of_very_many_the_last_is_anchored(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CATCH_UP_MAX", 3)
    anchor = where / "journal.anchor"
    anchor.write_text("".join(anchor.read_text().splitlines(keepends=True)[:2]))
    journal = opened(where)
    append(journal)
    assert [int(line.split()[0]) for line in anchor.read_text().splitlines()] == [1, 2, 6, 7]
    assert list(journal.check()) == []
    journal.close()
