"""`takeback monitor …`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from takeback import config
from takeback.cli.session import Session, TakebackCommand, TakebackGroup, plural
from takeback.opening import find_root
from takeback.storage.private import private_folder
from takeback.storage.registry import Registry
from takeback.workflows.monitor import LOG, Monitor
from takeback.workflows.notify import check_notifier, shown
from takeback.workflows.schedules import NAMES, Schedule, best_kind, schedule
from takeback.workflows.stale import report_data, report_lines
from takeback.workflows.tool import printable

NOT_TOLD = 4


@click.group("monitor", cls=TakebackGroup)
def command() -> None:
    """Watch for workflows that nobody works on any more

    The host's own scheduler looks every 10 minutes: no model, no tokens, no server. Each stale state is told once.
    """


@command.command("install", cls=TakebackCommand)
@click.option(
    "--scheduler",
    type=click.Choice(["auto", *NAMES]),
    default="auto",
    show_default=True,
    help="Who looks at the clock",
)
@click.option(
    "--every-min", type=click.IntRange(1, 59), default=10, show_default=True, help="Minutes between two looks"
)
@click.option(
    "--stale-min", type=click.FloatRange(0), default=10, show_default=True, help="Minutes without an update"
)
@click.option(
    "--notify",
    multiple=True,
    metavar="HOW",
    help="Also tell it: command:COMMAND, webhook:URL, desktop or apprise:URL; may be given more than once",
)
@click.option("--print", "only_print", is_flag=True, help="Show what would be installed, and install nothing")
@click.pass_obj
def install(
    session: Session,
    scheduler: str,
    every_min: int,
    stale_min: float,
    notify: tuple[str, ...],
    only_print: bool,
) -> None:
    """Let the host's scheduler look every 10 minutes

    A second time replaces the first. Alerts go into a log in Takeback's state folder, and to each --notify.
    """
    notifiers = [check_notifier(text) for text in notify]
    kind = best_kind() if scheduler == "auto" else scheduler
    monitor, made = _monitor(), _schedule(kind, every_min)
    texts = {str(path): data.decode() for path, data in made.files().items()}
    texts = texts or {"crontab": getattr(made, "lines", str)()}
    if not only_print:
        before = monitor.settings()["scheduler"]
        if before and before != kind:
            _schedule(before, every_min).remove()
        monitor.configure(
            {"scheduler": kind, "everyMin": every_min, "staleMin": stale_min, "notify": notifiers}
        )
        made.install()
    if session.json:
        return session.data({"scheduler": kind, "installed": not only_print, "files": texts})
    if only_print:
        return session.line("\n".join(f"# {path}\n{text}" for path, text in texts.items()))
    session.line(f"{kind} looks every {plural(every_min, 'minute')} for workflows in {monitor.root}.")
    session.line(f"  log          {monitor.state / LOG}")
    session.line("  look now     takeback monitor run")
    session.line("  take it out  takeback monitor remove")


@command.command("remove", cls=TakebackCommand)
@click.pass_obj
def remove(session: Session) -> None:
    """Take the monitor out of the scheduler; the log stays"""
    monitor = _monitor()
    kind = monitor.settings()["scheduler"]
    if kind:
        _schedule(kind).remove()
        monitor.forget()
    if session.json:
        return session.data({"removed": bool(kind), "scheduler": kind or None})
    session.line(f"Removed from {kind}." if kind else "No monitor is installed for this workspace.")


@command.command("status", cls=TakebackCommand)
@click.pass_obj
def status(session: Session) -> None:
    """Show whether the monitor is installed, and when it last looked"""
    monitor = _monitor()
    settings, last = monitor.settings(), monitor.last_look()
    kind = settings["scheduler"]
    there = bool(kind) and _schedule(kind, settings["everyMin"]).is_installed()
    if session.json:
        return session.data(
            {
                "installed": there,
                "scheduler": kind or None,
                "every_min": settings["everyMin"],
                "stale_min": settings["staleMin"],
                "notify": [shown(text) for text in settings["notify"]],
                "last": last,
                "log": str(monitor.state / LOG),
            }
        )
    if kind and not there:
        session.line(
            f"It was installed in {kind}, but is not there any more; `takeback monitor install` mends it."
        )
    elif kind:
        session.line(
            f"{kind} looks every {plural(settings['everyMin'], 'minute')} for workflows in {monitor.root}."
        )
        session.line(f"  alerts after {settings['staleMin']:g} min without an update")
        for text in settings["notify"]:
            session.line(f"  tells {shown(text)}")
    else:
        session.line("No monitor is installed for this workspace: `takeback monitor install` does it.")
    session.line(f"  last look    {last['at'] if last else 'never'}")
    session.line(f"  log          {monitor.state / LOG}")


@command.command("run", cls=TakebackCommand)
@click.pass_obj
@click.pass_context
def run(ctx: click.Context, session: Session) -> None:
    """Look once, and tell what is stale and was not told yet

    Exits with 0, or with 4 if somebody could not be told; that is tried again at the next look.
    """
    monitor = _monitor()
    findings, failures = monitor.run()
    stale_min = monitor.settings()["staleMin"]
    if session.json:
        session.data(report_data(findings, stale_min) | {"failures": failures})
    else:
        session.line(printable("\n".join(report_lines(findings, stale_min))))
        for failure in failures:
            click.echo(f"takeback: {failure}", err=True)
    ctx.exit(NOT_TOLD if failures else 0)


def _monitor() -> Monitor:
    registry = Registry(config.state_home())
    root = find_root(".", registry)
    return Monitor(root, private_folder(registry.home) / "monitor" / registry.state_of(root).name)


def _schedule(kind: str, every_min: int = 10) -> Schedule:
    registry = Registry(config.state_home())
    root = find_root(".", registry)
    # -P: a file in the workspace must not pose as a module of Python.
    program = [sys.executable, "-P", "-m", "takeback"]
    environment = [f"TAKEBACK_HOME={registry.home}"] if config.names_state_home() else []
    words = [*(["/usr/bin/env", *environment] if environment else []), *program]
    name = f"takeback-monitor-{registry.state_of(root).name}"
    words += ["-C", os.fspath(root), "monitor", "run"]
    return schedule(kind, name, words, every_min, Path.home())
