"""What is so at one position of the journal, and what records after an index add to it."""

from __future__ import annotations

import msgspec

from takeback.core import events as e
from takeback.core.change import Target
from takeback.core.entities import Breach
from takeback.core.lifecycle import Life
from takeback.core.seats import Moves

WAITING = (Life.INTERRUPTED, Life.HANDED_OVER)
"""What a run can be that is neither at work nor over."""


SETBACK_US = 1_000_000
"""Processes that write at the same time may be apart by less than this."""
SETBACKS_MAX = 64


class CurrentState(msgspec.Struct):
    """What is so at one position of the journal: all that is open, and what was recorded last. It stays small."""

    seq: int = 0
    began: e.WorkspaceBegan | None = None
    marks: dict[str, e.Mark] = {}
    accepted: dict[str, str] = {}
    accepted_at: dict[str, int] = {}
    moves: Moves = msgspec.field(default_factory=Moves)
    actions: dict[str, None] = {}
    """Actions without a recorded end, also those in the background."""
    runs: dict[str, None] = {}
    """Runs that are at work."""
    waiting: dict[str, None] = {}
    """Runs that were interrupted or handed over."""
    approvals: dict[str, None] = {}
    """Requests without an answer, and answers that were not used."""
    breaches: list[Breach] = []
    counts: dict[int, int] = {}
    """How many there are of each kind, by topics."""
    tools: int = 0
    """How many tool calls were recorded."""
    actors: dict[str, None] = {}
    forgets: list[int] = []
    """The records that say which content was forgotten."""
    compactions: list[int] = []
    """The records with which compactions began."""
    compacting: int = 0
    """The one that has not ended, or 0."""
    resources: dict[str, None] = {}
    """Those whose targets were changed."""
    latest_us: int = 0
    """The latest time of a record since the clock was last set back."""
    setbacks: list[int] = []
    """The records before which the clock was set back, the last of them."""

    def told_at(self, seq: int, at_us: int) -> None:
        """Take in when a record was written."""
        if at_us + SETBACK_US < self.latest_us:
            self.setbacks = [*self.setbacks[1 - SETBACKS_MAX :], seq]
            self.latest_us = at_us
        else:
            self.latest_us = max(self.latest_us, at_us)


class Unindexed(msgspec.Struct, frozen=True):
    """What records add to an index that ends at `position`."""

    position: int
    standing: CurrentState
    postings: dict[int, list[int]]
    flags: dict[int, int]
    targets: dict[Target, None]


class WhatStands:
    """What a history says of its present without reading anything."""

    _standing: CurrentState

    @property
    def seq(self) -> int:
        """The number of the last record that was applied."""
        return self._standing.seq

    @property
    def began(self) -> e.WorkspaceBegan | None:
        return self._standing.began

    @property
    def marks(self) -> dict[str, e.Mark]:
        """The last mark of each resource."""
        return self._standing.marks

    @property
    def accepted(self) -> dict[str, str]:
        """Settings files, each with the version that a human accepted last."""
        return self._standing.accepted

    def is_accepted(self, name: str, version: str, written: int) -> bool:
        """Return whether a human accepted a settings file in this version after the record that wrote it."""
        return version == self.accepted.get(name) and written < self._standing.accepted_at[name]

    @property
    def moves(self) -> Moves:
        return self._standing.moves

    @property
    def breaches(self) -> list[Breach]:
        return self._standing.breaches

    @property
    def tools(self) -> int:
        """How many tool calls were recorded."""
        return self._standing.tools

    @property
    def actors(self) -> list[str]:
        """Everybody who made a tool call."""
        return list(self._standing.actors)

    @property
    def resources(self) -> list[str]:
        """The resources whose targets were ever changed."""
        return list(self._standing.resources)

    @property
    def setbacks(self) -> list[int]:
        """The numbers of the records before which the clock was set back; of very many, the last ones."""
        return self._standing.setbacks

    @property
    def forgets(self) -> list[int]:
        """The numbers of the records that say which content a human had removed."""
        return self._standing.forgets

    @property
    def compactions(self) -> list[int]:
        """The numbers of the records with which compactions began."""
        return self._standing.compactions

    @property
    def compacting(self) -> int:
        """The number of the record with which an unfinished compaction began; 0 if there is none."""
        return self._standing.compacting
