"""Running somebody's command under our eyes without getting in its way."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

import msgspec

from takeback.core.events import Process
from takeback.errors import BackendError
from takeback.system.processes import VARIABLE, adopting

LIFE_S = 1.0
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Child(msgspec.Struct):
    """How a command ended, as a shell would say it."""

    code: int
    why: str = ""
    started: bool = True
    left: tuple[Process, ...] = ()
    """What it started and left behind."""


def run_child(
    words: Sequence[str],
    *,
    token: str,
    show_life: Callable[[], None],
    more: Mapping[str, str] = {},
    tick: Callable[[], None] = lambda: None,
) -> Child:
    """Run a command with our terminal, signals and exit code passed through; with `more` in its environment.

    While it runs, `tick` is called about once a second, after each sign of life.
    A sign of life that cannot be shown keeps it from starting. Once it runs, its own code counts: what changes
    without a sign is in doubt later, where its end cannot be recorded either.
    """
    show_life()
    environment = {**os.environ, VARIABLE: token, **more}
    with adopting() as orphans:
        try:
            process = subprocess.Popen(list(words), env=environment)
        except FileNotFoundError:
            return Child(127, f"{words[0]}: command not found", started=False)
        except PermissionError:
            return Child(126, f"{words[0]}: cannot be run", started=False)
        except OSError as error:
            return Child(126, f"{words[0]}: {error.strerror}", started=False)

        def beat() -> None:
            show_life()
            orphans.bury(process.pid)

        with _signals_to(process):
            _wait(process, partial(_try, beat), tick)
        code, left = process.returncode, orphans.living()
    if code >= 0:
        return Child(code, left=left)
    return Child(128 - code, f"ended by {_signal_name(-code)}", left=left)


def _try(show_life: Callable[[], None]) -> None:
    with suppress(BackendError):
        show_life()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _wait(process: subprocess.Popen[bytes], show_life: Callable[[], None], tick: Callable[[], None]) -> None:
    """Until it ends, say from time to time that we live."""
    if not hasattr(os, "pidfd_open"):
        while True:
            try:
                process.wait(LIFE_S)
                return
            except subprocess.TimeoutExpired:
                show_life()
                tick()
    fd = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while not poll.poll(LIFE_S * 1000):
            show_life()
            tick()
    finally:
        os.close(fd)
    # Once more: should its end not be recorded, the last it wrote is provably its own.
    show_life()
    process.wait()


@contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """What is sent to us is meant for the command. A terminal's Ctrl-C reaches it by itself."""

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not sys.stdin.isatty():
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    before |= {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
