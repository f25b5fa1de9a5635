"""The port of progress: showing how far long work has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Whoever wants to know how far long work has come."""

    def __call__(self, what: str, items: Iterable[T], total: int, /) -> Iterable[T]:
        """These items, one after another; meanwhile it may be told how many of the total have been dealt with."""


def silent(_what: str, items: Iterable[T], _total: int, /) -> Iterable[T]:
    """Nobody wants to know."""
    return items
