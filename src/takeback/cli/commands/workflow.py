"""`takeback workflow …`."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from takeback.cli.context import CommandContext, TakebackCommand, TakebackGroup
from takeback.cli.scheduling import (
    SCHEDULERS,
    absolute,
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
from takeback.errors import RefusedError, UsageError
from takeback.settings import environment
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.lines import log_line
from takeback.workflows.owners import in_words
from takeback.workflows.record import STATUSES
from takeback.workflows.script import NOTHING, list_lines, meant, owner, pretty, printable, skipped_line
from takeback.workflows.stale import report_data, report_lines, stale
from takeback.workspace.locate import find_root

if TYPE_CHECKING:
    from takeback.workflows.schedules import Schedule

CHILD_FAILED = 4
FIRST_MIN = 1
"""Minutes after the machine's start until work continues."""


class StartCommand(TakebackCommand):
    """A command whose `--remaining` takes every word up to the next option, as in the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, taking = [], False
        for word in args:
            taking = word == "--remaining" or (taking and not word.startswith("-"))
            if taking and word != "--remaining":
                words.append("--remaining")
            if word != "--remaining":
                words.append(word)
        return super().parse_args(ctx, words)


class WakeCommand(TakebackCommand):
    """A command line in which everything after the first word of the user's command belongs to that command."""

    allow_interspersed_args = False


_id = click.option("--workflow", "id", metavar="ID", help="The workflow, if several are unfinished")
_owner = click.option(
    "--owner-pid",
    type=int,
    metavar="PID",
    help="The process that does the work and holds the lock; it must be running",
)


def _checkpoints() -> Checkpoints:
    return Checkpoints(str(find_root()))


def _show(session: CommandContext, record: dict[str, Any]) -> None:
    if session.json:
        return session.data({"checkpoint": record})
    session.line(pretty(record))


def _warn(text: str) -> None:
    click.echo(printable(text), err=True)


@click.group("workflow", cls=TakebackGroup)
def command() -> None:
    """Keep multi-step work safe across restarts

    A workflow is one JSON file in memory/checkpoints: what is done, what remains, and who works on it. It is written
    after each step. After a restart, `resume` hands it to exactly one agent, which continues after the last step.
    """


@command.command("init", cls=TakebackCommand)
@click.option("--remove", is_flag=True, help="Remove the section")
@click.pass_obj
def init(session: CommandContext, remove: bool) -> None:
    """Tell agents about workflows, in AGENTS.md and CLAUDE.md

    Writes a section on what to do at startup into AGENTS.md, and into CLAUDE.md if it exists. All other text stays as
    it is, and a second call changes nothing. The change is recorded as an action, which only `takeback undo ID` takes
    back.
    """
    # Imported here, because all other commands of this group work on one small file and load little.
    from takeback.agents.agents_md import FILES, leading_out, remove_section, section_files, write_section
    from takeback.cli.beginning import first_checkpoint

    name = f"takeback workflow init{' --remove' * remove}"
    done, action = "removed" if remove else "written", ""
    root = find_root()
    out = {} if remove else leading_out(root)
    links = [f"{name} leads to {real}, which is not in this project" for name, real in out.items()]
    first, second = FILES
    if first in out and (second in out or not (root / second).exists()):
        raise RefusedError(
            f"{'; '.join(links)}; nothing was written",
            hint="replace the link with a file, and run this again",
        )
    if files := section_files(root, remove=remove):
        with session.protect() as workspace:
            if not workspace.history.marks:
                first_checkpoint(session, workspace, f"before {name}")
            with workspace.writing(name) as action:
                files = (remove_section if remove else write_section)(root)
    if session.json:
        led = {"lead_out": sorted(out)} if out else {}
        return session.data({"root": str(root), done: files, "action": action or None, **led})
    for link in links:
        session.line(f"{link}: nothing was written there.")
    if not files:
        return session.line("There was no section." if remove else "The section is already there.")
    where = " and ".join(files)
    said = f"Removed the section from {where}." if remove else f"Wrote the section on workflows into {where}."
    session.line(said)
    session.line(f"  take that back   takeback undo {action}")


