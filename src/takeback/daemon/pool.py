"""Workspaces that stay open from one event to the next, each used by one thread at a time."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import ConflictError, RunBusy, TakebackError, UsageError
from takeback.settings import toml
from takeback.storage.state import acceptance, location
from takeback.storage.state.witness import Witness
from takeback.workspace import lost_history
from takeback.workspace.store.journal import JOURNAL
from takeback.workspace.trusted_settings import CONFIG
from takeback.workspace.workspace import Workspace

OPEN_MAX = 8
TURN_WAIT_S = 30.0
UNUSED_S = 600.0

Stand = tuple[tuple[tuple[int, ...], ...], str | None, int]


class Warm:
    """One workspace, with its turn."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.workspace: Workspace | None = None
        self.stand: Stand = ((), None, 0)
        self.failed: BaseException | None = None
        self.used_s = 0.0
        self.witness: Witness | None = None

    @property
    def is_current(self) -> bool:
        """Whether what is open is still what lies there; what others wrote to its journal is read for that."""
        if self.workspace is None or places_of(self.workspace) != self.stand[0]:
            return False
        try:
            self.workspace.parts.ledger.refresh()
        except TakebackError:
            return False  # opened anew, it tells what is wrong, if it still is
        return stand_of(self.workspace) == self.stand

    def close(self) -> None:
        workspace, self.workspace = self.workspace, None
        if workspace is not None:
            workspace.close()
            del workspace
            gc.unfreeze()
            gc.collect()


class Pool:
    """The open workspaces. Where there are too many, or others are in use, what was not used for long is closed."""

    def __init__(
        self, opened: Callable[[Path], Workspace], *, open_max: int = OPEN_MAX, wait_s: float = TURN_WAIT_S
    ) -> None:
        self._opened = opened
        self._open_max = open_max
        self._wait_s = wait_s
        self._guard = threading.Lock()
        self._warm: dict[Path, Warm] = {}

    @contextmanager
    def workspace(self, root: Path, waiting: Callable[[], bool] = lambda: True) -> Iterator[Workspace]:
        """This workspace, for this thread alone.

        Opening it, with a look at all of it, may take long. It is then opened all the same, and whoever asked is
        told to come again. Nothing is done for somebody who is not waiting any more.
        """
        warm = self._ready(root, time.monotonic() + self._wait_s)
        try:
            if not waiting():
                raise RunBusy("whoever asked has gone away; nothing was recorded")
            assert warm.workspace is not None
            yield warm.workspace
            warm.stand = stand_of(warm.workspace)
        except BaseException as error:
            if not isinstance(error.__cause__ or error, (UsageError, ConflictError)):
                # Opened anew the next time: it may have seen half of something.
                warm.close()
            raise
        finally:
            warm.used_s = time.monotonic()
            warm.turn.release()
            self._close_some()

    def _ready(self, root: Path, deadline: float) -> Warm:
        """The turn at an open workspace."""
        while True:
            warm = self._turn_of(root, deadline)
            try:
                if warm.is_current:
                    return warm
                failed, warm.failed = warm.failed, None
                if failed is not None:
                    raise failed
                # The turn goes to that thread, which ends it.
                threading.Thread(target=self._warm_up, args=(root, warm), daemon=True).start()
            except BaseException:
                warm.turn.release()
                raise

    def _warm_up(self, root: Path, warm: Warm) -> None:
        try:
            warm.close()
            if warm.witness:
                lost_history.recall(warm.witness)  # what was open here before is missed, whoever removed it
            workspace = warm.workspace = self._opened(root)
            warm.witness = lost_history.known_of(workspace.state)
            with workspace.lock.held():
                workspace.parts.tracker.marks()
            warm.stand = stand_of(workspace)
            # What is known of a large tree stays. The collector would go through all of it again and again.
            gc.collect()
            gc.freeze()
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            warm.failed = error
            warm.close()
        finally:
            warm.turn.release()

    def _turn_of(self, root: Path, deadline: float) -> Warm:
        while True:
            with self._guard:
                warm = self._warm.setdefault(root, Warm())
            if not warm.turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise RunBusy(
                    f"Takeback is still busy with {root}, perhaps with its first look at all of it; "
                    "this was not recorded",
                    hint="it goes on meanwhile: try again in a moment",
                )
            with self._guard:
                if self._warm.get(root) is warm:
                    return warm
            # It was closed while we waited.
            warm.turn.release()

    def open(self) -> dict[Path, str]:
        """The workspaces that are open, each with how its last look was proved."""
        with self._guard:
            found = {root: warm.workspace for root, warm in self._warm.items() if warm.workspace}
        return {root: _proof(workspace) for root, workspace in found.items()}

    def close(self) -> None:
        """Close all, each when its turn is over."""
        with self._guard:
            every = list(self._warm.values())
            self._warm.clear()
        for warm in every:
            with warm.turn:
                warm.close()

    def _close_some(self) -> None:
        with self._guard:
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


def stand_of(workspace: Workspace) -> Stand:
    """What an open workspace rests on: these very folders, this journal, these settings, accepted or not."""
    history = workspace.parts.ledger.history
    untrusted = history.untrusted_since(CONFIG, beside=True)
    return (places_of(workspace), history.accepted.get(toml.FILE), untrusted.seq if untrusted else 0)


def places_of(workspace: Workspace) -> tuple[tuple[int, ...], ...]:
    return (
        _number(workspace.root),
        _number(workspace.state / JOURNAL),
        _number(workspace.state / location.FILE),
        _number(workspace.state / acceptance.FILE),
        _number(workspace.root / toml.FILE, content=True),
    )


def _number(path: Path, *, content: bool = False) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    which = (found.st_dev, found.st_ino)
    return (*which, found.st_mtime_ns, found.st_ctime_ns, found.st_size) if content else which


def _proof(workspace: Workspace) -> str:
    mark = workspace.parts.ledger.history.marks.get("files")
    return mark.evidence if mark else ""
