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
"""So many minutes after a start of the machine, work goes on."""


class StartCommand(TakebackCommand):
    """`--remaining` takes every word up to the next option, as it does in the script."""

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
    """Everything after the first word of the command belongs to the command."""

    allow_interspersed_args = False


_id = click.option("--workflow", "id", metavar="ID", help="Which workflow, if several are unfinished")
_owner = click.option(
    "--owner-pid",
    type=int,
    metavar="PID",
    help="The process that does the work; it is checked, and holds the lock",
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
    """Keep work of several steps safe over restarts

    A workflow is one JSON file in memory/checkpoints: what is done, what remains, and who works on it. It is written
    after each step. After a restart, `resume` gives it to exactly one agent, which goes on after the last step.
    """


@command.command("init", cls=TakebackCommand)
@click.option("--remove", is_flag=True, help="Take the section out again")
@click.pass_obj
def init(session: CommandContext, remove: bool) -> None:
    """Tell agents of workflows, in AGENTS.md and CLAUDE.md

    A section on what to do at a start comes into AGENTS.md, and into CLAUDE.md where there is one. All other text
    stays as it is, and a second time changes nothing. It is an action, which `takeback undo` takes back by its id
    alone.
    """
    # Here, because all other commands of this group work on one small file and load little.
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
            f"{'; '.join(links)}; nothing was written", hint="a file in its place gets the section"
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
        return session.line("There was no section." if remove else "The section is there already.")
    where = " and ".join(files)
    said = f"Removed the section from {where}." if remove else f"Wrote the section on workflows into {where}."
    session.line(said)
    session.line(f"  take that back   takeback undo {action}")


@command.command("start", cls=StartCommand)
@click.option("--workflow", "id", required=True, metavar="ID", help="Which workflow")
@click.option("--agent", metavar="NAME", help="Who does it; else who works here")
@click.option("--step", help="The first step; else the first that remains")
@click.option("--idempotency", metavar="KEY", help="Stands for this one piece of work; else the id does")
@click.option("--remaining", multiple=True, metavar="STEP...", help="The steps after it, in their order")
@click.option("--handoff", metavar="AGENT", help="Who is to go on with it")
@click.option("--notes", default="", help="For whoever goes on; no secrets")
@click.option("--ttl-days", type=float, default=7, show_default=True, help="Idle days after which it expires")
@click.option("--per-agent", is_flag=True, help="Keep it in agents/NAME/memory/checkpoints")
@click.option("--force", is_flag=True, help="Set an older workflow of this id aside, and begin anew")
@click.option(
    "--owner-pid", type=int, metavar="PID", help="The process that does the work; else the parent; 0 for none"
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
    """Begin a workflow, or find it begun, and take its lock

    The same id with the same key is the same workflow: it is printed as it is. With another key it is refused.
    """
    with _checkpoints() as checkpoints:
        record = checkpoints.start(
            id, key=idempotency, remaining=list(remaining), owner_pid=owner(owner_pid) or None, **rest
        )
        _show(session, record)


@command.command("update", cls=TakebackCommand)
@_id
@click.option("--step", metavar="NEXT", help="The step that comes now")
@click.option("--complete", metavar="STEP", help="The step that is done; a second time changes nothing")
@click.option("--status", type=click.Choice(STATUSES), help="How it stands")
@click.option("--notes", help="For whoever goes on; no secrets")
@_owner
@click.pass_obj
def update(session: CommandContext, /, id: str | None, owner_pid: int | None, **rest: Any) -> None:
    """Write down how far it is, and renew the lease

    Without --workflow the one is meant that this session holds, or the only one that is unfinished.
    """
    with _checkpoints() as checkpoints:
        chosen = meant(checkpoints, id, owner_pid)
        _show(session, checkpoints.update(chosen, owner_pid=owner_pid, **rest))


@command.command("resume", cls=TakebackCommand)
@click.option("--workflow", "id", metavar="ID", help="This one only")
@click.option("--agent", metavar="NAME", help="Only those of this agent, or handed to it")
@click.option(
    "--owner-pid", type=int, metavar="PID", help="The process that goes on with it; else the parent"
)
@click.option("--steal-lock", is_flag=True, help="Take it even from a process that lives, if none is free")
@click.pass_obj
def resume(
    session: CommandContext, id: str | None, agent: str | None, owner_pid: int | None, steal_lock: bool
) -> None:
    """Take over an unfinished workflow that nobody holds

    Prints the checkpoint, or NO_CHECKPOINT. Schema and hash are verified; a bad file is named and skipped.
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
@click.option("--force", is_flag=True, help="End it although steps were never done; they stay in the file")
@click.pass_obj
def complete(session: CommandContext, id: str | None, owner_pid: int | None, force: bool) -> None:
    """Say that it is done, and release the lock

    At the last step, that step is done with it; where other steps were never done it is refused. The file stays until
    it has expired and is pruned, or until the monitor removes it, so that its key is known that long.
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
    """List every workflow; a bad file is a line `INVALID name reason`"""
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
    "--stale-min", type=click.FloatRange(0), default=10, show_default=True, help="Minutes without an update"
)
@click.option("--log", metavar="FILE", help="Also add what was found to this file, one line a look")
@click.pass_obj
@click.pass_context
def check(ctx: click.Context, session: CommandContext, stale_min: float, log: str | None) -> None:
    """Name unfinished workflows that are stale

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
@click.option("--dry-run", is_flag=True, help="Only say what would be done")
@click.pass_obj
def prune(session: CommandContext, dry_run: bool) -> None:
    """Clean up what has expired and is held by nobody

    Unfinished work is set aside for 30 more days before it goes. A file that cannot be read is never touched.
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
@click.option("--agent", metavar="NAME", help="Only those of this agent, or handed to it")
@click.option(
    "--install", is_flag=True, help="Let the host's scheduler do it, after a start and every 10 minutes"
)
@click.option("--uninstall", is_flag=True, help="Take it out of the scheduler")
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
    """Run a command once for each unfinished workflow that nobody holds

    The command holds the lock while it runs, and finds the workflow's id in TAKEBACK_WORKFLOW and its file in
    TAKEBACK_CHECKPOINT. Exits with 4 if one of the commands failed.
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
    # What a user can start, the command can start, too: a scheduler's own PATH is short.
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
    often = f"after a start of the machine and every {plural(every_min, 'minute')}"
    session.line(f"{kind} runs {shlex.join(words)} for each workflow that nobody holds, {often}.")
    session.line("  take it out  takeback workflow wake --uninstall")
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
    """Where it is installed, in whatever scheduler."""
    every = [scheduled("wake", kind, ["workflow", "wake"]) for kind in SCHEDULERS]
    return [made for made in every if made.is_usable() and made.is_installed()]
