"""Waiting for background processes of calls to end, so that changes after that are attributed to the human."""

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
    """One thread for each workspace with processes in the background."""

    def __init__(self, home: Path, using: Callable[[Path], AbstractContextManager[Workspace]]) -> None:
        """`using` returns a workspace for the time of one look."""
        self._home = home
        self._using = using
        self._lock = threading.Lock()
        self._watched: set[Path] = set()

    def follow(self, workspace: Workspace) -> None:
        """Look again when the background processes in this workspace have ended."""
        living = workspace.in_background()
        with self._lock:
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
                    workspace.end_gone()
                    living = workspace.in_background()
                    with self._lock:
                        if not living:
                            self._watched.discard(root)
                # A loop that keeps starting processes must not cause a look for each of them.
                time.sleep(pause_s if living else 0)
                pause_s = min(2 * pause_s, LONGEST_S)
        except TakebackError as error:
            _log.info("background processes in %s are not watched: %s", root, error)
        finally:
            with self._lock:
                self._watched.discard(root)


def _until_one_ends(pids: Iterable[int], wait_s: float) -> None:
    """Wait until one of these processes has ended, or for so long."""
    poll, opened = select.poll(), []
    try:
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                return  # it has already ended
            opened.append(fd)
            poll.register(fd, select.POLLIN)
        poll.poll(wait_s * 1000)
    finally:
        for fd in opened:
            os.close(fd)
