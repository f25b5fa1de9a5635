"""Which processes still live, told by more than a number: numbers are used again."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import resource
import time
from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from takeback.core.events import Process

SIGN_OF_LIFE_NS = 60 * 10**9
ANCESTORS_MAX = 1000

VARIABLE = "TAKEBACK_ACTION"
"""In the environment of everything that an action starts. It outlives parents, sessions and closed descriptors."""

BRAND = 10
"""RLIMIT_LOCKS: a limit that no kernel since 2.4 applies. Every process inherits it, and only one with privileges can
raise it again: so it tells what a process was started from, whatever became of its parents and its environment."""
BRANDS_BEGIN = 1 << 62
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
SET_CHILD_SUBREAPER = 36
THREADS_MAX = 256
PASSES_MAX = 20
READ_BYTES = 1 << 16
OWN_BRANDS_MAX = 4096

_own_brands: deque[int] = deque(maxlen=OWN_BRANDS_MAX)


def this_process() -> Process:
    return describe(os.getpid())


def describe(pid: int) -> Process:
    return Process(pid, _started(pid), boot_id(), platform.node())


def lineage() -> list[Process]:
    """This process, the one that it was started by, and so on."""
    found: list[Process] = []
    pid = os.getpid()
    while pid > 0 and len(found) < ANCESTORS_MAX:
        found.append(describe(pid))
        pid = parent_of(pid)
    return found


def parent_of(pid: int) -> int:
    """The process that this one was started by, or that took it over; 0 where it is gone."""
    return int(_fields(pid)[1])


def is_alive(process: Process | None, last_sign_ns: int = 0) -> bool:
    """Whether this very process still runs.

    On another machine, one of another name and another boot, only its last sign of life can tell.
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
    """A brand that nothing carries yet. It is lower than all before it: nobody can raise theirs."""
    return BRANDS_BEGIN - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def own_brands(since: int) -> set[int]:
    """The brands that this very process had, from this one on."""
    return {brand for brand in _own_brands if brand <= since}


class Count(NamedTuple):
    """How many processes and threads were ever started, and the last number that one of them was given."""

    ever: int
    last: int


def count() -> Count:
    """The count of this moment."""
    lines = _read("/proc/stat").splitlines()
    ever = next((int(line.split()[1]) for line in lines if line.startswith(b"processes ")), 0)
    return Count(ever, _last_pid())


def _last_pid() -> int:
    return int((_read("/proc/loadavg").split() or [b"0"])[-1])


class Orphans:
    """What was started below this process since then, whoever started it, and has lost its parents."""

    def __init__(self) -> None:
        self._before = set(_below(os.getpid()))

    def living(self) -> tuple[Process, ...]:
        new = sorted(set(_below(os.getpid())) - self._before)
        return tuple(process for process in map(describe, new) if process.started)

    def bury(self, but: int) -> None:
        """Let those that have ended go: as zombies they would stay. Somebody else waits for `but`."""
        for pid in set(_children(os.getpid())) - self._before - {but}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


