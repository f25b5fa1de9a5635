"""Compacting a journal that others have open: each history and each index knows of it, and nothing else changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.core import events as e
from takeback.core import selection
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.history import History
from takeback.core.rollback import Verdict
from takeback.engine.compaction import CompactionPlan, Compactor
from takeback.engine.ledger import Ledger
from takeback.errors import ConflictError, JournalMoved
from takeback.ports.journal import Journal
from takeback.storage.index.stored_index import StoredIndex
from takeback.storage.journal.sqlite.journal import SqliteJournal
from tests.core.answers import answers
from tests.engine.conftest import Desk

OLD_US, LIMIT_US, NOW_US = 1_000_000, 2_000_000, 3_000_000


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.us = OLD_US

    def now_us(self) -> int:
        return self.us


class Old:
    """A journal with something old in it, and one that is recent."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, SetClock()
        self.journal = SqliteJournal(folder / "journal.db", clock=self.clock)
        self.ledger = self.opened()
        for n in range(30):
            self.act(f"f{n % 5}", n)
        self.clock.us = NOW_US

    def opened(self) -> Ledger:
        return Ledger(self.journal, index=StoredIndex(self.folder, self.journal))

    def act(self, name: str, n: int, stream: str = "") -> str:
        run = stream or self.ledger.append([e.RunBegan("tool")], "")[0].id
        action = self.ledger.append([e.ActionBegan("tool", e.Effect.RESTORABLE)], run)[0].id
        change = Change(Target("files", name), ABSENT, Version(f"v{n}"))
        self.ledger.append([e.ActionEnded(action, e.Outcome.DONE, (change,))], run)
        if not stream:
            self.ledger.append([e.RunEnded(e.Outcome.DONE)], run)
        return action

    @property
    def compactor(self) -> Compactor:
        return Compactor(self.ledger, lambda _: False)

    def plan(self, most: int | None = None) -> CompactionPlan:
        plan = self.compactor.plan(LIMIT_US, NOW_US, most)
        assert plan is not None
        return plan


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Old]:
    made = Old(tmp_path)
    yield made
    assert list(made.journal.check()) == []
    made.ledger.close()
    made.journal.close()


def folded(journal: Journal) -> dict[str, object]:
    return answers(History.of(journal.read()))


def test_whoever_has_it_open_notices(old: Old) -> None:
    recent = old.act("g", 1)
    other, bare = old.opened(), Ledger(old.journal)
    for ledger in (other, bare):
        assert selection.last_action(ledger.refresh()).actions == (recent,)
    history = other.history
    first = history.actions["a2"]
    assert first.changes
    old.compactor.carry_out(old.plan(), "ann")
    for ledger in (other, bare, old.ledger, old.opened()):
        assert answers(ledger.refresh()) == folded(old.journal)
    assert other.history is history and history.actions["a2"].compacted_us == NOW_US
    with pytest.raises(ConflictError, match="removed from the history by gc on 1970-01-01"):
        selection.refuse_compacted_among(history, ["a2"])
    other.close()


def test_an_index_from_before_is_not_used(old: Old) -> None:
    old.ledger.refresh()
    old.ledger._write_index()
    old.compactor.carry_out(old.plan(), "ann")  # old.ledger has not looked since
    late = old.opened()
    assert answers(late.refresh()) == folded(old.journal)
    late._write_index()
    late.close()
    again = old.opened()
    assert answers(again.refresh()) == folded(old.journal)
    again.close()


def test_what_is_open_across_the_limit_stays_whole(old: Old) -> None:
    old.clock.us = OLD_US
    run = old.ledger.append([e.RunBegan("long")], "")[0].id
    early = old.act("h", 1, run)
    old.clock.us = NOW_US
    late = old.act("h", 2, run)
    old.compactor.carry_out(old.plan(), "ann")
    history = old.ledger.refresh()
    assert history.actions[early].changes and history.actions[late].changes
    assert history.actions["a2"].compacted_us
    assert [entry.action for entry in selection.of_run(history, run, 0).entries] == [early, late]


