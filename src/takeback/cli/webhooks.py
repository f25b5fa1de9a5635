"""What a worker tells others, beside its deliveries: webhooks of every event, notifiers of each dead letter.

In a thread of its own: a receiver that hangs holds up no delivery.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

import click

from takeback.errors import BackendError, TakebackError
from takeback.workflows.notify import send
from takeback.workspace.workspace import Workspace

BEAT_S = 1.0
LAST_S = 5.0
"""How long the end of a worker waits for what is just being told. What was not told is told by the next one."""


class Teller:
    """Tells until it is closed; everything once at least."""

    def __init__(self, workspace: Workspace, notifiers: list[str]) -> None:
        self.failures: list[str] = []
        """What did not get through, in words."""
        self._workspace = workspace
        self._notifiers = notifiers
        self._letters: queue.SimpleQueue[tuple[str, list[Any]]] = queue.SimpleQueue()
        self._over = threading.Event()
        self._is_left = False
        self._thread = threading.Thread(target=self._run, name="takeback-teller", daemon=True)
        self._thread.start()

    def letter(self, message: str, found: list[Any]) -> None:
        """Tell the notifiers of a dead letter."""
        self._letters.put((message, found))

    def close(self, *, wait: bool) -> None:
        """Tell the rest; with `wait` all of it, else what can be told soon."""
        self._over.set()
        self._thread.join(None if wait else LAST_S)
        self._is_left = True  # what it meets in a workspace that is closed is no failure

    def _run(self) -> None:
        self._tell()
        while not self._over.wait(BEAT_S):
            self._tell()
        self._tell()

    def _tell(self) -> None:
        while not self._letters.empty():
            self._notify(*self._letters.get())
        try:
            for failed in self._workspace.parts.audit.pump():
                self._failed(failed)
        except BackendError as error:
            # Of a store that is away the courier tells. Nothing is lost: the journal is the queue.
            if not error.retryable:
                self._failed(error.message)
        except TakebackError as error:
            self._failed(error.message)
        except OSError as error:
            self._failed(f"how far the webhooks are told cannot be noted: {error.strerror}")

    def _notify(self, message: str, found: list[Any]) -> None:
        for notifier in self._notifiers:
            try:
                send(notifier, message, found)
            except BackendError as error:
                # It stays in the list of dead letters; only this way of telling it failed.
                self._failed(error.message)

    def _failed(self, why: str) -> None:
        if not self._is_left and why not in self.failures[-1:]:
            self.failures.append(why)
            click.echo(f"takeback: {why}", err=True)
