"""The journal and what it says, kept together."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from takeback.core import ids
from takeback.core.codec import written
from takeback.core.events import ActionBegan, Event, Outcome, RunEnded, StepBegan
from takeback.core.history import History
from takeback.core.intents import IntentDeferred, IntentsReleased
from takeback.core.record import Record
from takeback.core.redact import redact
from takeback.core.seats import Seat
from takeback.engine.locks.keeper import LeaseKeeper
from takeback.engine.locks.leases import why_lost
from takeback.errors import BackendError, LeaseLost
from takeback.ports.journal import Journal

WORDS = ("why", "note", "message")
"""What people and errors say, in any event that has it."""

GOING_ON = (ActionBegan, StepBegan, IntentDeferred, IntentsReleased)
"""What a run may not do that has lost a lock. What it did before is recorded in any case."""

NAMING = ("marks", "changes", "swaps", "full")
"""What names content, in any event that has it."""

SHARES_MAX = 5


class Ledger:
    """Appends events and keeps the fold of all of them at hand."""

    def __init__(self, journal: Journal, share: Callable[[bool], Collection[int]] = lambda _: ()) -> None:
        """`share` brings all content to where others find it, and gives the leases under which it may be named.

        It is told whether one that it gave is lost.
        """
        self.journal = journal
        self._share = share
        self.history = History()
        self._fences: dict[str, dict[int, str]] = {}
        self._lock = threading.RLock()  # the steps of a run may be in several threads
        self._seats = journal.seats
        self._keeper = LeaseKeeper(self._seats) if self._seats else None
        self._kept: Seat | None = None
        self._is_here = self._seats is None

    def refresh(self) -> History:
        """Take in what others appended."""
        with self._lock:
            for record in self.journal.read(after=self.history.seq):
                self.history.apply(record)
            return self.history

    def append(
        self, events: Sequence[Event], stream: str = ids.WORKSPACE, *, durable: bool = True
    ) -> tuple[Record, ...]:
        """Write events; from here they have happened."""
        events = [_without_secrets(event) for event in events]
        # Without the lock: appends of several threads share a commit.
        records = self._append(events, stream, durable=durable)
        with self._lock:
            if records[0].seq == self.history.seq + 1:
                for record in records:
                    self.history.apply(record)
            elif records[-1].seq > self.history.seq:
                self.refresh()  # in order: others wrote before these, here or elsewhere
            self._keep_seat()
        return records

    def _append(self, events: Sequence[Event], stream: str, *, durable: bool) -> tuple[Record, ...]:
        """The rule of a shared journal is kept here: it never names content that only one machine has."""
        fences, naming = self._fences_for(stream, events), any(map(_names_content, events))
        for turn in range(SHARES_MAX if naming else 1):
            shared = self._share(turn > 0) if naming else ()
            try:
                return self.journal.append(events, stream=stream, durable=durable, fences=[*fences, *shared])
            except LeaseLost:
                self.refuse_lost(fences)
                if not shared:
                    raise
        raise BackendError(
            "another machine cleans up again and again, so content could not be named; nothing was recorded",
            hint="try again; all content is safe on this machine",
            retryable=True,
        )

    # The seat, where the journal is shared

    def refuse_elsewhere(self) -> None:
        """Raise SeatLost where the workspace sits in another folder, before anything here is looked at for it.

        Asked once; later the next append tells.
        """
        if not self._is_here:
            self.refuse_moved()
            self._is_here = True

    def refuse_moved(self) -> None:
        """Raise SeatLost where the workspace has been moved: for what is done before it is recorded."""
        if self._seats:
            self._seats.refuse_moved()

    def _keep_seat(self) -> None:
        """Show from now on that somebody works here, also while nothing is appended."""
        if self._seats and self._keeper and self._kept is None and (mine := self._seats.mine):
            self._keeper.keep(mine)
            self._kept = mine

    def rest(self) -> None:
        """Nothing more is done here by this process."""
        if self._keeper and self._kept:
            self._keeper.leave(self._kept)
            self._kept = None

    # Leases

    def fenced(self, run: str) -> dict[int, str]:
        """The leases that a run holds in this process, by their fences: it goes on only while it has them."""
        return self._fences.setdefault(run, {})

    def refuse_lost(self, fences: Mapping[int, str]) -> None:
        """Raise LeaseLost if one of these, fences and names, is not held any more."""
        leases = self.journal.leases.all() if fences else ()
        held = {lease.fence for lease in leases}
        if gone := [name for fence, name in fences.items() if fence not in held]:
            raise LeaseLost(
                f"{why_lost(gone[0], leases)}. Nothing more was done",
                hint="what was done before stays; `takeback locks list` shows who has the lock now",
            )

    def _fences_for(self, run: str, events: Sequence[Event]) -> dict[int, str]:
        if not (fences := self._fences.get(run)):
            return {}
        goes_on = any(isinstance(event, GOING_ON) or _is_commit(event) for event in events)
        return dict(fences) if goes_on else {}


def _names_content(event: Event) -> bool:
    return any(getattr(event, word, None) for word in NAMING)


def _is_commit(event: Event) -> bool:
    return isinstance(event, RunEnded) and event.outcome is Outcome.DONE


def _as_text(words: str) -> str:
    """Words of a command line may be bytes that are not UTF-8; what is not even that, the journal refuses."""
    with suppress(UnicodeEncodeError):
        return written(words)
    return words


def _without_secrets(event: Event) -> Event:
    """An exception may have the password of a database in it, and so may what somebody was told about it."""
    said = {word: text for word in _words_of(type(event)) if (text := getattr(event, word))}
    if not said:
        return event
    shown = {word: redact(_as_text(text)) for word, text in said.items()}
    return event if shown == said else msgspec.structs.replace(event, **shown)


@functools.cache
def _words_of(kind: type) -> tuple[str, ...]:
    return tuple(word for word in WORDS if word in kind.__struct_fields__)  # type: ignore[attr-defined]
