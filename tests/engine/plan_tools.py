"""Tools that the plans of tests call, and runs that are just enough to call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import takeback

calls: list[tuple[str, dict[str, Any]]] = []
"""What was really called, in order."""

not_a_function = 7


def search(topic: str) -> dict[str, Any]:
    calls.append(("search", {"topic": topic}))
    return {"text": f"about {topic}", "hits": [{"id": 7}], "where": "/etc/passwd"}


def write(path: str, text: str = "", *, mode: int = 0) -> str:
    calls.append(("write", {"path": path, "text": text}))
    return path


def keyed(key: str, value: str = "v") -> str:
    calls.append(("keyed", {"key": key, "value": value}))
    return key


def keyed_by_name(*, key: str) -> str:
    raise AssertionError("not called")


def fail(why: str = "no") -> None:
    raise ConnectionError(why)


async def later(text: str) -> str:
    calls.append(("later", {"text": text}))
    return text.upper()


def unkept() -> object:
    return object()


@dataclass
class Point:
    x: int
    y: tuple[int, int] = (1, 2)


def point() -> Point:
    return Point(3)


@takeback.action(effect="irreversible")
def wire(amount: int) -> int:
    calls.append(("wire", {"amount": amount}))
    return amount


class SimpleRuns:
    """Runs that remember results by key and step, as the engine promises to; nothing is taken back."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.begun: list[tuple[str, str, bool]] = []
        self.retries: dict[str, int] = {}

    @contextmanager
    def run(self, name: str, *, key: str, autopilot: bool, **_: Any) -> Iterator[SimpleRun]:
        self.begun.append((name, key, autopilot))
        yield SimpleRun(self, self.kept.setdefault(key, {}))


class SimpleRun:
    id = "r1"

    def __init__(self, runs: SimpleRuns, kept: dict[str, Any]) -> None:
        self._runs = runs
        self._kept = kept
        self._step = ""

    @contextmanager
    def step(self, name: str, *, retries: int = 0, uses: Sequence[str] = ()) -> Iterator[Any]:
        self._step = name
        self._runs.retries[name] = retries
        yield SimpleNamespace(done=name in self._kept)

    def call(self, function: Callable[..., Any], /, *args: Any, key: str = "", **kwargs: Any) -> Any:
        assert key == ""
        step = self._step
        if step in self._kept:
            return self._kept[step]
        if inspect.iscoroutinefunction(function):

            async def made() -> Any:
                self._kept[step] = await function(*args, **kwargs)
                return self._kept[step]

            return made()
        self._kept[step] = function(*args, **kwargs)
        return self._kept[step]