@command.command("start", cls=StartCommand)
@click.option("--workflow", "id", required=True, metavar="ID", help="The workflow")
@click.option("--agent", metavar="NAME", help="The agent that does the work (default: from the environment)")
@click.option("--step", help="The first step (default: the first remaining one)")
@click.option("--idempotency", metavar="KEY", help="The key of this piece of work (default: the id)")
@click.option("--remaining", multiple=True, metavar="STEP...", help="The steps after it, in their order")
@click.option("--handoff", metavar="AGENT", help="The agent that should continue it")
@click.option("--notes", default="", help="Notes for the person or agent that continues; no secrets")
@click.option(
    "--ttl-days",
    type=float,
    metavar="DAYS",
    default=7,
    show_default=True,
    help="Let it expire after this many days without an update",
)
@click.option("--per-agent", is_flag=True, help="Keep it in agents/NAME/memory/checkpoints")
@click.option("--force", is_flag=True, help="Set aside an older workflow with this id, and start over")
@click.option(
    "--owner-pid",
    type=int,
    metavar="PID",
    help="The process that does the work (default: the parent); 0 for none",
)
@click.pass_obj
def start(
    session: CommandContext,
    /,
    id: str,
    idempotency: str | None,
    remaining: tuple[str, ...],
    owner_pid: int | None,
    **rest: Any,
) -> None:
    """Start a workflow, or show it if it was started before, and take its lock

    If a workflow with this id and key exists, it is printed as it is. The same id with another key is refused.
    """
    with _checkpoints() as checkpoints:
        record = checkpoints.start(
            id, key=idempotency, remaining=list(remaining), owner_pid=owner(owner_pid) or None, **rest
        )
        _show(session, record)


@command.command("update", cls=TakebackCommand)
@_id
@click.option("--step", metavar="NEXT", help="The next step")
@click.option("--complete", metavar="STEP", help="The step that is done; repeating it changes nothing")
@click.option("--status", type=click.Choice(STATUSES), help="The new status")
@click.option("--notes", help="Notes for the person or agent that continues; no secrets")
@_owner
@click.pass_obj
def update(session: CommandContext, /, id: str | None, owner_pid: int | None, **rest: Any) -> None:
    """Record the progress of a workflow, and renew its lock

    Without --workflow, this updates the workflow of this session, or the only unfinished one.
    """
    with _checkpoints() as checkpoints:
        chosen = meant(checkpoints, id, owner_pid)
        _show(session, checkpoints.update(chosen, owner_pid=owner_pid, **rest))


@command.command("resume", cls=TakebackCommand)
@click.option("--workflow", "id", metavar="ID", help="Resume only this workflow")
@click.option("--agent", metavar="NAME", help="Only workflows of this agent, or that were handed to it")
@click.option(
    "--owner-pid", type=int, metavar="PID", help="The process that continues it (default: the parent)"
)
@click.option(
    "--steal-lock", is_flag=True, help="Take a workflow even from a running process, if none is free"
)
@click.pass_obj
def resume(
    session: CommandContext, id: str | None, agent: str | None, owner_pid: int | None, steal_lock: bool
) -> None:
    """Take over an unfinished workflow that no process holds

    Prints the checkpoint, or NO_CHECKPOINT. Schema and hash are verified; a bad file is reported and skipped.
    """
    with _checkpoints() as checkpoints:
        found = checkpoints.resume(
            id, agent=agent, owner_pid=owner(owner_pid), steal=steal_lock, again=True, skipped=_warn
        )
    if session.json:
        return session.data({"checkpoint": found[0] if found else None})
    session.line(pretty(found[0]) if found else NOTHING)


@command.command("complete", cls=TakebackCommand)
@_id
@_owner
@click.option(
    "--force", is_flag=True, help="Complete it even if steps were never done; they stay in the file"
)
@click.pass_obj
def complete(session: CommandContext, id: str | None, owner_pid: int | None, force: bool) -> None:
    """Mark a workflow as done, and release the lock

    If only the last step is left, this also completes that step. If other steps were never done, the command refuses.
    The file stays until it expires and is pruned, or until the monitor removes it; until then, `start` with the same
    key finds it.
    """
    with _checkpoints() as checkpoints:
        chosen = meant(checkpoints, id, owner_pid)
        record = checkpoints.complete(chosen, owner_pid=owner_pid, force=force)
    if line := skipped_line(record):
        _warn(line)
    _show(session, record)


@command.command("list", cls=TakebackCommand)
@click.pass_obj
def list_all(session: CommandContext) -> None:
    """List every workflow; an invalid file is shown as `INVALID name reason`"""
    with _checkpoints() as checkpoints:
        if session.json:
            entries = checkpoints.entries()
            return session.data(
                {
                    "workflows": [
                        {
                            **e.record,
                            "file": e.path,
                            "held": in_words(h) if (h := checkpoints.holder(e)) else None,
                        }
                        for e in entries
                        if e.record
                    ],
                    "invalid": [{"file": e.path, "reason": e.reason} for e in entries if e.record is None],
                }
            )
        for line in list_lines(checkpoints):
            session.line(printable(line))


