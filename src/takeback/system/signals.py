"""Passing our signals on to a command that we have started for the user."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # loading `typing` takes longer than the rest of a small program
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Forwarding:
    """A block that forwards our signals to the command, including those that arrive before it has started.

    A terminal's Ctrl-C reaches the command directly.
    """

    def __init__(self) -> None:
        self._send: Callable[[int], object] | None = None
        self._early: list[int] = []

    def __enter__(self) -> Forwarding:
        numbers = (*FORWARDED, signal.SIGINT, signal.SIGQUIT)
        self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def to(self, send: Callable[[int], object]) -> None:
        """Forward all signals this way from now on, and those that have already arrived."""
        self._send = send
        while self._early:
            send(self._early.pop(0))

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT) and sys.stdin.isatty():
            return
        if self._send is None:
            self._early.append(number)
        else:
            self._send(number)
