"""The parts of a run and of a workspace that a plan needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class PlanRun(Protocol):
    """The part of a run that a plan needs."""

    @property
    def id(self) -> str: ...

    def step(self, name: str, *, retries: int = 0, uses: Sequence[str] = ()) -> AbstractContextManager[Any]:
        """Return a step whose `done` is True if an earlier attempt completed it. `uses` are the steps it needs."""

    def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool as an action, or return its recorded result; an awaitable for a coroutine function."""


class PlanRuns(Protocol):
    """The part of a workspace that a plan needs."""

    def run(
        self,
        name: str,
        *,
        key: str,
        autopilot: bool,
        approve: Callable[[Any], bool | None] | None = None,
        on_failure: str = "undo",
    ) -> AbstractContextManager[PlanRun]:
        """Return a run that commits at the end of its block; on an exception it is taken back and re-raises.

        `approve` answers requests, or returns None to leave one to a human. With `on_failure="pause"` completed
        steps stay, and the run can be continued.
        """
