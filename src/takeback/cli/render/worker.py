"""What a worker says while it works: on a terminal, in its health file, and to whoever wants to hear of the dead."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext
from takeback.cli.text import iso, plural
from takeback.cli.webhooks import BEAT_S, Teller
from takeback.core.intents import AttemptOutcome, IntentDied
from takeback.engine.outbox.metrics import Instruments
from takeback.engine.outbox.worker import AWAY_S, Tally
from takeback.errors import BackendError
from takeback.workflows.monitor import Monitor
from takeback.workspace.workspace import Workspace


class Watching:
    """Follows one worker."""

    def __init__(
        self, session: CommandContext, workspace: Workspace, notifiers: list[str], health: Path | None
    ) -> None:
        self._session = session
        self._workspace = workspace
        self._health = health
        self._said = 0.0
        self._is_away = False
        self._instruments = Instruments(workspace.outbox)
        self._teller = Teller(workspace, notifiers)

    def told(self, outcome: AttemptOutcome) -> None:
        """One outcome was recorded."""
        self._instruments.count(outcome)
        word, about = outcome.word, outcome.queued.deferred.about
        if not isinstance(word, IntentDied):
            return
        message = f"{self._workspace.root}: {outcome.queued.id}, {about}, failed for good: {word.why}"
        if not self._session.json:
            click.echo(f"takeback: {outcome.queued.id}, {about}, is a dead letter: {word.why}", err=True)
        found = [{"intent": outcome.queued.id, "run": outcome.queued.run, "what": about, "why": word.why}]
        self._teller.letter(message, found)

    def beat(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self._said < BEAT_S and not self._is_away:
            return
        counts = self._workspace.outbox.counts() if self._health else {}
        self._said = now
        if self._is_away:
            self._is_away = False
            click.echo("takeback: the store is back", err=True)
        self._write_health(tally, "running", counts={state.value: n for state, n in counts.items()})
        if self._session.progress.wanted:
            sys.stderr.write(f"\r\x1b[K{self.line(tally)} ")
            sys.stderr.flush()

    def away(self, tally: Tally, error: BackendError) -> None:
        """The store cannot be reached. It is waited for, and that is said once."""
        if not self._is_away:
            self._is_away = True
            click.echo(f"takeback: {error.message}. It is waited for", err=True)
        self._write_health(tally, "store-away", why=error.message)

    def end(self, *, wait: bool) -> None:
        """With `wait` everything is told that is to be told."""
        self._teller.close(wait=wait)
        if self._session.progress.wanted:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        if self._health:
            self._health.unlink(missing_ok=True)

    def line(self, tally: Tally) -> str:
        text = f"Delivered {tally.delivered:,}"
        text += f", {plural(tally.failed, 'attempt')} failed" if tally.failed else ""
        text += f", {plural(tally.dead, 'dead letter')}: `takeback dead list`" if tally.dead else ""
        return f"{text}."

    def data(self, tally: Tally) -> dict[str, Any]:
        return {**msgspec.to_builtins(tally), "not_told": self._teller.failures}

    def _write_health(self, tally: Tally, state: str, **more: Any) -> None:
        if not self._health:
            return
        at = iso(time.time_ns() // 1000)
        body = {"pid": os.getpid(), "state": state, "at": at, **more, **msgspec.to_builtins(tally)}
        fresh = self._health.with_name(f".{self._health.name}.{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.encode(body))
            fresh.replace(self._health)
        except OSError as error:
            raise BackendError(f"{self._health} cannot be written: {error.strerror}") from error


def opened(session: CommandContext, *, patient: bool) -> Workspace:
    """The workspace. Where a worker is `patient`, a store that is away at its start is waited for, as later on."""
    is_said = False
    while True:
        try:
            return session.workspace()
        except BackendError as error:
            if not patient or not error.retryable:
                raise
            if not is_said:
                click.echo(f"takeback: {error.message}. It is waited for", err=True)
            is_said = True
        time.sleep(AWAY_S)


def notifiers_of(workspace: Workspace) -> list[str]:
    """Those that the monitor of this workspace tells."""
    monitor = Monitor(workspace.root, workspace.state.parent.parent / "monitor" / workspace.state.name)
    found: list[str] = monitor.settings()["notify"]
    return found
