"""A conversation with each of the clients: prompt after prompt in one session, in the client's own way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from . import clients, talking

FLAGS = {"codex": ("--enable", "multi_agent_v2")}


class Conversation(Protocol):
    """What a human can do with a client."""

    def say(self, prompt: str) -> object: ...


class Resumed:
    """A client that ends after each prompt, and goes on with its session at the next."""

    def __init__(self, agent: str, model: clients.Model, desk: clients.Desk) -> None:
        self._agent, self._model, self._desk = agent, model, desk
        self._resuming: Sequence[str] = ()

    def say(self, prompt: str) -> str:
        done = getattr(clients, self._agent.replace("-", "_"))(
            self._model, self._desk, prompt, *FLAGS.get(self._agent, ()), *self._resuming
        )
        said = str(done.stdout)
        if not self._resuming:
            self._resuming = self._resume(said)
        return said

    def _resume(self, said: str) -> Sequence[str]:
        if self._agent == "codex":
            events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            return ("resume", next(e["thread_id"] for e in events if e["type"] == "thread.started"))
        return {"gemini": ("--resume", "latest"), "opencode": ("--continue",)}[self._agent]


@contextmanager
def conversation(agent: str, model: clients.Model, desk: clients.Desk) -> Iterator[Conversation]:
    if agent == "claude-code":
        with talking.claude_code(model, desk) as talk:
            yield talk
    else:
        yield Resumed(agent, model, desk)
