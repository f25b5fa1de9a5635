"""`takeback notify …`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.errors import UsageError
from takeback.settings import toml
from takeback.system import processes

NOT_SENT = 4


@click.group("notify", cls=TakebackGroup)
def command() -> None:
    """Test the notifiers that tell you what waits for you

    [notify] in takeback.toml names them. They are told once of each request for approval, each run that is handed
    over to you or was interrupted, and each message that could not be delivered.
    """


@command.command("test")
@click.pass_obj
@click.pass_context
def test(ctx: click.Context, session: CommandContext) -> None:
    """Send a test message to each notifier

    Exits with 0, or with 4 if a notifier could not be reached.
    """
    with session.workspace() as workspace:
        held = workspace.trusted.held
        found = workspace.notifier.test()
    if not found:
        ignored = [str(one) for one in held.pending if one.name.startswith("notify.")]
        raise UsageError(
            f"{' and '.join(ignored)} in {toml.FILE} was not accepted yet; nothing was sent"
            if ignored
            else "no notifier is configured; nothing was sent",
            hint="look at it, then `takeback init --accept-config`"
            if ignored
            else f'for example, in {toml.FILE}: [notify] to = ["desktop"]',
        )
    if session.json:
        session.data({"notifiers": [{"to": to, "reached": not why, "why": why} for to, why in found.items()]})
    else:
        for to, why in found.items():
            session.line(f"{to}: {why or 'reached'}")
    ctx.exit(NOT_SENT if any(found.values()) else 0)


@command.command("send", hidden=True)
@click.pass_obj
def send(session: CommandContext) -> None:
    """Tell the notifiers what waits for you and what they were not told yet

    Takeback starts this by itself, in a process of its own, when something begins to wait.
    """
    # It may have been started during an action, but is not a background process of it.
    processes.put_brand(processes.this_process(), processes.new_brand())
    with session.workspace() as workspace:
        failures = workspace.notifier.tell(wait=False)
    if session.json:
        return session.data({"failures": failures})
    for failure in failures:
        click.echo(f"takeback: {failure}", err=True)
