"""Workspaces that stay open from one event to the next, each used by one thread at a time."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import ConflictError, RunBusy, TakebackError, UsageError
from takeback.workspace import (
    lost_history,
    parts,  # noqa: F401  loaded with the daemon, so that no event waits for it
)
from takeback.workspace.lost_history import Witness
from takeback.workspace.opening import Basis, basis_of, places_of
from takeback.workspace.workspace import Workspace

OPEN_MAX = 8
TURN_WAIT_S = 30.0
UNUSED_S = 600.0


class Warm:
    """One workspace, with the lock of the thread that uses it."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.workspace: Workspace | None = None
        self.basis = Basis()
        self.failed: BaseException | None = None
        self.used_s = 0.0
        self.is_fresh = False
        self.witness: Witness | None = None

    @property
    def is_current(self) -> bool:
        """Whether the open workspace is still the one on disk. Reads what others have written to its journal."""
        if self.workspace is None or places_of(self.workspace) != self.basis.places:
            return False
        try:
            _ = self.workspace.history
        except TakebackError:
            return False  # opening it again reports what is wrong, if it still is
        return basis_of(self.workspace) == self.basis

    def close(self) -> None:
        workspace, self.workspace = self.workspace, None
        if workspace is not None:
            workspace.close()
            del workspace
            gc.unfreeze()
            gc.collect()


class Pool:
    """The open workspaces. Those unused for long are closed, and the least recently used if there are too many."""

    def __init__(
        self, opened: Callable[[Path], Workspace], *, open_max: int = OPEN_MAX, wait_s: float = TURN_WAIT_S
    ) -> None:
        self._opened = opened
        self._open_max = open_max
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._warm: dict[Path, Warm] = {}

    @contextmanager
    def workspace(self, root: Path, waiting: Callable[[], bool] = lambda: True) -> Iterator[Workspace]:
        """Lend this workspace to this thread alone.

        Opening it, with a first look at everything, may take long. Then it is still opened, and the caller gets an
        error that says to try again. Nothing is done for a caller that no longer waits.
        """
        warm = self._ready(root, time.monotonic() + self._wait_s)
        try:
            if not waiting():
                raise RunBusy("the caller has gone away; nothing was recorded")
            assert warm.workspace is not None
            if warm.is_fresh:
                # A process may have been killed before it told what waits. Here, since this thread has the
                # caller's variables.
                warm.is_fresh = False
                warm.workspace.known.begin_telling()
            yield warm.workspace
            warm.basis = basis_of(warm.workspace)
        except BaseException as error:
            if not isinstance(error.__cause__ or error, (UsageError, ConflictError)):
                # Opened again the next time: it may have seen an incomplete change.
                warm.close()
            raise
        finally:
            warm.used_s = time.monotonic()
            warm.turn.release()
            self._close_some()

    def _ready(self, root: Path, deadline: float) -> Warm:
        """Return an open workspace, with its turn acquired."""
        while True:
            warm = self._turn_of(root, deadline)
            try:
                if warm.is_current:
                    return warm
                failed, warm.failed = warm.failed, None
                if failed is not None:
                    raise failed
                # The turn passes to that thread, which releases it.
                threading.Thread(target=self._warm_up, args=(root, warm), daemon=True).start()
            except BaseException:
                warm.turn.release()
                raise

    def _warm_up(self, root: Path, warm: Warm) -> None:
        try:
            warm.close()
            if warm.witness:
                lost_history.recall(warm.witness)  # so that a removed history is noticed, even with its note
            workspace = warm.workspace = self._opened(root)
            warm.is_fresh = True
            warm.witness = lost_history.known_of(workspace.state)
            workspace.look()
            warm.basis = basis_of(workspace)
            # The data of a large tree stays. Otherwise the collector would go through it again and again.
            gc.collect()
            gc.freeze()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            warm.failed = error
            warm.close()
        finally:
            warm.turn.release()

    def _turn_of(self, root: Path, deadline: float) -> Warm:
        while True:
            with self._lock:
                warm = self._warm.setdefault(root, Warm())
            if not warm.turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise RunBusy(
                    f"Takeback is still busy with {root}, perhaps with its first look at all files; "
                    "this was not recorded",
                    hint="it continues in the background: try again in a moment",
                )
            with self._lock:
                if self._warm.get(root) is warm:
                    return warm
            # It was closed while we waited.
            warm.turn.release()

    def open(self) -> dict[Path, str]:
        """Return the open workspaces, each with the evidence of its last look."""
        with self._lock:
            found = {root: warm.workspace for root, warm in self._warm.items() if warm.workspace}
        return {root: _proof(workspace) for root, workspace in found.items()}

    def close(self) -> None:
        """Close all workspaces, each when its turn is over."""
        with self._lock:
            every = list(self._warm.values())
            self._warm.clear()
        for warm in every:
            with warm.turn:
                warm.close()

    def _close_some(self) -> None:
        with self._lock:
            least_used = sorted(self._warm.items(), key=lambda pair: pair[1].used_s)
            since = time.monotonic() - UNUSED_S
            unused = sum(warm.used_s < since for _, warm in least_used[:-1])
            surplus = least_used[: max(unused, len(least_used) - self._open_max)]
            for root, warm in surplus:
                if warm.turn.acquire(blocking=False):
                    try:
                        warm.close()
                        del self._warm[root]
                    finally:
                        warm.turn.release()


def _proof(workspace: Workspace) -> str:
    mark = workspace.known_history.marks.get("files")
    return mark.evidence if mark else ""
