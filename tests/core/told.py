"""A story, and an index over its records: for tests of what a history reads again."""

from __future__ import annotations

from collections.abc import Iterator

from takeback.core import events as e
from takeback.core.change import Change, Target
from takeback.core.history import History
from takeback.core.record import Record
from tests.core.list_index import ListIndex
from tests.core.story import Story, version


class Told:
    """A story with its records, and an index of what was told so far."""

    def __init__(self) -> None:
        self.story = Story()
        self.records: list[Record] = []
        self.index = ListIndex(self.records)

    def tell(self, event: e.Event, stream: str = "w") -> Record:
        self.records.append(self.story.tell(event, stream))
        return self.records[-1]

    def tell_at(self, at_us: int, event: e.Event) -> Record:
        """Tell of something at a time, which need not come after the one before."""
        self.story.at_us = at_us
        return self.tell(event)

    def act(self, *changes: Change, stream: str = "w") -> Record:
        """Tell of an action that made these changes; return its end."""
        began = self.tell(e.ActionBegan("tool", e.Effect.RESTORABLE), stream)
        return self.tell(e.ActionEnded(began.id, e.Outcome.DONE, changes), stream)

    def every_way(self) -> Iterator[History]:
        """Histories of all this: with everything at hand, with what was told since the last time, with nothing."""
        yield History.of(self.records)
        yield self.index.opened()
        yield self.indexed()

    def indexed(self) -> History:
        """A history of which everything is in the index, and nothing but what is open is at hand."""
        history = self.index.opened()
        self.index.take_in(history)
        return history

    def taken(self) -> list[int]:
        """Return what was read again since this was asked last."""
        read = list(self.index.read)
        self.index.read.clear()
        return read


def change(target: Target, before: str, after: str) -> Change:
    return Change(target, version(before), version(after))
