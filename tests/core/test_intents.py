"""What became of an intent, folded from what the journal says of it."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from takeback.core import events as e
from takeback.core.change import ABSENT, Target
from takeback.core.intents import (
    Decided,
    IntentAttempted,
    IntentCancelled,
    IntentDeferred,
    IntentDelivered,
    IntentDied,
    IntentDropped,
    IntentEvent,
    IntentRevived,
    IntentsReleased,
    IntentState,
    Queued,
    change_of,
)
from takeback.core.outbox_fold import Intents
from takeback.core.postings import Postings
from takeback.core.record import Envelope, Record
from tests.core.story import Story

RELEASED = IntentsReleased(("i1",))
FAILED = IntentAttempted("i1", 1, "no answer", again_us=9, unsure=True)
DELIVERED = IntentDelivered("i1", 2)
DIED = IntentDied("i1", 2, "refused")
CANCELLED = IntentCancelled("i1")
REVIVED = IntentRevived("i1", "ann")
DROPPED = IntentDropped("i1", "ann")


def deferred(key: str = "k", *, step: str = "", action: str = "a1") -> IntentDeferred:
    return IntentDeferred("email", "email", key, action, delivery_key=f"d-{key}", step=step)


def take(intents: Intents, seq: int, run: str, event: IntentEvent, at_us: int = 0) -> str:
    record = Record(Envelope(v=1, seq=seq, stream=run, n=1, prev="", at_us=at_us, event=event), "")
    return intents.apply(record, event)


def folded(*events: IntentEvent) -> Intents:
    intents = Intents(Postings(None))
    for seq, event in enumerate((deferred(), *events), 1):
        assert take(intents, seq, "r1", event) == ""
    return intents


@pytest.mark.parametrize(
    "events, state",
    [
        ([], IntentState.HELD),
        ([RELEASED], IntentState.DUE),
        ([RELEASED, FAILED], IntentState.DUE),
        ([RELEASED, FAILED, DELIVERED], IntentState.DELIVERED),
        ([RELEASED, FAILED, DIED], IntentState.DEAD),
        ([RELEASED, DIED, REVIVED], IntentState.DUE),
        ([RELEASED, DIED, DROPPED], IntentState.DROPPED),
        ([RELEASED, DIED, CANCELLED], IntentState.CANCELLED),
        ([CANCELLED], IntentState.CANCELLED),
    ],
)
def test_where_an_intent_stands(events: list[IntentEvent], state: IntentState) -> None:
    intents = folded(*events)
    assert intents.every["i1"].state is state
    assert [one.id for one in intents.held("r1")] == (["i1"] if state is IntentState.HELD else [])


@pytest.mark.parametrize("last", [DELIVERED, CANCELLED, DROPPED])
@pytest.mark.parametrize("event", [RELEASED, FAILED, DELIVERED, DIED, CANCELLED, REVIVED, DROPPED])
def test_nothing_follows_an_end(last: IntentEvent, event: IntentEvent) -> None:
    intents = folded(RELEASED, last)
    state = intents.every["i1"].state
    wrong = take(intents, 9, "r1", event)
    assert "i1" in wrong and type(event).__name__ in wrong
    assert intents.every["i1"].state is state


def test_an_unknown_intent_is_named() -> None:
    intents = folded()
    assert "i7" in take(intents, 9, "r1", IntentsReleased(("i1", "i7")))
    assert "i7" in take(intents, 9, "w", IntentRevived("i7"))


def test_a_key_is_of_one_run_and_free_again_after_a_cancel() -> None:
    intents = folded(CANCELLED)
    assert take(intents, 8, "r1", deferred()) == ""
    assert [one.id for one in intents.of_key("r1", "k")] == ["i1", "i8"]
    assert intents.of_key("r2", "k") == intents.of_key("r1", "other") == []


def test_what_is_held_by_a_run_and_by_its_steps() -> None:
    intents = folded()
    take(intents, 2, "r1", deferred("in step", step="s3"))
    take(intents, 3, "r2", deferred())
    assert [one.id for one in intents.held("r1")] == ["i1", "i2"]
    assert [one.id for one in intents.held("r1", "s3")] == ["i2"]
    assert [one.id for one in intents.held("r1", "")] == ["i1"]
    assert intents.held("r9") == []


def test_of_very_many_little_is_kept_at_hand() -> None:
    """What they are to send, which may be large, is with the outbox."""
    count, encode, decode = 500, msgspec.json.encode, msgspec.json.Decoder(IntentDeferred).decode
    intents = Intents(Postings(None))
    tracemalloc.start()
    try:
        for n in range(count):
            large = IntentDeferred(
                "email", "email", f"k{n}", "a1", f"d{n}", "email to ann", arguments=["x" * 2000]
            )
            take(intents, n + 1, "r1", decode(encode(large)))
        each = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert each < 1500  # until an index has taken them in
    one, *others = intents.every.values()
    assert all(other.about is one.about for other in others)


def test_it_is_being_delivered_only_while_its_worker_lives() -> None:
    def queued(state: IntentState, *, begun: bool = True, live: bool = True) -> Queued:
        return Queued("i1", "r1", deferred(), 5, state, begun=begun, live=live)

    assert queued(IntentState.CLAIMED).busy
    assert not queued(IntentState.CLAIMED, begun=False).busy
    assert not queued(IntentState.CLAIMED, live=False).busy
    assert not queued(IntentState.DUE).busy


def test_an_intent_is_a_change_from_nothing() -> None:
    change = change_of("i1", deferred())
    assert change.target == Target("outbox", "i1")
    assert change.before == ABSENT and change.after
    assert change.after == change_of("i2", deferred()).after
    assert change.after != change_of("i1", deferred("other")).after


def test_history_counts_it_among_the_changes_of_its_action() -> None:
    story = Story()
    run = story.run()
    began = story.tell(e.ActionBegan("mail", e.Effect.DEFERRED), run)
    intent = story.tell(deferred(action=began.id), run).id
    story.tell(IntentsReleased((intent,)), run)
    assert story.history.breaches == []
    (entry,) = story.history.timeline(Target("outbox", intent))
    assert (entry.action, entry.change.before) == (began.id, ABSENT)
    assert story.history.intents.decided == []
    dropped = story.tell(IntentDropped(intent, "ann"))
    (decided,) = story.history.intents.decided
    assert (decided.seq, decided.at_us, decided.event) == (dropped.seq, dropped.at_us, dropped.event)
    story.tell(IntentDropped("i99"))
    assert len(story.history.intents.decided) == 1
    (breach,) = story.history.breaches
    assert "i99" in str(breach)


def test_what_an_outbox_says_nothing_about_has_not_happened() -> None:
    found = Queued("i1", "r1", deferred(), 5, IntentState.HELD)
    assert (found.changed_us, found.due_us, found.attempts, found.fence, found.owner) == (0, 0, 0, 0, "")
    assert (found.unsure, found.begun, found.live, found.result) == (False, False, False, None)


def test_a_decision_keeps_its_place_in_the_journal() -> None:
    intents = folded(RELEASED, DIED, REVIVED, DIED)
    assert take(intents, 7, "r1", DROPPED, at_us=9) == ""
    assert intents.decided == [Decided(4, 0, REVIVED), Decided(7, 9, DROPPED)]
