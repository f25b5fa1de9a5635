"""Locks of a run: it names what it works on, and others stay away from it."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from takeback.core.leases import Holder, Lease
from takeback.engine.locks.leases import family_of, why_lost
from takeback.engine.locks.left_behind import Left
from takeback.engine.runs.step import RunContext
from takeback.errors import LeaseLost, UsageError
from takeback.system import processes

_log = logging.getLogger("takeback")


class RunLock:
    """A lock of a run, as a block. `fence` is its number, for systems that refuse callers with a lower one."""

    left: tuple[Left, ...] = ()
    """What is left of dead runs that had this lock before and were not settled when it expired."""

    def __init__(self, run: RunContext, name: str, ttl_s: float, wait_s: float) -> None:
        self.name = name
        self._run = run
        self._ttl_s = ttl_s
        self._wait_s = wait_s
        self._lease: Lease | None = None

    def __repr__(self) -> str:
        return f"<Lock {self.name!r}{f' {self.fence}' if self._lease else ''}>"

    @property
    def fence(self) -> int:
        if self._lease is None:
            raise UsageError(f"{self.name} is not locked here", hint="`with run.lock(...) as lock:`")
        return self._lease.fence

    def check(self) -> None:
        """Raise LeaseLost if the lock is no longer held."""
        self._run.ledger.refuse_lost({self.fence: self.name})

    def __enter__(self) -> RunLock:
        if self._lease is not None:
            raise UsageError(f"{self.name} is already locked by this block; nothing was changed")
        run = self._run
        run.at_work.refuse_closed()
        leases = run.parts.leases
        holder = Holder(
            run.id, run.options.began.actor, processes.this_process(), thread=str(threading.get_ident())
        )
        family = family_of(run.ledger.refresh(), run.id)
        self._lease = leases.take(self.name, holder, family=family, ttl_s=self._ttl_s, wait_s=self._wait_s)
        leases.keeper.keep(self._lease.fence, self._lease.ttl_us)
        run.ledger.fenced(run.id)[self.fence] = self.name
        self.left = leases.left(self._lease)
        for left in self.left:
            _log.warning("%s: %s", self.name, left)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, run = self._lease, self._run
        if lease is None or run.at_work.is_forked():
            return
        leases = run.parts.leases
        leases.keeper.leave(lease.fence)
        was_held = leases.release([lease.fence])
        run.ledger.fenced(run.id).pop(lease.fence, None)
        self._lease = None
        if not was_held and error is None:
            # Part of this block ran without the lock, and no error has reported that yet.
            raise LeaseLost(
                f"{why_lost(self.name, leases.store.all())}. Its block ran on until now",
                hint="`takeback locks list` shows who has it now; look at what was done since, then lock it again",
            )