@command.command("check", cls=TakebackCommand)
@click.option(
    "--stale-min",
    type=click.FloatRange(0),
    metavar="MINUTES",
    default=10,
    show_default=True,
    help="Report a workflow that has not been updated for this long",
)
@click.option("--log", metavar="FILE", help="Append the findings to this file, one line per check")
@click.pass_obj
@click.pass_context
def check(ctx: click.Context, session: CommandContext, stale_min: float, log: str | None) -> None:
    """Report unfinished workflows that are stale

    Prints OK and exits with 0, or ALERT and exits with 1.
    """
    with _checkpoints() as checkpoints:
        findings = stale(checkpoints, stale_min)
    data = report_data(findings, stale_min)
    if log:
        log_line(log, data)
    if session.json:
        session.data(data)
    else:
        session.line(printable("\n".join(report_lines(findings, stale_min))))
    ctx.exit(1 if findings else 0)


@command.command("prune", cls=TakebackCommand)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing")
@click.pass_obj
def prune(session: CommandContext, dry_run: bool) -> None:
    """Clean up expired workflows that no process holds

    Unfinished work is set aside for 30 more days before it is deleted. An unreadable file is never touched.
    """
    with _checkpoints() as checkpoints:
        items = checkpoints.prune(dry_run=dry_run)
    if session.json:
        return session.data(
            {"dry_run": dry_run, "items": [{"path": path, "did": did} for path, did in items]}
        )
    for path, did in items:
        session.line(printable(f"{'would be ' if dry_run else ''}{did}: {path}"))
    if not items:
        session.line("Nothing has expired.")


@command.command("wake", cls=WakeCommand)
@click.option("--agent", metavar="NAME", help="Only workflows of this agent, or that were handed to it")
@click.option(
    "--install", is_flag=True, help="Let the host's scheduler run it, after startup and every 10 minutes"
)
@click.option("--uninstall", is_flag=True, help="Remove it from the scheduler")
@scheduler_option
@every_option
@linger_option
@print_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
@click.pass_context
def wake(
    ctx: click.Context,
    session: CommandContext,
    /,
    agent: str | None,
    words: tuple[str, ...],
    install: bool,
    uninstall: bool,
    **how: Any,
) -> None:
    """Run a command once for each unfinished workflow that no process holds

    The command holds the lock while it runs; TAKEBACK_WORKFLOW has the workflow's id, and TAKEBACK_CHECKPOINT its
    file. Exits with 4 if one of the commands failed.
    """
    if uninstall:
        return _remove_wake(session)
    if not words:
        raise UsageError("wake needs a command; nothing was done", hint="takeback workflow wake -- COMMAND")
    if install:
        return _install_wake(session, agent, words, **how)
    from takeback.workflows.wake import wake as wake_all

    with _checkpoints() as checkpoints:
        done = wake_all(checkpoints, words, agent=agent, skipped=_warn)
    if session.json:
        ran = [{"workflow": id, "exit_code": code} for id, code in done]
        click.echo(json.dumps({"ran": ran}), err=True)
    elif not done:
        click.echo("No unfinished workflow is free.", err=True)
    else:
        for id, code in done:
            click.echo(f"{printable(id)}: exit code {code}", err=True)
    ctx.exit(CHILD_FAILED if any(code for _, code in done) else 0)


def _install_wake(
    session: CommandContext,
    agent: str | None,
    words: tuple[str, ...],
    scheduler: str,
    every_min: int,
    linger: bool,
    only_print: bool,
) -> None:
    kind = kind_of(scheduler)
    chosen = ["--agent", agent] if agent else []
    # The user's PATH is passed on, because a scheduler's own PATH is short.
    made = scheduled(
        "wake",
        kind,
        ["workflow", "wake", *chosen, "--", *absolute(words)],
        every_min,
        path=environment.search_path(),
        first_min=FIRST_MIN,
    )
    texts = texts_of(made)
    if not only_print:
        for before in _wakes():
            before.remove()
        made.install()
        if linger:
            made.linger()
    if session.json:
        shown = {"scheduler": kind, "installed": not only_print, "files": texts}
        return session.data(shown if only_print else {**shown, "lingers": made.lingers()})
    if only_print:
        return session.line("\n".join(f"# {path}\n{text}" for path, text in texts.items()))
    often = f"after the machine starts and every {plural(every_min, 'minute')}"
    session.line(f"{kind} runs {shlex.join(words)} for each workflow that no process holds, {often}.")
    session.line("  remove it  takeback workflow wake --uninstall")
    for line in lingering_lines(made, "takeback workflow wake --install"):
        session.line(line)


def _remove_wake(session: CommandContext) -> None:
    found = _wakes()
    for made in found:
        made.remove()
    kinds = [made.kind for made in found]
    if session.json:
        return session.data({"removed": bool(kinds), "scheduler": kinds[0] if kinds else None})
    session.line(f"Removed from {', '.join(kinds)}." if kinds else "It is not installed for this workspace.")


def _wakes() -> list[Schedule]:
    """Return the schedules that are installed, of any scheduler."""
    every = [scheduled("wake", kind, ["workflow", "wake"]) for kind in SCHEDULERS]
    return [made for made in every if made.is_usable() and made.is_installed()]
