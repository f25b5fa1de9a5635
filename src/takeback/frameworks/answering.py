"""Answers of a model that contain calls, for frameworks that do not store an answer before its tools run.

A call id identifies a call after a crash only if the answer that contains it is kept. An answer is recorded just
before the first of its calls is begun. An answer whose calls were never begun, or that has none, is not recorded:
asking the model for it again changes nothing in the world, and a bad answer must not come again for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import takeback


class MadeAnswer(NamedTuple):
    """An answer that a model gave in this process, and where it belongs in the record."""

    position: str
    asked: Any
    answer: Any


class _NotRecordedError(Exception):
    """The record has no answer."""


class AnswersWithCalls:
    """The answers of one turn. `position` says where in the conversation a model is asked."""

    def __init__(self, thread: takeback.Thread) -> None:
        self._thread = thread
        self._made: dict[str, MadeAnswer] = {}

    async def recorded(self, position: str, asked: Any) -> Any:
        """Return the recorded answer to what is asked at this position; None if there is none."""

        async def make() -> Any:
            raise _NotRecordedError

        try:
            with self._thread.turn(position).here():
                return await self._thread.aanswer(asked, make)
        except _NotRecordedError:
            return None

    def made(self, position: str, asked: Any, answer: Any, call_ids: Iterable[str]) -> None:
        """Remember an answer, as JSON values, until one of its calls is begun."""
        self._made.update(dict.fromkeys(call_ids, MadeAnswer(position, asked, answer)))

    async def before(self, call_id: str) -> None:
        """Record the answer that contains this call, unless it is recorded. Call it before the call is begun."""
        made = self._made.get(call_id)
        if made is None:
            return  # the answer is recorded, or the framework has stored it

        async def make() -> Any:
            return made.answer

        with self._thread.turn(made.position).here():
            await self._thread.aanswer(made.asked, make)
        self._made.pop(call_id, None)
