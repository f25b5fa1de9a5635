"""The port of progress: showing how far long work has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """A function that shows how far long work has come."""

    def __call__(self, what: str, items: Iterable[T], total: int, /) -> Iterable[T]:
        """Yield these items, and show the progress meanwhile."""


def silent(_what: str, items: Iterable[T], _total: int, /) -> Iterable[T]:
    """Return the items without showing progress."""
    return items
