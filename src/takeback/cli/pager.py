"""Long output on a terminal, page by page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from takeback.cli.text import echo, tame
from takeback.settings import environment


def page(lines: Iterable[str], *, wanted: bool = True) -> None:
    """Print lines as they come; on a terminal through the pager if they do not fit on one screen."""
    program = _program() if wanted and sys.stdout.isatty() else ""
    room = shutil.get_terminal_size().lines - 1
    held: list[str] = []
    rest = iter(lines)
    for line in rest:
        if not program:
            echo(line)
            continue
        held.append(line)
        if len(held) > room:
            _through(program, held, rest)
            return
    for line in held:
        echo(line)


def _through(program: str, held: Iterable[str], rest: Iterable[str]) -> None:
    started = ["sh", "-c", program]
    with subprocess.Popen(started, stdin=subprocess.PIPE, env=environment.of_pager()) as pager:
        assert pager.stdin is not None
        # Who leaves the pager before the end has read enough. Ctrl-C is the pager's own.
        with suppress(BrokenPipeError, KeyboardInterrupt):
            for some in (held, rest):
                for line in some:
                    pager.stdin.write(f"{tame(line)}\n".encode(errors="replace"))
        with suppress(BrokenPipeError):
            pager.stdin.close()
        while pager.poll() is None:
            with suppress(KeyboardInterrupt):
                pager.wait()


def _program() -> str:
    """Return the pager; empty if there is none, or if what it names only copies its input."""
    named = environment.pager()
    if named is None:
        return "less" if shutil.which("less") else ""
    return "" if named.strip() == "cat" else named
