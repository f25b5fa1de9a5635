"""The contract of the `Moving` port, as a test suite that any implementation can run.

Say how to open yours, and pytest does the rest:

    class TestMyJournalMoves(MovingContract):
        def open(self, where: Path) -> Journal:
            return MyJournal(where / "journal")

`open` is called for two folders: from one the journal leaves, into the other it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken, RunBegan, StepBegan
from takeback.core.intents import AttemptOutcome, IntentAttempted, IntentDelivered, IntentDied, Queued
from takeback.core.leases import Lease
from takeback.errors import ConflictError, CorruptionError, RunBusy, StoreMoved, TakebackError, UsageError
from takeback.ports.journal import Journal
from takeback.ports.relocation import Stored
from takeback.testing import big
from takeback.testing.intents import LONG_S, released
from takeback.testing.lease_contract import ANN, BOB

NOTICE = "was taken to 'another' place"
ON_ITS_WAY = "is on its way in"


class MovingContract:
    """Subclass it, with a name that pytest collects."""

    def open(self, where: Path) -> Journal:
        """Return the journal that is kept in this folder."""
        raise NotImplementedError

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        yield from self._opened(tmp_path / "here")

    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Journal]:
        yield from self._opened(tmp_path / "there")

    def _opened(self, where: Path) -> Iterator[Journal]:
        where.mkdir()
        journal = self.open(where)
        yield journal
        assert list(journal.check()) == []
        journal.close()

    # Shutting

    def test_what_is_shut_is_read_and_not_written(self, journal: Journal) -> None:
        fill(journal)
        before = list(journal.read())
        assert journal.moving.notice() == ""
        journal.moving.shut(NOTICE)
        assert journal.moving.notice() == NOTICE
        writes: list[Callable[[], object]] = [
            lambda: journal.append([CheckpointTaken()], stream=ids.WORKSPACE),
            lambda: journal.append([RunBegan("r")], stream="", durable=False),
            lambda: journal.outbox.claim("me", 1, LONG_S),
            lambda: journal.outbox.cancel(journal.outbox.page()[-1].id),
            lambda: journal.leases.acquire("src", ANN, LONG_S),
        ]
        for write in writes:
            with pytest.raises(StoreMoved, match=f"{NOTICE}; nothing was recorded"):
                write()
        assert list(journal.read()) == before
        assert [one.state for one in journal.outbox.page() if one.owner] == []
        assert journal.leases.all() == []

    def test_opened_again_it_goes_on(self, journal: Journal) -> None:
        fill(journal)
        journal.moving.shut(ON_ITS_WAY)
        journal.moving.shut(NOTICE)
        for _ in range(2):
            journal.moving.reopen()
        assert journal.moving.notice() == ""
        journal.append([CheckpointTaken()], stream=ids.WORKSPACE)
        assert journal.outbox.claim("me", 1, LONG_S)
        assert isinstance(journal.leases.acquire("src", ANN, LONG_S), Lease)

    def test_it_is_not_shut_while_somebody_delivers(self, journal: Journal) -> None:
        released(journal, 1)
        claimed = journal.outbox.claim("me", 1, LONG_S)
        with pytest.raises(RunBusy, match="delivering"):
            journal.moving.shut(NOTICE)
        assert journal.moving.notice() == ""
        journal.outbox.start(claimed)
        journal.outbox.settle([delivered(claimed[0])])
        journal.moving.shut(NOTICE)

    def test_it_is_not_shut_while_somebody_holds_a_lease(self, journal: Journal) -> None:
        lease = journal.leases.acquire("src", ANN, LONG_S)
        assert isinstance(lease, Lease)
        with pytest.raises(RunBusy, match="src is locked"):
            journal.moving.shut(NOTICE)
        journal.append([CheckpointTaken()], stream=ids.WORKSPACE, fences=[lease.fence])
        journal.leases.release([lease.fence])
        journal.moving.shut(NOTICE)

    # Coming in

    def test_what_came_in_is_what_left(self, journal: Journal, other: Journal) -> None:
        fill(journal)
        carry(journal, other, size=3)
        assert list(other.moving.rows()) == list(journal.moving.rows())
        assert list(other.read()) == list(journal.read())
        for stream in {record.stream for record in journal.read()}:
            assert other.head(stream) == journal.head(stream)
        assert other.head() == journal.head()
        assert [told(one) for one in other.outbox.page()] == [told(one) for one in journal.outbox.page()]
        for one in journal.outbox.page():
            assert list(other.outbox.attempts(one.id)) == list(journal.outbox.attempts(one.id))
        assert other.outbox.counts() == journal.outbox.counts()
        assert (other.moving.queue(), other.moving.fence()) == (
            journal.moving.queue(),
            journal.moving.fence(),
        )

    def test_what_came_in_goes_on_as_it_would_have(self, journal: Journal, other: Journal) -> None:
        fill(journal)
        carry(journal, other, size=2)
        other.moving.reopen()
        keyed = [StepBegan("1"), StepBegan("2"), StepBegan("3")]
        first = next(record for record in journal.read() if record.envelope.key == "three")
        assert other.append(keyed, stream=first.stream, key="three") == journal.find("three")
        (record,) = other.append([CheckpointTaken("after")], stream=ids.WORKSPACE)
        assert record.seq == journal.head().count + 1
        assert record.envelope.prev == journal.head(ids.WORKSPACE).digest
        due = [one.id for one in journal.outbox.page() if one.state == "due" and not one.attempts]
        assert sorted(one.id for one in other.outbox.claim("me", 10, LONG_S)) == sorted(due)
        lease = other.leases.acquire("src", BOB, LONG_S)
        assert isinstance(lease, Lease) and lease.fence == journal.moving.fence() + 1

    def test_it_comes_in_again_and_on_from_where_it_was(self, journal: Journal, other: Journal) -> None:
        fill(journal)
        every = list(journal.moving.rows())
        other.moving.shut(ON_ITS_WAY)
        for _ in range(2):
            other.moving.adopt(every[:4])
        other.moving.adopt(every[2:9])
        other.moving.adopt([])
        other.moving.adopt(every)
        assert list(other.moving.rows()) == every
        assert list(other.moving.rows(after=3)) == every[3:]

    def test_only_what_is_shut_takes_in(self, journal: Journal, other: Journal) -> None:
        fill(journal)
        with pytest.raises(UsageError, match="only a journal that is shut"):
            other.moving.adopt(list(journal.moving.rows()))
        assert other.head().count == 0

    def test_what_does_not_fit_is_refused_as_a_whole(self, journal: Journal, other: Journal) -> None:
        fill(journal)
        every = list(journal.moving.rows())
        other.moving.shut(ON_ITS_WAY)
        wrong: dict[str, list[Stored]] = {
            "a gap": [every[0], *every[2:]],
            "no beginning": every[1:],
            "another order": [every[1], every[0]],
            "another body": [every[0], (*every[1][:5], every[1][5] + b" ")],
            "another digest": [every[0], (*every[1][:4], every[0][4], every[1][5])],
            "another key": [every[0], (*every[1][:3], "k", *every[1][4:])],
            "twice": [every[0], every[0]],
        }
        for what, rows in wrong.items():
            with pytest.raises(TakebackError) as caught:
                other.moving.adopt(rows)
            assert isinstance(caught.value, CorruptionError | ConflictError), what
            assert other.head().count == 0, what

    def test_a_record_of_another_history_is_refused(self, journal: Journal, other: Journal) -> None:
        other.append([CheckpointTaken("another history")], stream=ids.WORKSPACE)
        other.moving.shut(ON_ITS_WAY)
        journal.append([CheckpointTaken("mine")], stream=ids.WORKSPACE)
        journal.append([CheckpointTaken("mine")], stream=ids.WORKSPACE)
        every = list(journal.moving.rows())
        for rows in (every, every[1:]):
            with pytest.raises(TakebackError, match="nothing was recorded"):
                other.moving.adopt(rows)
        assert other.head().count == 1


def fill(journal: Journal) -> None:
    """A history with all that is to be kept: streams, keys, big records, intents in each state, numbers of leases."""
    journal.append([CheckpointTaken("first")], stream=ids.WORKSPACE, key="one")
    (run,) = journal.append([RunBegan("run")], stream="")
    journal.append([StepBegan("1"), StepBegan("2"), StepBegan("3")], stream=run.id, key="three")
    released(journal, 3)
    released(journal, 2, order="o")
    released(journal, 1, tries=1)
    claimed = journal.outbox.claim("me", 3, LONG_S)
    journal.outbox.start(claimed)
    words = (
        AttemptOutcome(claimed[0], IntentDelivered(claimed[0].id, 1), {"answer": [1, "two"]}),
        AttemptOutcome(claimed[1], IntentAttempted(claimed[1].id, 1, "away", 2**52, unsure=True)),
        AttemptOutcome(claimed[2], IntentDied(claimed[2].id, 1, "refused")),
    )
    journal.outbox.settle(words)
    for name in ("a", "b"):
        lease = journal.leases.acquire(name, ANN, LONG_S)
        assert isinstance(lease, Lease)
        journal.leases.release([lease.fence])
    big.sweep(journal, 1500)
    journal.append([CheckpointTaken("last")], stream=ids.WORKSPACE)


def carry(journal: Journal, other: Journal, size: int) -> None:
    """Copy from one to the other, in pieces, as moving a workspace does."""
    journal.moving.shut(NOTICE)
    other.moving.shut(ON_ITS_WAY)
    every = list(journal.moving.rows())
    for at in range(0, len(every), size):
        other.moving.adopt(every[at : at + size])
    other.moving.adopt([], journal.moving.queue(), journal.moving.fence())


def delivered(queued: Queued) -> AttemptOutcome:
    return AttemptOutcome(queued, IntentDelivered(queued.id, queued.attempts + 1))


def told(one: Queued) -> tuple[object, ...]:
    """All of an intent but when it is due, which each store tells by its own clock."""
    return (
        one.id, one.run, one.deferred, one.state, one.changed_us, one.attempts, one.unsure, one.fence, one.result,
    )  # fmt: skip
