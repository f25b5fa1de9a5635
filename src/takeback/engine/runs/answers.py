"""Answers of a model, kept so that a resumed thread gets the same answer, with the same ids of calls.

A model gives its calls other ids each time it is asked. So an id identifies a call after a crash only if the answer
that contains it is kept. An answer is an action without effect: it is found by what was asked, and how often.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.entities import RecordedRun
from takeback.engine.runs.actions import Action, Actions
from takeback.engine.runs.in_flight import uncancelled
from takeback.engine.runs.recorded_calls import is_gone
from takeback.engine.runs.values import Codec
from takeback.errors import ContentGone

NAME = "answer"


class KeptAnswer(msgspec.Struct):
    """The place of an answer in the record, and the answer if it is there."""

    key: str
    intent: str
    known: bool = False
    value: Any = None


class Answers(Actions):
    """A run that keeps the answers of models."""

    _codec: Codec

    def answer(self, asked: Any, make: Callable[[], Any]) -> Any:
        """Return the recorded answer to what is asked, or the one that `make` returns, which is recorded first.

        `asked` says what the model is asked: messages, tools, settings. Times, ids of runs and what was used up do
        not count. The answer is returned as it is read from the record, each time alike.
        """
        place = self._looked_up(asked)
        return self._read(place) if place.known else self._kept(place, make())

    async def aanswer(self, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """Do what `answer` does, with a coroutine function, and without blocking the event loop."""
        place = await uncancelled(lambda: self._looked_up(asked))
        if place.known:
            return self._read(place)
        made = await make()
        return await uncancelled(lambda: self._kept(place, made))

    def stream(self, asked: Any, make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """Yield the pieces of the recorded answer, or those of `make`, recorded as a whole after the last one.

        An answer that was not read to its end is not recorded.
        """
        place = self._looked_up(asked)
        if place.known:
            yield from self._read(place, pieces=True)
            return
        pieces = []
        for piece in make():
            pieces.append(self._plain(piece, "a piece of the answer"))
            yield self._codec.decode(pieces[-1])
        self._keep(place, pieces)

    async def astream(
        self, asked: Any, make: Callable[[], AsyncIterable[Any] | Awaitable[AsyncIterable[Any]]]
    ) -> AsyncIterator[Any]:
        """Do what `stream` does, with an async iterator, or a coroutine that returns one."""
        place = await uncancelled(lambda: self._looked_up(asked))
        if place.known:
            for piece in self._read(place, pieces=True):
                yield piece
            return
        made = make()
        pieces = []
        async for piece in made if isinstance(made, AsyncIterable) else await made:
            pieces.append(self._plain(piece, "a piece of the answer"))
            yield self._codec.decode(pieces[-1])
        await uncancelled(lambda: self._keep(place, pieces))

    def was_told(self, action: Action) -> bool:
        """Return whether a model knew how a call had ended when it asked for others: it answered in between."""
        recorder = self._recorder()
        history = recorder.history()
        known = history.actions[action.id]
        end = known.ended or known.seq
        has_called = False
        for id in reversed(recorder.run.actions):
            later = history.actions[id]
            if later.seq <= end:
                break
            if not later.is_tool or not later.as_tool.key or is_gone(history, later):
                continue
            if later.as_tool.tool != e.ANSWER:
                has_called = True
            elif has_called:
                return True
        return False

    async def awas_told(self, action: Action) -> bool:
        """Do what `was_told` does, without blocking the event loop."""
        return await uncancelled(lambda: self.was_told(action))

    @abstractmethod
    def _resumed(self, run: RecordedRun) -> list[e.Event]:
        """Return the events with which the run goes on."""

    def _looked_up(self, asked: Any) -> KeptAnswer:
        """Count what is asked, and look whether this occurrence was answered before."""
        meant = keys.asked(self._plain(asked, "what is asked"))
        # By its digest: a conversation is long, and would be written three times.
        intent = keys.intent_key(NAME, meant)
        place = KeptAnswer(self._unnamed(NAME, intent), intent)
        recorder = self._recorder()
        history = recorder.known()
        for id in reversed(history.calls_of(recorder.run.id, place.key)):
            if not is_gone(history, history.actions[id]):
                try:
                    place.value, place.known = recorder.calls.result(history.actions[id]), True
                except ContentGone:
                    pass  # pruned by the limits, or forgotten: the model is asked again
            break
        return place

    def _read(self, place: KeptAnswer, *, pieces: bool = False) -> Any:
        return (
            [self._codec.decode(piece) for piece in place.value]
            if pieces
            else self._codec.decode(place.value)
        )

    def _kept(self, place: KeptAnswer, made: Any) -> Any:
        place.value = self._plain(made, "the answer")
        self._keep(place, place.value)
        return self._read(place)

    def _keep(self, place: KeptAnswer, value: Any) -> None:
        recorder, scope = self._recorder(), self._place()
        # Only its size is in the journal: the text is content, which can be pruned and forgotten.
        seen = f"{len(msgspec.json.encode(value)):,} bytes"
        with recorder.calls.keeping(value, seen) as kept:
            noted = e.ActionNoted(
                NAME,
                e.Outcome.DONE,
                scope.step,
                scope.parent,
                place.key,
                None,
                kept.view,
                kept.full,
                tool=e.ANSWER,
                intent=place.intent,
            )
            run = recorder.run
            self._parts.tracker.ledger.append([*self._resumed(run), noted], run.id)
