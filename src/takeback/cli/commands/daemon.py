"""`takeback daemon …`."""

from __future__ import annotations

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand, TakebackGroup
from takeback.cli.text import ago, iso, sized
from takeback.daemon import control, log
from takeback.daemon.wire import Status
from takeback.settings import environment


@click.group("daemon", cls=TakebackGroup)
def command() -> None:
    """Control the background process that answers agents' hooks quickly

    The daemon keeps workspaces open in memory. The first event of an agent starts it, and it ends half an hour after
    the last one. Nothing depends on it: without it everything works, only more slowly.
    """


@command.command("start", cls=TakebackCommand)
@click.pass_obj
def start(session: CommandContext) -> None:
    """Start the daemon now, unless it is running"""
    _show(session, control.start(environment.state_home()))


@command.command("stop", cls=TakebackCommand)
@click.pass_obj
def stop(session: CommandContext) -> None:
    """Let the daemon finish its current requests and stop; the next event starts a new one"""
    pid = control.stop(environment.state_home())
    if session.json:
        return session.data({"stopped": bool(pid), "pid": pid or None})
    session.line(f"Stopped process {pid}." if pid else "No daemon is running.")


@command.command("status", cls=TakebackCommand)
@click.pass_obj
def status(session: CommandContext) -> None:
    """Show whether the daemon is running, since when, and which workspaces it has open"""
    _show(session, control.status(environment.state_home()))


def _show(session: CommandContext, found: Status | None) -> None:
    place = environment.state_home() / log.FILE
    if session.json:
        body = msgspec.to_builtins(found) | {"since": iso(found.since_us)} if found else {}
        return session.data({"running": found is not None, "log": str(place)} | body)
    if found is None:
        return session.line("No daemon is running; the next event of an agent starts one.")
    session.line(f"Process {found.pid}, takeback {found.version}, started {ago(found.since_us)}.")
    session.line(f"  events       {found.events:,}")
    session.line(f"  memory       {sized(found.memory_bytes)}")
    for workspace in found.workspaces:
        proof = f", looked at by {workspace.proof}" if workspace.proof else ""
        session.line(f"  workspace    {workspace.root}{proof}")
    session.line(f"  log          {place}")
