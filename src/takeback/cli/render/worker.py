"""A worker's messages on a terminal."""

from __future__ import annotations

import sys

import click

from takeback.cli.text import plural
from takeback.core.intents import AttemptOutcome, IntentDied
from takeback.errors import BackendError
from takeback.workspace.results import ServiceListener, Tally


class WorkerWords(ServiceListener):
    """The printer of one worker's reports; with `progress` it also shows the counts, on a line of its own."""

    def __init__(self, *, quiet: bool, progress: bool) -> None:
        self._is_quiet = quiet
        self._shows_progress = progress

    def told(self, outcome: AttemptOutcome) -> None:
        word, queued = outcome.word, outcome.queued
        if isinstance(word, IntentDied) and not self._is_quiet:
            about = queued.deferred.about
            click.echo(f"takeback: {queued.id}, {about}, is a dead letter: {word.why}", err=True)

    def beat(self, tally: Tally) -> None:
        self._show(f"{tally_line(tally)} ")

    def away(self, error: BackendError) -> None:
        click.echo(waited_for(error), err=True)

    def back(self) -> None:
        click.echo("takeback: the store is back", err=True)

    def failed(self, why: str) -> None:
        click.echo(f"takeback: {why}", err=True)

    def end(self) -> None:
        """Clear the line with the counts."""
        self._show("")

    def _show(self, text: str) -> None:
        if self._shows_progress:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def tally_line(tally: Tally) -> str:
    """Return a line with a worker's counts."""
    text = f"Delivered {tally.delivered:,}"
    text += f", {plural(tally.failed, 'attempt')} failed" if tally.failed else ""
    text += f", {plural(tally.dead, 'dead letter')}: `takeback dead list`" if tally.dead else ""
    return f"{text}."


def waited_for(error: BackendError) -> str:
    """Return a message that a worker waits for its store."""
    return f"takeback: {error.message}. Waiting for the store"
