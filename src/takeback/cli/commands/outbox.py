"""`takeback outbox …`."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.render.intents import ON_THE_WAY, intent_data, rows
from takeback.cli.render.worker import WorkerWords, tally_line, waited_for
from takeback.cli.text import plural
from takeback.core.intents import IntentState
from takeback.errors import BackendError, UsageError
from takeback.workspace.notices.notifier import check_notifier

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace

AWAY_S = 1.0
"""The pause between two attempts to reach a store that is away when a worker starts."""
PAGE = 1000
SHOWN = 50


@click.group("outbox", cls=TakebackGroup)
def command() -> None:
    """List messages that wait to be sent, or start a worker that sends them

    A run can defer a message, such as an HTTP request or an email, until it has committed. Then a worker
    delivers it. Until then it is an intent, which an undo cancels.
    """


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also list what was delivered, cancelled or dropped")
@click.option("--run", default="", metavar="RUN", help="List only what this run has deferred")
@click.pass_obj
def list_(session: CommandContext, everything: bool, run: str) -> None:
    """List what is still to be delivered, and what failed for good"""
    states = tuple(IntentState) if everything else ON_THE_WAY
    with session.workspace() as workspace:
        if run and run not in workspace.history.runs:
            raise UsageError(f"there is no run {run}", hint="`takeback log` lists them")
        counts = workspace.outbox.counts()
        found = list(workspace.outbox.page(states, limit=PAGE if session.json else SHOWN, run=run))
        while session.json and found and len(found) % PAGE == 0:
            more = workspace.outbox.page(states, after=found[-1].id, limit=PAGE, run=run)
            if not more:
                break
            found += more
    if session.json:
        counted = {state.value: count for state, count in counts.items()}
        return session.data({"intents": [intent_data(queued) for queued in found], "counts": counted})
    if not found:
        return session.line("Nothing waits to be delivered.")
    for line in rows(found):
        session.line(line)
    every = sum(count for state, count in counts.items() if state in states)
    if not run and every > len(found):
        session.line(f" … {plural(every - len(found), 'more intent')}; --json lists all")


@command.command("worker")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    metavar="N",
    default=4,
    show_default=True,
    help="How many deliveries to make at a time",
)
@click.option("--once", is_flag=True, help="Deliver what is due now, and exit")
@click.option(
    "--notify",
    multiple=True,
    metavar="HOW",
    help="Report what waits for you, such as dead letters, to command:COMMAND, webhook:URL, desktop or apprise:URL; "
    "may be repeated",
)
@click.option(
    "--health",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the state of the worker in this JSON file, for health checks",
)
@click.pass_obj
def worker(
    session: CommandContext, concurrency: int, once: bool, notify: tuple[str, ...], health: Path | None
) -> None:
    """Deliver what committed runs have deferred

    Any number of workers may run at once. SIGTERM or Ctrl-C stops a worker after its current deliveries: nothing is
    lost, and other workers deliver the rest. Dead letters, and what else waits for you, are also reported to the
    notifiers in takeback.toml and of `takeback monitor`.
    """
    chosen = [check_notifier(text) for text in notify]
    words = WorkerWords(quiet=session.json, progress=session.progress.wanted)
    with _opened(session, patient=not once) as workspace:
        service = workspace.courier(concurrency=concurrency, notify=chosen, health=health, listener=words)
        service.check()

        def stop(_number: int, _frame: FrameType | None) -> None:
            service.stop.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            tally = service.run(once=once)
        finally:
            words.end()
            for number, handler in before.items():
                signal.signal(number, handler)
    if session.json:
        return session.data({**msgspec.to_builtins(tally), "not_told": service.failures})
    session.line(tally_line(tally))


def _opened(session: CommandContext, *, patient: bool) -> Workspace:
    """Return the workspace. With `patient`, wait for a store that is away at the start, as later on."""
    is_said = False
    while True:
        try:
            return session.workspace()
        except BackendError as error:
            if not patient or not error.retryable:
                raise
            if not is_said:
                click.echo(waited_for(error), err=True)
            is_said = True
        time.sleep(AWAY_S)