def test_a_plan_that_was_overtaken_does_not_hold(old: Old) -> None:
    plan = old.plan()
    old.act("g", 1)
    assert old.compactor.still_holds(plan)
    old.ledger.append([e.RollbackBegan(e.RollbackKind.UNDO, ("a2",))])
    assert not old.compactor.still_holds(plan)
    assert (2, 3) not in [(first, last) for first, last in old.plan().ranges if first <= 2 <= last]
    assert all(not first <= 2 <= last for first, last in old.plan().ranges)


def test_two_at_once_compact_once(old: Old) -> None:
    plan, other = old.plan(), old.opened()
    began = old.compactor.begin(plan, "ann")
    with pytest.raises(JournalMoved):
        raise_if_begun(old, plan)
    second = Compactor(other, lambda _: False)
    assert not second.still_holds(plan)
    assert second.finish() == plan.foreseen.records
    old.journal.compaction.carry_out(began)
    assert other.refresh().breaches == [] and other.refresh().compacting == 0
    assert second.plan(LIMIT_US, NOW_US) is None
    other.close()


def raise_if_begun(old: Old, plan: CompactionPlan) -> None:
    """What a process does that has looked before the other one began."""
    known = old.journal.compaction.began
    old.journal.compaction.began = lambda: known()[:-1]  # type: ignore[method-assign]
    try:
        old.clock.us += 1
        event = e.CompactionBegan(plan.through, plan.ranges[:1], plan.foreseen.digests, 5)
        old.journal.compaction.begin(event)
    finally:
        del old.journal.compaction.began


def test_a_wrong_clock_ends_what_is_old(tmp_path: Path) -> None:
    old = Old(tmp_path)
    ahead = old.act("g", 1)
    old.clock.us = OLD_US  # set back again: what follows looks old, and is not
    for n in range(60):
        old.act("h", n)
    plan = old.compactor.plan(LIMIT_US, NOW_US)
    assert plan is None or plan.through < int(ahead[1:])
    old.ledger.close()
    old.journal.close()


def test_what_a_webhook_has_not_received_stays_whole(old: Old) -> None:
    assert old.plan(most=60).through == 60
    assert old.compactor.plan(LIMIT_US, NOW_US, 0) is None


def test_little_is_not_worth_it(old: Old) -> None:
    old.compactor.carry_out(old.plan(), "ann")
    old.clock.us = OLD_US
    old.act("g", 1)
    old.clock.us = NOW_US
    assert old.compactor.plan(LIMIT_US, NOW_US) is None


def test_an_undo_of_what_was_compacted_is_refused_however_it_is_named(desk: Desk) -> None:
    checkpoint = desk.tb.save("before")
    with desk.tb.run("work", actor="ann") as run:
        with run.step("plan"):
            desk.human("plan", "by ann")
        desk.human("later", "by ann")
    compactor, now_us = Compactor(desk.tb.parts.ledger, lambda _: False), time.time_ns() // 1000 + 1
    plan = compactor.plan(now_us, now_us)
    assert plan is not None
    compactor.carry_out(plan, "me")
    desk.reopen()
    history = desk.tb.history
    whole = {id: not history.actions[id].compacted_us for id in history.runs[run.id].actions}
    assert sorted(whole.values()) == [False, True], "the last look at the folder stays, with what it found"
    undo = desk.tb.undo
    ways: tuple[Callable[[], object], ...] = (
        lambda: undo(run.id),
        lambda: undo(to=checkpoint),
        lambda: undo(agent="ann"),
    )
    for way in ways:
        with pytest.raises(ConflictError, match="removed from the history by gc"):
            way()
    assert desk.read("plan") == desk.read("later") == "by ann"
    # What is known in full is taken back.
    assert desk.tb.undo().verdict is Verdict.CLEAN
    assert desk.read("plan") == "by ann" and desk.read("later") is None
