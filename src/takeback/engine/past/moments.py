"""Finding moments in the journal, and what was seen then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import lru_cache

from takeback.core import ids, moments
from takeback.core.events import Mark
from takeback.core.moments import AtId, AtTime, Moment
from takeback.core.selection import why_compacted
from takeback.engine.ledger import Ledger
from takeback.errors import ConflictError, CorruptionError, UsageError
from takeback.ports.clock import Clock

WHENS_KEPT = 256


class Moments:
    """The moments of one workspace. Only the records around a moment are read."""

    def __init__(self, ledger: Ledger, clock: Clock, zone: Callable[[], tzinfo]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._zone = zone
        self._when = lru_cache(WHENS_KEPT)(self._read_when)

    def is_spoken(self, text: str) -> bool:
        """Return whether this has the form of a moment."""
        return moments.is_spoken(text, self._clock.now_us(), self._zone())

    def split(self, text: str) -> tuple[str, str]:
        """Split `MOMENT:FILE`. Without a file, the whole is a moment or an id; a time may have colons of its own."""
        has_end = text.partition(" ")[0] in (moments.BEFORE, moments.AFTER) and ":" in text
        if ids.is_id(text) or (self.is_spoken(text) and not has_end):
            return text, ""
        at = len(text)
        while (at := text.rfind(":", 0, at)) > 0:
            if self.is_spoken(text[:at]):
                return text[:at], text[at + 1 :]
        return text, ""

    def find_after(self, text: str) -> Moment:
        """Return the moment that a person names, where a bare id stands for the moment after it."""
        is_bare = ids.is_id(text) and text[0] in (ids.ACTION, ids.STEP, ids.RUN)
        return self.find(f"{moments.AFTER} {text}" if is_bare else text)

    def find(self, text: str) -> Moment:
        """Return the moment that a person names. Raise UsageError if there is none, or more than one."""
        spoken = moments.parse(text, self._clock.now_us(), self._zone())
        history = self._ledger.refresh()
        if isinstance(spoken, AtId):
            return moments.moment_of(history, spoken)
        if isinstance(spoken, AtTime):
            at = moments.position_at(history, spoken, self._when)
            return Moment(spoken.text, at, at, moments.said(spoken.at_us, self._zone()))
        return moments.last_clean(history)

    def marks(self, moment: Moment) -> tuple[Mark, ...]:
        """Return what was seen at a moment. Raise ConflictError if the history no longer says so."""
        return self.look(moment)[0]

    def look(self, moment: Moment) -> tuple[tuple[Mark, ...], int]:
        """Return what was seen at a moment, and when."""
        seq = moments.look_before(self._ledger.refresh(), moment.look + 1)
        if not seq:
            raise UsageError(
                f"nobody had looked at the files yet at the moment {moment.name}",
                hint="the first checkpoint is the first such moment; `takeback log` lists what there is",
            )
        record = self._ledger.journal.get(seq)
        if record is None:
            raise CorruptionError(f"event {seq} is missing from the journal")
        if record.compacted_us:
            raise ConflictError(
                f"{moment.name} was compacted: {why_compacted(record.compacted_us)}, so nothing was changed",
                hint="keep-journal and keep-days in takeback.toml say how long details are kept",
            )
        return record.event.marks, record.at_us  # type: ignore[union-attr]

    def _read_when(self, seq: int) -> int:
        record = self._ledger.journal.get(seq)
        if record is None:
            raise CorruptionError(f"event {seq} is missing from the journal")
        return record.at_us
