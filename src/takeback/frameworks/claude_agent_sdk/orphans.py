"""Programs of agents whose host was killed: they live on, and would work beside the session that is resumed."""

from __future__ import annotations

import os
import platform
import signal
import time
from contextlib import suppress

from takeback.core.events import Process
from takeback.system import processes

VARIABLE = "TAKEBACK_AGENT_HOST"
"""The variable in the environment of the agent's program, and of all that it starts: its host and workspace."""
WORKING_S_MAX = 10.0
"""How long a command that the program had begun may go on before it is ended."""
TERMINATING_S_MAX = 5.0
_POLL_S = 0.02


def marking(root: str) -> dict[str, str]:
    """Return the variable for programs that this process starts in a workspace."""
    here = processes.this_process()
    return {VARIABLE: f"{here.pid}:{here.started}:{root}"}


def at_work(root: str) -> set[int]:
    """Return the programs of this process that are at work in a workspace, with all that they started."""
    return _marked({marking(root)[VARIABLE]})


def end_orphans(root: str) -> None:
    """Wait for what killed hosts left at work in a workspace, and end what does not end.

    A program without its host can neither ask whether a call is allowed nor report one. So only a command that it
    had begun is waited for.
    """
    found = left_behind(root)
    if not found:
        return
    deadline = time.monotonic() + WORKING_S_MAX
    while _commands(found := left_behind(root)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in found:
            _signal(pid, number, root)
        deadline = time.monotonic() + TERMINATING_S_MAX
        while (found := left_behind(root)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def left_behind(root: str) -> set[int]:
    """Return the processes that dead hosts left in this workspace, without this process and its ancestors."""
    marks = {mark for pid in processes.ProcessTable().pids() if (mark := _mark_of(pid))}
    dead = {mark for mark in marks if _root_of(mark) == root and not processes.is_alive(_host_of(mark))}
    return _marked(dead) - {process.pid for process in processes.lineage()} if dead else set()


def _commands(pids: set[int]) -> set[int]:
    """Return those that another one of them started: the commands of a program."""
    return {pid for pid in pids if processes.parent_of(pid) in pids}


def _marked(marks: set[str]) -> set[int]:
    return {pid for pid in processes.ProcessTable().pids() if _mark_of(pid) in marks}


def _mark_of(pid: int) -> str:
    start = f"{VARIABLE}=".encode()
    found = (part for part in processes.read_of(pid, "environ").split(b"\0") if part.startswith(start))
    return os.fsdecode(next(found, b"")[len(start) :])


def _root_of(mark: str) -> str:
    return mark.split(":", 2)[-1]


def _host_of(mark: str) -> Process | None:
    pid, started, _ = (*mark.split(":", 2), "", "")[:3]
    if not pid.isdigit():
        return None
    return Process(int(pid), started, processes.boot_id(), platform.node())


def _signal(pid: int, number: signal.Signals, root: str) -> None:
    """Send a signal to an orphan. Its number may have been given to another process since it was found."""
    with suppress(ProcessLookupError):
        held = os.pidfd_open(pid)
        try:
            if _root_of(_mark_of(pid)) == root:
                signal.pidfd_send_signal(held, number)
        finally:
            os.close(held)
