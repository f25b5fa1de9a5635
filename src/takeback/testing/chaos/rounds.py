"""The rounds of the chaos kit as values: an agent with its witnesses, one fault at one place, and the results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from takeback.core.rollback import Verdict
from takeback.testing.chaos.faults import Fault
from takeback.testing.chaos.inject import FaultPlace
from takeback.testing.chaos.witness import Counts, Probe, World
from takeback.workspace.workspace import Workspace

TAKEN_BACK = (Verdict.CLEAN, Verdict.UNKNOWN, Verdict.NOTHING)
"""The verdicts after which everything is as before."""

Agent = Callable[[Workspace], object]


class ChaosFailure(AssertionError):
    """A round after which something is wrong. The message has the place, the line to blame and how to repeat it."""


class ChaosResult(msgspec.Struct):
    """What the rounds of one agent showed."""

    rounds: int = 0
    taken_back: int = 0
    completed: int = 0
    """Rounds in which the agent reached its goal in spite of the fault."""
    resumed: int = 0
    """Rounds in which a second attempt continued where the first one was interrupted."""
    handed_over: int = 0
    """Rounds that a human has to end, because a call has no check or cannot be undone."""
    took_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds: {self.taken_back} taken back, {self.completed} completed, "
            f"{self.resumed} resumed, {self.handed_over} handed over; {self.took_s:.1f} s"
        )


class ChaosRound(msgspec.Struct, frozen=True):
    """One fault at one place."""

    fault: Fault
    place: FaultPlace

    def __str__(self) -> str:
        return f"{self.place}: {self.fault.name}"


class Subject(msgspec.Struct, frozen=True):
    """An agent under test, with its witnesses."""

    agent: Agent
    world: Probe | None = None
    service: Counts | None = None
    reset: Callable[[], object] | None = None
    prepare: Callable[[Path], object] | None = None

    def counts(self) -> dict[str, int]:
        return dict(self.service()) if self.service else {}

    def seen(self, root: Path | None) -> World:
        """Return a witness of the world as it is now."""
        return World(root, self.world, self.service)

    def work(self, workspace: Workspace) -> None:
        """Let the agent work once, in a loop of its own if it is a coroutine function."""
        found = self.agent(workspace)
        if inspect.isawaitable(found):
            import asyncio

            async def awaited() -> None:
                await found

            asyncio.run(awaited())

    def start_over(self) -> None:
        if self.reset is not None:
            self.reset()


def since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return how often each effect happened in between."""
    return {name: count for name in now if (count := now[name] - before.get(name, 0))}
