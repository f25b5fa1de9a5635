"""Processes: which ones still live and who started them. A pid alone is not enough, because pids are reused."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import resource
import time
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from takeback.core.events import Process

SIGN_OF_LIFE_NS = 60 * 10**9
ANCESTORS_MAX = 1000

VARIABLE = "TAKEBACK_ACTION"
"""The variable in the environment of all that an action starts. It outlives parents and sessions."""

BRAND = 10
"""RLIMIT_LOCKS: a limit that no kernel since 2.4 applies. Every process inherits it, and only a privileged one can
raise it again: so it shows what started a process, even after its parents and environment are gone."""
BRANDS_BEGIN = 1 << 62
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
SET_CHILD_SUBREAPER = 36
THREADS_MAX = 256
PASSES_MAX = 20
NEAR_MAX = 64
READ_BYTES = 1 << 16
OWN_BRANDS_MAX = 4096

_own_brands: list[int] = []
"""The latest is the lowest, and so the first."""


def this_process() -> Process:
    return _own(os.getpid())


@cache
def _own(pid: int) -> Process:
    return describe(pid)


os.register_at_fork(after_in_child=_own.cache_clear)  # a grandchild may get the number of a dead ancestor


def describe(pid: int) -> Process:
    return Process(pid, _started(pid), boot_id(), platform.node())


def lineage() -> list[Process]:
    """Return this process, its parent, and so on."""
    found: list[Process] = []
    pid = os.getpid()
    while pid > 0 and len(found) < ANCESTORS_MAX:
        found.append(describe(pid))
        pid = parent_of(pid)
    return found


def parent_of(pid: int) -> int:
    """Return the parent of this process, or the process that adopted it; 0 if it is gone."""
    return int(_fields(pid)[1])


def is_alive(process: Process | None, last_sign_ns: int = 0) -> bool:
    """Return whether exactly this process still runs.

    For another machine, with another name and boot id, only the last sign of life counts.
    """
    if process is None:
        return False
    if process.boot != boot_id():
        elsewhere = process.host != platform.node()
        return elsewhere and time.time_ns() - last_sign_ns < SIGN_OF_LIFE_NS
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return process.started == _started(process.pid)


def new_brand() -> int:
    """Return an unused brand. It is lower than all before it, because the limit cannot be raised."""
    return BRANDS_BEGIN - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def own_brands(since: int) -> set[int]:
    """Return the brands that this process has had, from this one on."""
    return set(_own_brands[: bisect_right(_own_brands, since)])


class Count(NamedTuple):
    """How many processes and threads were ever started, and the last pid."""

    ever: int
    last: int


def count() -> Count:
    """Return the present count."""
    _, _, ever = _read("/proc/stat").partition(b"\nprocesses ")
    return Count(int(ever.partition(b"\n")[0] or 0), _last_pid())


def _last_pid() -> int:
    return int((_read("/proc/loadavg").split() or [b"0"])[-1])


class Orphans:
    """The descendants of this process that started after this object was made."""

    def __init__(self) -> None:
        self._before = set(_below(os.getpid()))

    def living(self) -> tuple[Process, ...]:
        new = sorted(set(_below(os.getpid())) - self._before)
        return tuple(process for process in map(describe, new) if process.started)

    def bury(self, but: int) -> None:
        """Reap those that have ended, which would stay as zombies; except `but`, which the caller waits for."""
        for pid in set(_children(os.getpid())) - self._before - {but}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


@contextmanager
def adopting() -> Iterator[Orphans]:
    """Adopt orphaned descendants in this block, so that nothing they start can escape."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    orphans = Orphans()
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield orphans
    finally:
        prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def put_brand(process: Process, brand: int) -> None:
    """Brand a process and its descendants: what they start from now on inherits the brand.

    Another user's process cannot be branded; what it starts is then found only by its environment.
    """
    is_this = process == this_process()
    if is_this:
        insort(_own_brands, brand)
        del _own_brands[OWN_BRANDS_MAX:]
    elif not is_alive(process):
        return
    # An agent may keep a shell, and what that starts belongs to the call. What our own program started before
    # does not, nor do orphans below process 1.
    below = [] if is_this or process.pid == 1 else _below(process.pid)
    for pid in (process.pid, *below):
        try:
            resource.prlimit(pid, BRAND, (brand, brand))
        except (OSError, ValueError):
            continue  # it has ended, is not ours, or already has a lower one


