"""Leases as runs and people use them: acquired, waited for, kept while their holder lives, and released.

The lease of a dead process is free at once if its run left nothing half done. Otherwise it blocks others until the
run is settled or the lease expires; the next holder is then informed about what the run left.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from takeback.core.history import History
from takeback.core.leases import EVERYTHING, RESERVED, Blocked, Holder, Lease, covers, overlap
from takeback.engine.locks.keeper import LeaseKeeper
from takeback.engine.locks.left_behind import Left, can_go_on, is_gone, is_settled, left_by, ways
from takeback.engine.runs.checks import seconds_of, text_of
from takeback.errors import Deadlock, LeaseHeld, UsageError
from takeback.ports.leases import LeaseStore

POLL_S = 0.05
SHORTEST_S = 0.01
TTL_S = 60.0


class Leases:
    """The leases of one workspace, from this process."""

    def __init__(
        self,
        store: LeaseStore,
        root: Path,
        here: Callable[[], str] = os.getcwd,
        history: Callable[[], History] = History,
        recover: Callable[[], None] = lambda: None,
    ) -> None:
        """Use the leases in `store`. `history` returns the history; `recover` settles what a crash left open."""
        self.store = store
        self.keeper = LeaseKeeper(store)
        self._root = os.path.realpath(root)
        self._here = here
        self._history = history
        self._recover = recover

    def name(self, text: str | os.PathLike[str]) -> str:
        """Return the name of a lease: a path relative to the workspace, or an absolute one outside it.

        Text that begins with `./` or `../` is relative to the current folder; any other text to the workspace, so
        that a name means the same everywhere.
        """
        given = text_of("the name of a lock", os.fspath(text))
        if not given.strip() or "\0" in given:
            raise UsageError("a lock needs a name or a path; nothing was locked")
        from_here = given in (".", "..") or given.startswith(("./", "../"))
        return self.place(os.path.join(self._here() if from_here else self._root, given))

    def place(self, path: str) -> str:
        """Return an absolute path as the name of a lease. Links on the way are resolved, but not a final link."""
        parent, name = os.path.split(os.path.normpath(path))
        whole = os.path.join(os.path.realpath(parent), name)
        if whole == self._root:
            return EVERYTHING
        if self._root.startswith(whole.rstrip("/") + "/"):
            raise UsageError(
                f"{whole} is above the workspace; nothing was locked", hint="`.` is the whole workspace"
            )
        return whole.removeprefix(f"{self._root}/")

    def take(
        self,
        name: str,
        holder: Holder,
        *,
        family: Collection[str] = (),
        ttl_s: float = TTL_S,
        wait_s: float = 0.0,
    ) -> Lease:
        """Acquire the lease of a name, waiting up to `wait_s`. Raise LeaseHeld if it is taken, or Deadlock."""
        if seconds_of("ttl_s", ttl_s) < SHORTEST_S:
            raise UsageError(f"a lock of {ttl_s} s would expire before it can be used; nothing was locked")
        seconds_of("wait_s", wait_s)
        deadline, token = time.monotonic() + wait_s, secrets.token_hex(8) if wait_s else ""
        self.bury(self.store.all())
        try:
            while True:
                found = self.store.acquire(
                    name, holder, ttl_s, family=family, token=token, wait_s=wait_s + ttl_s
                )
                if isinstance(found, Lease):
                    self._replace(found)
                    return found
                if self.bury(found.by):
                    continue
                if found.cycle:
                    raise _deadlock(name, found)
                if time.monotonic() >= deadline:
                    raise self._held(name, found, wait_s)
                time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
        except BaseException:
            if token:
                self.store.forget(token)
            raise

    def _replace(self, lease: Lease) -> None:
        """Release what the dead process of a continued run held under this lease."""
        mine = lease.holder.run
        old = [
            one.fence
            for one in self.store.all()
            if one.fence < lease.fence and mine and one.holder.run == mine and covers(lease.name, one.name)
            if is_gone(one)
        ]
        if old:
            self.store.release(old)

    def left(self, lease: Lease) -> tuple[Left, ...]:
        """Return what is left of the runs whose leases ended when this one was taken."""
        ended = [one for one in lease.ended if not self._is_settled(one)]
        if ended:
            self._recover()
        history = self._history() if ended else History()
        return tuple(
            left_by(history, one, who(one), lease.name)
            for one in ended
            if not is_settled(history, one.holder.run)
        )

    def live(self) -> list[Lease]:
        """Return the leases that runs and people hold now."""
        found = [lease for lease in self.store.all() if lease.is_live and not lease.name.startswith(RESERVED)]
        return [lease for lease in found if not self._is_free(lease)]

    def release(self, fences: Collection[int]) -> frozenset[int]:
        return self.store.release(fences)

    def bury(self, leases: Iterable[Lease]) -> bool:
        """Release leases whose holder is dead and left nothing half done. Return whether there were any."""
        gone = [lease.fence for lease in leases if self._is_free(lease)]
        return bool(gone) and bool(self.store.release(gone))

    def how_to_free(self, lease: Lease) -> str:
        """Return what the user can do about a lease that blocks others."""
        free = f"takeback locks release {lease.name}"
        if not is_gone(lease):
            return f"wait for it, or, if it is no longer in use: {free}"
        run = lease.holder.run
        settle = ways(run, can_go_on=can_go_on(self._history(), run))
        return f"{settle}, `{free}` only releases the lock"

    def _is_free(self, lease: Lease) -> bool:
        """Return whether its holder is dead, or the lease of a run expired, and the run left nothing half done."""
        is_over = is_gone(lease) or (bool(lease.holder.run) and not lease.is_live)
        return is_over and self._is_settled(lease)

    def _is_settled(self, lease: Lease) -> bool:
        return not lease.holder.run or is_settled(self._history(), lease.holder.run)

    def _held(self, name: str, found: Blocked, wait_s: float) -> LeaseHeld:
        lease = found.by[0]
        left = f"{max(1, lease.left_us // 1_000_000)} s"
        left += "" if is_gone(lease) else " unless it is renewed"
        waited = f" after {wait_s:g} s" if wait_s else ""
        other = f", as part of {lease.name}" if lease.name != name else ""
        return LeaseHeld(
            f"{name} is locked by {who(lease)}{other}, for {left}; nothing was locked{waited}",
            hint=self.how_to_free(lease),
            holders=found.by,
        )


def family_of(history: History, run: str, parent: str = "") -> frozenset[str]:
    """Return a run and the runs that it is nested in. Locks of one do not block the others."""
    found: set[str] = set()
    while run or parent:
        if not run:
            action = history.actions.get(parent)
            run, parent = (action.stream if action else ""), ""
            continue
        if run in found:
            break
        found.add(run)
        known = history.runs.get(run)
        run, parent = "", known.began.parent if known else ""
    return frozenset(found)


def who(lease: Lease) -> str:
    """Return the holder as text: `r7 (claude-code), process 4242 on host`, and whether it has died."""
    holder = lease.holder
    text = holder.run or "a human"
    text += f" ({holder.actor})" if holder.actor else ""
    if holder.process and holder.bound:
        text += f", process {holder.process.pid}"
        text += f" on {holder.process.host}" if holder.process.host else ""
        text += ", which died" if is_gone(lease) else ""
    return text


def why_lost(name: str, leases: Iterable[Lease]) -> str:
    """Return why a lock was lost and who has it now. How exactly it ended is not recorded."""
    now = next((lease for lease in leases if lease.is_live and overlap(lease.name, name)), None)
    has = f" ({who(now)} has it now)" if now else ""
    return f"the lock on {name} was lost{has}: it expired and another holder took it, or a human released it"


def _deadlock(name: str, found: Blocked) -> Deadlock:
    others = ", ".join(f"{wait.holder.run or 'a human'} waits for {wait.name}" for wait in found.cycle[1:])
    return Deadlock(
        f"{name} is locked by {who(found.by[0])}, and waiting for it would be a deadlock: {others}, "
        "which is locked here. The youngest of them gave up, which is this one; nothing was locked",
        hint="release your locks and try again; taking locks in the same order everywhere avoids this",
        holders=found.by,
    )
