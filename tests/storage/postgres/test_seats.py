"""A workspace sits in one folder at a time: who may append, who may move it, and who is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from takeback.core import events as e
from takeback.core.ids import WORKSPACE
from takeback.core.intents import IntentDeferred
from takeback.core.seats import Place, WorkspaceSeated
from takeback.errors import JournalMoved, SeatHeld, SeatLost
from takeback.storage.journal.anchor import Anchor
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.testing import crash
from takeback.testing.clock import ManualClock
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import CLIENT, SERVER, Proxy
from tests.storage.postgres.world import STORE

Open = Callable[..., PostgresJournal]
TREE = e.Mark("files", "b3:00")


@pytest.fixture
def at(server: Server, tmp_path: Path) -> Iterator[Open]:
    """The journal of one workspace, as this place has it."""
    made: list[PostgresJournal] = []

    def open_at(name: str, **more: Any) -> PostgresJournal:
        home = tmp_path / f"{name}-{len(made)}"
        home.mkdir()
        Anchor(home / "journal.anchor").start(lost=0)
        place = Place(name, f"host-{name}", f"/srv/{name}")
        journal = PostgresJournal(
            os.environ[STORE], str(tmp_path), home / "journal.anchor", place=place, **more
        )
        made.append(journal)
        return journal

    yield open_at
    for journal in made:
        journal.close()


def say(journal: PostgresJournal, message: str, *, durable: bool = True) -> None:
    journal.append([e.CheckpointTaken(message)], stream=WORKSPACE, durable=durable)


def said(journal: PostgresJournal) -> list[str]:
    return [r.event.message for r in journal.read() if isinstance(r.event, e.CheckpointTaken)]


def silence(tmp_path: Path) -> None:
    """Let the time of whoever sits there be over."""
    with psycopg.connect(os.environ[STORE], autocommit=True) as db:
        db.execute(
            "UPDATE takeback_store.workspaces SET seat_until = '-infinity' WHERE name = %s", (str(tmp_path),)
        )


def move(journal: PostgresJournal) -> None:
    assert journal.seats
    journal.seats.take([TREE], after=journal.head().count)


def test_the_first_who_appends_sits_down_once(at: Open) -> None:
    one = at("one")
    assert one.seats and one.seats.now() is None
    say(one, "a")
    say(one, "b")
    seat = one.seats.now()
    assert seat and seat.place == one.seats.place and seat.is_live and one.seats.mine
    assert seat.fence == one.seats.mine.fence
    events = [record.event for record in one.read()]
    assert [type(event) for event in events] == [e.CheckpointTaken, WorkspaceSeated, e.CheckpointTaken]
    # Another process of the same folder has the same seat.
    say(at("one"), "c")
    assert said(one) == ["a", "b", "c"]


def test_another_folder_reads_and_does_not_write(at: Open, tmp_path: Path) -> None:
    one, two = at("one"), at("two")
    say(one, "a")
    for _ in range(2):  # however long the first has been silent
        with pytest.raises(
            SeatLost, match=r"has been in host-one:/srv/one since .* not here; nothing was recorded"
        ):
            say(two, "b")
        silence(tmp_path)
    with pytest.raises(SeatLost):
        say(two, "b", durable=False)
    assert two.seats
    with pytest.raises(SeatLost):
        two.seats.refuse_moved()
    assert said(two) == ["a"] and list(two.check()) == []
    # Its own folder goes on without a word.
    say(one, "c")
    assert said(two) == ["a", "c"]


def test_who_may_deliver_from_anywhere_still_may_not_append(at: Open) -> None:
    """A worker knows the end of the journal from what it wrote itself. That is no seat."""
    one, two = at("one"), at("two")
    say(one, "a")
    two.decide(lambda _: [e.CheckpointTaken("delivered")])
    with pytest.raises(SeatLost):
        say(two, "b")
    assert said(one) == ["a", "delivered"]


def test_a_live_place_is_not_moved(at: Open, tmp_path: Path) -> None:
    one, two = at("one"), at("two")
    say(one, "a")
    with pytest.raises(
        SeatHeld,
        match=r"in use in host-one:/srv/one \(last sign of life less than \d+ s ago\); nothing was moved",
    ) as held:
        move(two)
    assert 0 < held.value.left_s <= 60
    silence(tmp_path)
    say(one, "b")  # an append is a sign of life
    with pytest.raises(SeatHeld):
        move(two)
    silence(tmp_path)
    assert one.seats and one.seats.mine
    assert one.seats.renew([one.seats.mine.fence]) == {one.seats.mine.fence}
    with pytest.raises(SeatHeld):
        move(two)
    assert said(two) == ["a", "b"]


def test_whoever_comes_back_with_an_old_fence_is_refused(at: Open, tmp_path: Path) -> None:
    one, two = at("one"), at("two")
    say(one, "a")
    silence(tmp_path)
    move(two)
    assert one.seats and one.seats.mine and two.seats and two.seats.mine
    assert two.seats.mine.fence > one.seats.mine.fence
    for durable in (True, False):
        with pytest.raises(SeatLost, match=r"moved to host-two:/srv/two at .*; nothing was recorded"):
            say(one, "late", durable=durable)
    assert one.seats.renew([one.seats.mine.fence]) == frozenset()
    say(two, "b")
    with pytest.raises(SeatLost):
        say(at("one"), "a new process of the old folder")
    assert said(one) == ["a", "b"]
    # Away and back: what worked there before has an old fence all the same.
    again = at("one")
    silence(tmp_path)
    move(again)
    say(again, "c")
    with pytest.raises(SeatLost, match="moved away and back"):
        say(one, "older still")
    assert said(two) == ["a", "b", "c"] and list(two.check()) == []


def test_the_fence_goes_with_the_append(at: Open, tmp_path: Path) -> None:
    """Also where nothing was appended since: the statement that writes looks at the seat itself."""
    one = at("one")
    say(one, "a")
    with psycopg.connect(os.environ[STORE], autocommit=True) as db:
        db.execute("UPDATE takeback_store.workspaces SET seat = seat + 1 WHERE name = %s", (str(tmp_path),))
    with pytest.raises(SeatLost):
        say(one, "b")
    assert said(one) == ["a"]


def test_who_waits_in_line_with_others_is_refused_with_them(at: Open, tmp_path: Path) -> None:
    one, two = at("one"), at("two")
    say(one, "a")
    silence(tmp_path)
    move(two)
    errors: list[BaseException] = []

    def late() -> None:
        try:
            say(one, "late")
        except SeatLost as error:
            errors.append(error)

    threads = [threading.Thread(target=late) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 8 and said(two) == ["a"]


def test_the_journal_must_not_have_moved(at: Open, tmp_path: Path) -> None:
    one, two = at("one"), at("two")
    say(one, "a")
    seen = one.head().count
    say(one, "b")
    silence(tmp_path)
    assert two.seats
    with pytest.raises(JournalMoved, match="nothing was moved"):
        two.seats.take([TREE], after=seen)
    assert two.seats.mine is None
    say(one, "c")


def test_a_place_that_is_not_whole_does_not_sit_down(at: Open) -> None:
    one = at("one", may_sit=False)
    with pytest.raises(SeatLost, match="not complete yet") as refused:
        say(one, "a")
    assert "takeback resume --into /srv/one" in refused.value.hint
    assert one.head().count == 0
    move(one)
    say(one, "a")
    assert said(one) == ["a"]


def test_a_clock_that_jumps_frees_no_live_seat(at: Open) -> None:
    clock = ManualClock()
    one, two = at("one"), at("two", clock=clock)
    say(one, "a")
    for jump_s in (3600, -7200):
        clock.advance(jump_s)
        with pytest.raises(SeatHeld):
            move(two)


def test_what_was_deferred_is_cancelled_only_where_the_workspace_sits(at: Open, tmp_path: Path) -> None:
    one, two = at("one"), at("two")
    (run,) = one.append([e.RunBegan("agent")], stream="")
    (began,) = one.append([e.ActionBegan("tool", e.Effect.RESTORABLE)], stream=run.id)
    deferred = IntentDeferred("command", "command", "k", began.id, "d")
    (intent,) = one.append([deferred], stream=run.id)
    silence(tmp_path)
    move(two)
    with pytest.raises(SeatLost):
        one.outbox.cancel(intent.id)
    found = one.outbox.get(intent.id)
    assert found and found.state.value == "held"
    assert two.outbox.cancel(intent.id).state.value == "cancelled"


def test_a_role_that_only_reads_learns_where_it_sits(at: Open) -> None:
    one = at("one")
    say(one, "a")
    reader = at("two")
    assert reader.seats
    seat = reader.seats.now()
    assert seat and seat.place.said == "host-one:/srv/one"


def test_who_sat_down_in_vain_does_not_sit(at: Open) -> None:
    """The number that it had for a moment is the one of whoever really sat down."""
    one, two = at("one"), at("two")

    def fail() -> None:
        raise OSError("cut")

    with crash.at("journal-inside", fail), pytest.raises(OSError, match="cut"):
        say(one, "in vain")
    say(two, "first")
    with pytest.raises(SeatLost, match="has been in host-two"):
        say(one, "after it")
    assert said(two) == ["first"]


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_move_whose_connection_is_cut_happens_once(side: str, at: Open, tmp_path: Path) -> None:
    proxy = Proxy(os.environ[STORE])
    places = [Place(name, f"host-{name}", f"/srv/{name}") for name in ("one", "two")]
    journals = []
    for place in places:
        anchor = tmp_path / f"{place.id}.anchor"
        Anchor(anchor).start(lost=0)
        journals.append(PostgresJournal(proxy.dsn, str(tmp_path), anchor, place=place))
    say(journals[0], "first")
    for turn, cut in enumerate(range(0, 1600, 80), 1):
        journal = journals[turn % 2]
        silence(tmp_path)
        after = journal.head().count
        proxy.cut_after(side, cut)
        assert journal.seats
        seat = journal.seats.take([TREE], after=after)
        proxy.disarm()
        now = journal.seats.now()
        assert now and now.fence == seat.fence and now.place == places[turn % 2]
        assert journal.head().count == after + 1
        say(journal, f"{turn}")
        with pytest.raises(SeatLost):
            say(journals[(turn + 1) % 2], "late")
    moves = [r.event.fence for r in journals[0].read() if isinstance(r.event, WorkspaceSeated)]
    assert moves == sorted(set(moves)) and len(moves) == 21
    assert proxy.cuts >= 10
    for journal in journals:
        assert list(journal.check()) == []
        journal.close()
    proxy.close()
