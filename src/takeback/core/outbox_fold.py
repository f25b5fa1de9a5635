"""The intents of a workspace, as its journal tells of them."""

from __future__ import annotations

from takeback.core import ids
from takeback.core.intents import (
    AFTER,
    Decided,
    Intent,
    IntentDeferred,
    IntentDropped,
    IntentEvent,
    IntentRevived,
    IntentsReleased,
    IntentState,
)
from takeback.core.postings import Postings, Recalled, Topic, every, named, numbered
from takeback.core.record import Record

MANY = 100
AT_ONCE = 1000
"""So many records are read at a time."""


class Intents:
    """The intents of a workspace, folded from its journal."""

    def __init__(self, postings: Postings) -> None:
        self.every: Recalled[Intent] = Recalled(postings, ids.INTENT, Topic.INTENTS, self._recall)
        self._postings = postings
        self._decided: list[Decided] = []
        self._texts: dict[str, str] = {}
        """Texts that many intents have in common, each kept once."""

    def keep_nothing(self) -> None:
        """Keep nothing at hand: everything can be read again."""
        self.every.at_hand = {}
        self._texts = {}

    def apply(self, record: Record, event: IntentEvent) -> str:
        """Apply an event; return what is wrong with it, if anything is."""
        if isinstance(event, IntentDeferred):
            self._defer(record, event)
            return ""
        named = event.intents if isinstance(event, IntentsReleased) else (event.intent,)
        wrong = [id for id in named if not self._move(record, id, event)]
        if not wrong and isinstance(event, IntentRevived | IntentDropped):
            self._decided.append(Decided(record.seq, record.at_us, event))
            self._postings.post(every(Topic.DECISIONS), record.seq)
        return f"there is no intent {wrong[0]} that {type(event).__name__} could follow" if wrong else ""

    @property
    def decided(self) -> list[Decided]:
        """What humans decided about dead letters, in order."""
        if not self._postings.position:
            return self._decided
        records = self._postings.records(every(Topic.DECISIONS))
        return [Decided(record.seq, record.at_us, record.event) for record in records]  # type: ignore[arg-type]

    def of_key(self, run: str, key: str) -> list[Intent]:
        """Return the intents of a run with this key, in order: more than one where one was cancelled."""
        seqs = self._postings.seqs(named(Topic.INTENT_KEY, run, key), run)
        found = (self.every[ids.make(ids.INTENT, seq)] for seq in seqs)
        return [intent for intent in found if (intent.run, intent.key) == (run, key)]

    def held(self, run: str, step: str | None = None) -> list[Intent]:
        """Return what a run still holds; or what is released with one of its steps, by the step's name."""
        seqs = self._postings.seqs(numbered(Topic.HELD, run), run)
        left = set(self._postings.seqs(numbered(Topic.LEFT, run), run)) if seqs else set()
        seqs = [seq for seq in seqs if seq not in left]
        here = {seq: found for seq in seqs if (found := self.every.at_hand.get(ids.make(ids.INTENT, seq)))}
        gone = [seq for seq in seqs if seq not in here]
        for at in range(0, len(gone), AT_ONCE):
            here |= {
                record.seq: self._made(record) for record in self._postings.read(gone[at : at + AT_ONCE])
            }
        return [here[seq] for seq in seqs if step is None or here[seq].step == step]

    def _defer(self, record: Record, event: IntentDeferred) -> None:
        self.every.put(record, record.id, self._made(record))
        self._postings.post(numbered(Topic.INTENT, record.id), record.seq)
        self._postings.post(named(Topic.INTENT_KEY, record.stream, event.key), record.seq)
        self._postings.post(numbered(Topic.HELD, record.stream), record.seq)

    def _made(self, record: Record) -> Intent:
        event = record.event
        assert isinstance(event, IntentDeferred)
        texts = (record.stream, event.about, event.step)
        run, about, step = (self._texts.setdefault(text, text) for text in texts)
        return Intent(record.id, run, about, step, event.key, event.intent, event.full)

    def _recall(self, id: str) -> Intent | None:
        first, *more = self._postings.records(numbered(Topic.INTENT, id)) or (None,)
        if first is None or not isinstance(first.event, IntentDeferred):
            return None
        intent = self._made(first)
        for record in more:
            _moved(intent, record.event)  # type: ignore[arg-type]
        return intent

    def _move(self, record: Record, id: str, event: IntentEvent) -> bool:
        # What a run releases at once may be very much, and is its own: then nothing of it is read again.
        is_far = isinstance(event, IntentsReleased) and len(event.intents) > MANY and self._postings.position
        intent = self.every.at_hand.get(id) if is_far else self.every.get(id)
        if intent is None and not is_far:
            return False
        if intent is not None and not _moved(intent, event):
            return False
        run = record.stream if intent is None else intent.run
        self._postings.post(numbered(Topic.INTENT, id), record.seq)
        self._postings.post(numbered(Topic.LEFT, run), ids.seq_of(id))
        return True


def _moved(intent: Intent, event: IntentEvent) -> bool:
    """Apply an event to an intent; False if the event may not come now."""
    if intent.state in (IntentState.DELIVERED, IntentState.CANCELLED, IntentState.DROPPED):
        return False
    intent.state = IntentState.DUE if isinstance(event, IntentsReleased) else AFTER[type(event)]
    return True
