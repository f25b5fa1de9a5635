"""Answers of a model that contain calls, for frameworks that do not store an answer before its tools run.

A call id identifies a call after a crash only if the answer that contains it is kept. An answer is recorded just
before the first of its calls is begun. An answer whose calls were never begun, or that has none, is not recorded:
asking the model for it again changes nothing in the world, and a bad answer must not come again for ever.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

import takeback
from takeback.core import keys

_ATTEMPT = "takeback-attempt"


class Question(NamedTuple):
    """What a model is asked, and where in the conversation."""

    position: str
    digest: str


class MadeAnswer(NamedTuple):
    """An answer that a model gave in this process, and what it was asked."""

    question: Question
    answer: Any


class _NotRecordedError(Exception):
    """The record has no answer."""


def question(position: str, asked: Any) -> Question:
    """Return what a model is asked at a position: JSON values, of which times and ids of runs do not count."""
    # A digest: a conversation is long, and each call would have to look through all of it again.
    return Question(position, keys.intent_key("asked", keys.asked(asked)))


def ask_anew(thread: takeback.Thread) -> None:
    """Make a thread that went back ask its model again: an answer from before may be why its human went back."""
    thread.memory[_ATTEMPT] = secrets.token_hex(4)


def attempt_of(thread: takeback.Thread) -> str:
    """Return what answers from before the last `ask_anew` do not have in their positions; empty without one."""
    return str(thread.memory.get(_ATTEMPT, ""))


class AnswersWithCalls:
    """The answers of one turn."""

    def __init__(self, thread: takeback.Thread) -> None:
        self._thread = thread
        self._made: dict[str, MadeAnswer] = {}
        self._scopes: dict[str, str] = {}

    async def recorded(self, asked: Question) -> Any:
        """Return the recorded answer to a question; None if there is none."""

        async def make() -> Any:
            raise _NotRecordedError

        try:
            with self._thread.turn(asked.position).here():
                return await self._thread.aanswer(asked.digest, make)
        except _NotRecordedError:
            return None

    def made(self, asked: Question, answer: Any, call_ids: Iterable[str]) -> None:
        """Remember an answer, as JSON values, until one of its calls is begun."""
        ids = list(call_ids)
        self._made.update(dict.fromkeys(ids, MadeAnswer(asked, answer)))
        self.known(asked, ids)

    def known(self, asked: Question, call_ids: Iterable[str]) -> None:
        """Note which calls an answer contains, be it made or recorded."""
        self._scopes.update(dict.fromkeys(call_ids, f"{asked.position} {asked.digest}"))

    def scope_of(self, call_id: str) -> str:
        """Return what tells a call from others with its id: some providers count the calls of each answer from 0.

        Empty if no answer of this turn contains it: then an earlier turn was left for a human to approve it.
        """
        return self._scopes.get(call_id, "")

    async def before(self, call_id: str) -> None:
        """Record the answer that contains this call, unless it is recorded. Call it before the call is begun."""
        made = self._made.get(call_id)
        if made is None:
            return  # the answer is recorded, or the framework has stored it

        async def make() -> Any:
            return made.answer

        with self._thread.turn(made.question.position).here():
            await self._thread.aanswer(made.question.digest, make)
        self._made.pop(call_id, None)
