"""Waiting for the end of what calls left in the background, so that what changes after it is known as the human's."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from takeback.errors import TakebackError
from takeback.settings import environment
from takeback.workspace.workspace import Workspace

FIRST_S = 0.05
LONGEST_S = 5.0
_log = logging.getLogger("takeback.watch")


class Watch:
    """One thread for each workspace in which something goes on in the background."""

    def __init__(self, home: Path, using: Callable[[Path], AbstractContextManager[Workspace]]) -> None:
        """`using` gives a workspace for as long as a look takes."""
        self._home = home
        self._using = using
        self._guard = threading.Lock()
        self._watched: set[Path] = set()

    def follow(self, workspace: Workspace) -> None:
        """Look again when what goes on in this workspace has ended."""
        living = workspace.parts.tracker.in_background()
        with self._guard:
            if not living or workspace.root in self._watched:
                return
            self._watched.add(workspace.root)
        threading.Thread(target=self._wait, args=(workspace.root, living), daemon=True).start()

    def _wait(self, root: Path, living: list[int]) -> None:
        pause_s = FIRST_S
        try:
            while living:
                _until_one_ends(living, LONGEST_S)
                with (
                    environment.calling({"TAKEBACK_HOME": str(self._home)}, "/"),
                    self._using(root) as workspace,
                ):
                    with workspace.lock.held():
                        workspace.parts.ledger.refresh()
                        workspace.parts.tracker.end_gone()
                    living = workspace.parts.tracker.in_background()
                    with self._guard:
                        if not living:
                            self._watched.discard(root)
                # A loop that starts a process each moment must not cost a look each moment.
                time.sleep(pause_s if living else 0)
                pause_s = min(2 * pause_s, LONGEST_S)
        except TakebackError as error:
            _log.info("what goes on in %s is not watched: %s", root, error)
        finally:
            with self._guard:
                self._watched.discard(root)


def _until_one_ends(pids: Iterable[int], wait_s: float) -> None:
    poll, opened = select.poll(), []
    try:
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                return  # it has ended already
            opened.append(fd)
            poll.register(fd, select.POLLIN)
        poll.poll(wait_s * 1000)
    finally:
        for fd in opened:
            os.close(fd)
