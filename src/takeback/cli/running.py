"""What the commands share that run a command of the user: `run`, `try` and `stage run`."""

from __future__ import annotations

from typing import Any

import click

from takeback.cli import consent
from takeback.cli.context import CommandContext, FailedWith, TakebackCommand
from takeback.core.codec import printable
from takeback.core.events import Process
from takeback.core.policy import Decision
from takeback.daemon import client, control
from takeback.errors import RefusedByRule, TakebackError
from takeback.settings import environment
from takeback.workspace.results import CommandPlan

FAILED_BEFORE_START = 125


class RunningCommand(TakebackCommand):
    """A command line in which everything after the first word of the user's command belongs to that command."""

    allow_interspersed_args = False

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RefusedByRule:
            raise
        except TakebackError as error:
            # Any error here came before the command began: once it runs, its own exit code counts.
            raise FailedWith(FAILED_BEFORE_START, error) from error


def ask(session: CommandContext, plan: CommandPlan, ruling: Decision) -> bool | None:
    """Ask about a command that a rule holds. Return None if nobody can be asked."""
    if session.json or not consent.is_terminal() or session.is_inside():
        return None
    click.echo(f"takeback: {printable(ruling.why)}", err=True)
    return click.confirm(f"{printable(plan.name)}: Run it?", default=False, err=True)


def is_daemon(process: Process) -> bool:
    """Return True for the daemon: it serves everyone, whichever hook has started it."""
    return process.pid == control.holder(environment.state_home()) and client.is_daemon(process.pid)
