"""`takeback monitor …`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand, TakebackGroup
from takeback.cli.scheduling import (
    every_option,
    kind_of,
    linger_option,
    lingering_lines,
    print_option,
    scheduled,
    scheduler_option,
    texts_of,
)
from takeback.cli.text import plural
from takeback.system.private_files import private_folder
from takeback.workflows.schedules import Schedule
from takeback.workflows.script import printable
from takeback.workflows.stale import report_data, report_lines
from takeback.workspace.locate import find_modules_at, find_root, registry_of_user
from takeback.workspace.notices import folder_of
from takeback.workspace.notices.monitor import KEEP_DAYS, Monitor
from takeback.workspace.notices.notifier import LOG, check_notifier, shown
from takeback.workspace.notices.waiting import Notice
from takeback.workspace.opening import find_workspace

NOT_SENT = 4


@click.group("monitor", cls=TakebackGroup)
def command() -> None:
    """Watch for work that nobody continues

    The host's own scheduler checks every 10 minutes; this needs no model, no tokens and no server. A workflow that
    becomes stale, a run that was interrupted, and whatever else waits for you is reported once. Workflows that
    ended more than a week ago are cleaned up.
    """


@command.command("install", cls=TakebackCommand)
@scheduler_option
@every_option
@click.option(
    "--stale-min",
    type=click.FloatRange(0),
    metavar="MINUTES",
    default=10,
    show_default=True,
    help="Report a workflow that has not been updated for this long",
)
@click.option(
    "--notify",
    multiple=True,
    metavar="HOW",
    help="Send alerts to command:COMMAND, webhook:URL, desktop or apprise:URL; may be repeated",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(0),
    metavar="DAYS",
    default=int(KEEP_DAYS),
    show_default=True,
    help="Clean up workflows this long after they were done, failed or expired",
)
@linger_option
@print_option
@click.pass_obj
def install(
    session: CommandContext,
    scheduler: str,
    every_min: int,
    stale_min: float,
    notify: tuple[str, ...],
    keep_days: float,
    linger: bool,
    only_print: bool,
) -> None:
    """Let the host's scheduler check every 10 minutes

    If the monitor is already installed, this replaces its settings. What is found goes to a log in Takeback's state
    folder, to [notify] in takeback.toml, and to each --notify.
    """
    notifiers = [check_notifier(text) for text in notify]
    kind = kind_of(scheduler)
    monitor, made = _monitor(), _schedule(kind, every_min)
    texts = texts_of(made)
    if not only_print:
        before = monitor.settings()["scheduler"]
        if before and before != kind:
            _schedule(before, every_min).remove()
        monitor.configure(
            {
                "scheduler": kind,
                "everyMin": every_min,
                "staleMin": stale_min,
                "notify": notifiers,
                "keepDays": keep_days,
            }
        )
        made.install()
        if linger:
            made.linger()
    if session.json:
        shown = {"scheduler": kind, "installed": not only_print, "files": texts}
        return session.data(shown if only_print else {**shown, "lingers": made.lingers()})
    if only_print:
        return session.line("\n".join(f"# {path}\n{text}" for path, text in texts.items()))
    session.line(f"{kind} checks the workflows in {monitor.root} every {plural(every_min, 'minute')}.")
    session.line(f"  log          {monitor.state / LOG}")
    session.line("  check now    takeback monitor run")
    session.line("  remove it    takeback monitor remove")
    for line in lingering_lines(made, "takeback monitor install"):
        session.line(line)


@command.command("remove", cls=TakebackCommand)
@click.pass_obj
def remove(session: CommandContext) -> None:
    """Remove the monitor from the scheduler; the log stays"""
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
def status(session: CommandContext) -> None:
    """Show whether the monitor is installed, and when it last checked"""
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
                "keep_days": settings["keepDays"],
                "notify": [shown(text) for text in settings["notify"]],
                "last": last,
                "log": str(monitor.state / LOG),
            }
        )
    if kind and not there:
        session.line(
            f"It was installed in {kind}, but is no longer there; `takeback monitor install` fixes that."
        )
    elif kind:
        session.line(
            f"{kind} checks the workflows in {monitor.root} every {plural(settings['everyMin'], 'minute')}."
        )
        session.line(f"  alerts after {settings['staleMin']:g} min without an update")
        session.line(f"  cleans up what has been over for {settings['keepDays']:g} days")
        for text in settings["notify"]:
            session.line(f"  alerts {shown(text)}")
    else:
        session.line("No monitor is installed for this workspace: `takeback monitor install` installs one.")
    session.line(f"  last check   {last['at'] if last else 'never'}")
    session.line(f"  log          {monitor.state / LOG}")


@command.command("run", cls=TakebackCommand)
@click.pass_obj
@click.pass_context
def run(ctx: click.Context, session: CommandContext) -> None:
    """Check once, and report what is stale or waits for you and was not reported yet

    Exits with 0, or with 4 if a notifier failed; that one is tried again at the next check.
    """
    monitor, workspace = _monitor(), find_workspace(".")
    waiting: list[Notice] = []
    if workspace is None:
        findings, failures = monitor.run()
    else:
        session.opened.append(workspace)
        find_modules_at(workspace.root)  # the checks of calls in doubt are functions of the project
        with workspace:
            findings, failures = monitor.run(workspace)
            waiting = list(workspace.notifier.waiting())
    stale_min = monitor.settings()["staleMin"]
    if session.json:
        found = [notice.data for notice in waiting]
        session.data(report_data(findings, stale_min) | {"failures": failures, "waiting": found})
    else:
        session.line(printable("\n".join(report_lines(findings, stale_min))))
        for notice in waiting:
            session.line(printable("\n".join(notice.lines)))
        for failure in failures:
            click.echo(f"takeback: {failure}", err=True)
    ctx.exit(NOT_SENT if failures else 0)


def _monitor() -> Monitor:
    registry = registry_of_user()
    root = find_root(".", registry)
    private_folder(registry.home)
    return Monitor(root, folder_of(registry.state_of(root)))


def _schedule(kind: str, every_min: int = 10) -> Schedule:
    return scheduled("monitor", kind, ["monitor", "run"], every_min)