@contextmanager
def adopting() -> Iterator[Orphans]:
    """Be the parent of whatever our descendants leave behind: nothing that they start can leave us."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    orphans = Orphans()
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield orphans
    finally:
        prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def put_brand(process: Process, brand: int) -> None:
    """Brand a process and all below it: what they start from now on inherits it.

    Where it is another user's it stays as it is; what it starts is then found by its environment alone.
    """
    if not is_alive(process):
        return
    if process.pid == os.getpid():
        _own_brands.append(brand)
    # An agent may keep a shell, and what that starts is the call's. What a program of ours has started before is
    # not, nor are the orphans of others below process 1.
    below = _below(process.pid) if process.pid not in (1, os.getpid()) else []
    for pid in (process.pid, *below):
        try:
            resource.prlimit(pid, BRAND, (brand, brand))
        except (OSError, ValueError):
            continue  # it has ended, is not ours, or has a lower one already


def _below(pid: int) -> list[int]:
    """The processes that this one has started and that are still its own, with theirs."""
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
    """The processes of this machine at one moment, or those that were started after a count. Each is read once."""

    def __init__(self, after: Count | None = None) -> None:
        self._seen: dict[int, tuple[int, str]] = {}
        self._others: dict[int, tuple[int, str]] = {}
        if after and (count().ever - after.ever) * 2 > _pid_max():
            after = None  # numbers may have been used again meanwhile
        known: set[int] = set()
        for _ in range(PASSES_MAX):
            # One that has ended since it was listed may have left another one, which was not there to be listed.
            new = _listing(after) - known
            if not new:
                break
            known |= new
            self._seen |= {pid: found for pid in new if (found := _parent_and_start(pid))}

    def pids(self) -> set[int]:
        return set(self._seen)

    def with_token(self, token: str) -> set[int]:
        """Those that carry this action's token in their environment, whoever their parent is by now."""
        wanted = f"{VARIABLE}={token}".encode()
        return {pid for pid in self._seen if wanted in _read(f"/proc/{pid}/environ").split(b"\0")}

    def branded(self, brands: AbstractSet[int]) -> set[int]:
        """Those that carry one of these brands, or a number that was never given. None can be older than its brand.

        Who puts such a number over a brand wants not to be found; nobody else sets this limit.
        """
        if not brands:
            return set()
        oldest_ns = BRANDS_BEGIN - max(brands) - TICK_NS
        young = [pid for pid, (_, began) in self._seen.items() if int(began) * TICK_NS >= oldest_ns]
        found = {pid: _brand_of(pid) for pid in young}
        lowest = new_brand()  # asked for last: all that were given are higher
        return {pid for pid, brand in found.items() if brand in brands or 0 <= brand < lowest}

    def alive(self, recorded: Iterable[Process]) -> set[int]:
        """Those of these that still live."""
        boot = boot_id()
        return {p.pid for p in recorded if p.boot == boot and self._entry(p.pid)[1] == p.started}

    def with_offspring(self, pids: AbstractSet[int]) -> set[int]:
        """These, and those that were started by them or by one that was, as far as parents still tell."""
        return {pid for pid in self._seen if not pids.isdisjoint(self._ancestors(pid))} if pids else set()

    def below(self, process: Process | None) -> set[int]:
        """A process and what descends from it; nothing where it has ended."""
        return self.with_offspring(self.alive([process] if process else []))

    def _entry(self, pid: int) -> tuple[int, str]:
        """Its parent and its start; also of one that is older than those that were asked for."""
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
    """Read from a file that everybody may read: what was started with sudo is another user's. -1 for none."""
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(b"Max file locks"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() else -1
    return -1


def read_of(pid: int, name: str) -> bytes:
    """What the kernel tells of a process under this name; nothing where it may not be read, or has ended."""
    return _read(f"/proc/{pid}/{name}")


def _listing(after: Count | None) -> set[int]:
    try:
        every = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    except OSError:
        return set()
    if after is None:
        return every
    last = _last_pid()  # read last: none of those above was given a later number
    if last >= after.last:
        return {pid for pid in every if after.last < pid <= last}
    return {pid for pid in every if pid > after.last or pid <= last}  # numbers are given in a circle


@cache
def _pid_max() -> int:
    return int(_read("/proc/sys/kernel/pid_max") or 0)


def _parent_and_start(pid: int) -> tuple[int, str] | None:
    fields = _fields(pid)
    return None if fields[0] in "ZX" else (int(fields[1]), fields[19])


def _started(pid: int) -> str:
    """When a process began, in the kernel's own count; empty where there is no /proc."""
    fields = _fields(pid)
    # A zombie has ended; only its parent has not noticed.
    return "" if fields[0] == "Z" else fields[19]


def _fields(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on to its start."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rindex(b")") + 1 :].decode().split(None, 20) if text else ["Z", "0"]


def _read(path: str) -> bytes:
    """What stands in a file of /proc; nothing where its process is gone, or is another user's."""
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


@functools.cache
def boot_id() -> str:
    """Nothing where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