def _below(pid: int) -> list[int]:
    """Return the descendants of this process."""
    found, open_ = [], [pid]
    while open_:
        children = _children(open_.pop())
        found += children
        open_ += children
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")[:THREADS_MAX]
    except OSError:
        return []
    return [
        int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


class ProcessTable:
    """The processes of this machine, or those started after a count. Each is read once."""

    def __init__(self, after: Count | None = None) -> None:
        self._seen: dict[int, tuple[int, str]] = {}
        self._others: dict[int, tuple[int, str]] = {}
        self._listed: set[int] = set()
        if after and (count().ever - after.ever) * 2 > _pid_max():
            after = None  # pids may have been reused meanwhile
        self._after = after
        self._list_new()

    def pids(self) -> set[int]:
        return set(self._seen)

    def with_token(self, token: str) -> set[int]:
        """Return the processes with this action's token in their environment, whatever their parent is now."""
        wanted = f"{VARIABLE}={token}".encode()
        found = self._of_each(lambda pid: wanted in _read(f"/proc/{pid}/environ").split(b"\0"))
        return {pid for pid, has_token in found.items() if has_token}

    def branded(self, brands: AbstractSet[int]) -> set[int]:
        """Return the processes with one of these brands, or with a forged one. None can be older than its brand.

        A process that replaces its brand with a lower number wants to hide; nothing else sets this limit.
        """
        if not brands:
            return set()
        oldest_ns = BRANDS_BEGIN - max(brands) - TICK_NS
        found = self._of_each(_brand_of, oldest_ns)
        lowest = new_brand()  # computed last: all real brands are higher
        return {pid for pid, brand in found.items() if brand in brands or 0 <= brand < lowest}

    def alive(self, recorded: Iterable[Process]) -> set[int]:
        """Return which of these still live."""
        boot = boot_id()
        return {p.pid for p in recorded if p.boot == boot and self._entry(p.pid)[1] == p.started}

    def with_offspring(self, pids: AbstractSet[int]) -> set[int]:
        """Return these processes and their descendants, as far as parents are still known."""
        return {pid for pid in self._seen if not pids.isdisjoint(self._ancestors(pid))} if pids else set()

    def below(self, process: Process | None) -> set[int]:
        """Return a process and its descendants; empty if it has ended."""
        return self.with_offspring(self.alive([process] if process else []))

    def _list_new(self) -> None:
        for _ in range(PASSES_MAX):
            # A process that has ended since it was listed may have started another one that was not listed.
            new = _listing(self._after) - self._listed
            if not new:
                break
            self._listed |= new
            self._seen |= {pid: found for pid in new if (found := _parent_and_start(pid))}

    def _of_each(self, read: Callable[[int], int], oldest_ns: int = 0) -> dict[int, int]:
        """Read something of each process that is not older, also of those started while others were being read."""
        found: dict[int, int] = {}
        for _ in range(PASSES_MAX):
            young = {pid for pid, (_, began) in self._seen.items() if int(began) * TICK_NS >= oldest_ns}
            new = young - found.keys()
            if not new:
                break
            found |= {pid: read(pid) for pid in new}
            self._list_new()
        return found

    def _entry(self, pid: int) -> tuple[int, str]:
        """Return parent and start of a process, even of one that is not in this table."""
        if entry := self._seen.get(pid) or self._others.get(pid):
            return entry
        entry = self._others[pid] = (_parent_and_start(pid) if pid else None) or (0, "gone")
        return entry

    def _ancestors(self, pid: int) -> set[int]:
        found: set[int] = set()
        while pid and pid not in found:
            found.add(pid)
            pid = self._entry(pid)[0]
        return found


def _brand_of(pid: int) -> int:
    """Return the brand of a process, -1 for none. Its file is readable even if sudo made it another user's."""
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(b"Max file locks"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() else -1
    return -1


def read_of(pid: int, name: str) -> bytes:
    """Return this file of /proc for a process; empty if it may not be read or the process has ended."""
    return _read(f"/proc/{pid}/{name}")


def _listing(after: Count | None) -> set[int]:
    if after and 0 <= (last := _last_pid()) - after.last <= NEAR_MAX:
        # Few numbers were given since. To ask for each is quicker than to list all processes of the machine.
        return {pid for pid in range(after.last + 1, last + 1) if _is_process(pid)}
    try:
        every = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    except OSError:
        return set()
    if after is None:
        return every
    last = _last_pid()  # read last: none of those listed above has a later pid
    if last >= after.last:
        return {pid for pid in every if after.last < pid <= last}
    return {pid for pid in every if pid > after.last or pid <= last}  # pids wrap around


def _is_process(pid: int) -> bool:
    """Return whether this is the number of a process, and not that of one of its threads."""
    return b"\nTgid:\t%d\n" % pid in _read(f"/proc/{pid}/status")


@cache
def _pid_max() -> int:
    return int(_read("/proc/sys/kernel/pid_max") or 0)


def _parent_and_start(pid: int) -> tuple[int, str] | None:
    fields = _fields(pid)
    return None if fields[0] in "ZX" else (int(fields[1]), fields[19])


def _started(pid: int) -> str:
    """Return when a process began, in clock ticks since boot; empty without /proc."""
    fields = _fields(pid)
    # A zombie has ended; its parent has just not reaped it yet.
    return "" if fields[0] == "Z" else fields[19]


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state to the start time."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rindex(b")") + 1 :].decode().split(None, 20) if text else ["Z", "0"]


def _read(path: str) -> bytes:
    """Return the content of a file in /proc; empty if its process is gone or belongs to another user."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        while part := os.read(fd, READ_BYTES):
            found += part
    except OSError:
        return b""
    finally:
        os.close(fd)
    return found


@cache
def boot_id() -> str:
    """Return the kernel's boot id; empty if unknown. Process start times only compare within one boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch this process's garbage collection off in the block: with very many objects it costs a fifth.

    It is for work that makes no cycles: what nothing refers to any more is freed all the same.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
