"""`takeback run`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from takeback.cli import consent
from takeback.cli.beginning import first_checkpoint
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import interval, intervals
from takeback.cli.render.command import guarded_rows, summary_data, summary_lines, warning_lines
from takeback.cli.render.history import made
from takeback.cli.render.report import print_report
from takeback.cli.text import plural, printable
from takeback.core.codec import written as recordable
from takeback.core.events import Effect, Outcome, Process
from takeback.core.policy import judge_typed
from takeback.core.redact import redact
from takeback.core.rules import Ruling
from takeback.daemon import client, control
from takeback.engine.gate.foresight import (
    Typed,
    foreseen,
    reached,
    refuse_by_rule,
    refuse_on_autopilot,
    written,
)
from takeback.engine.locks import guard
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.tracking.command import Child, run_child
from takeback.engine.tracking.parts import CommandParts
from takeback.errors import (
    ConflictError,
    RefusedByRule,
    RefusedError,
    RollbackIncomplete,
    RunBusy,
    TakebackError,
)
from takeback.ports.foresight import Survey
from takeback.settings import environment
from takeback.shell.judgement import Judgement
from takeback.workspace.workspace import Workspace

FAILED_BEFORE_START = 125
NAME_MAX = 200


class RunCommand(TakebackCommand):
    """Everything after the first word of the command belongs to the command."""

    allow_interspersed_args = False

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TakebackError as error:
            # Whatever failed, failed before the command began: once it runs, its own code counts.
            if isinstance(error, RefusedByRule):
                raise
            error.exit_code = FAILED_BEFORE_START  # type: ignore[misc]
            raise


@click.command("run", cls=RunCommand, context_settings={"ignore_unknown_options": False})
@click.option("--name", default=None, metavar="N", help="How the log calls it; by default the command itself")
@click.option("--undo-on-failure", is_flag=True, help="Take everything back if the command fails")
@click.option(
    "--every",
    callback=interval,
    shell_complete=intervals,
    metavar="TIME",
    help="Take a checkpoint each 5m, 30s or 1h while it runs, and let undo take back what came after the last one",
)
@click.option(
    "--also",
    multiple=True,
    metavar="DIR",
    help="Protect this folder outside the workspace, too; may be given more than once",
)
@click.option("--allow-home", is_flag=True, help="With --also: even a home folder or one above it")
@click.option("--autopilot", is_flag=True, help="Refuse a command that is known to be irreversible")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    name: str | None,
    undo_on_failure: bool,
    every: float | None,
    autopilot: bool,
    also: tuple[str, ...],
    allow_home: bool,
    words: tuple[str, ...],
) -> None:
    """Run any command as one action that can be taken back

    A command that is known to push, publish, send or delete elsewhere is said to be irreversible before it starts.
    What a rule of takeback.toml denies is not started, and what it says is to be asked for is asked about here. Exits
    with the command's own code, 128 + n if signal n ended it, 125 if Takeback failed before starting it, 3 if a rule
    did not let it start, and 6 where the command gave 0 and what it did could not be recorded. With --every it is cut
    into parts: `undo` takes back the newest one, `undo RUN` all of them.
    """
    with session.protect(asking=True) as workspace:
        workspace.recover()
        roots = workspace.roots(also, allow_home=allow_home)
        if not workspace.history.marks and not session.json:
            first_checkpoint(session, workspace, "before the first run")
        workspace.keep_within_quota()
        # Each word by itself first: quotes that join them would split what is quoted inside of one.
        shown = [os.path.basename(words[0]), *map(redact, words[1:])]
        called = recordable(redact(name or shlex.join(shown)))[:NAME_MAX]
        actor, parent = recordable(os.path.basename(words[0])), workspace.parent_action()
        judged = workspace.parts.foresight.judge(words)
        survey = workspace.parts.foresight.survey(reached(judged), roots)
        found = foreseen(judged, survey)
        allowed = workspace.parts.foresight.is_allowed(words, found)
        found, lines = guarded_rows(workspace.postgres, words, found, warning_lines(judged, survey))
        typed = Typed(called, actor, parent, found, autopilot=autopilot)
        _keep_to_rules(session, workspace, words, typed, allowed=allowed)
        warnings = [*lines, *_locked(workspace, judged, called, parent)]
        for line in () if session.json else warnings:
            click.echo(line, err=True)
        effect = Effect.RESTORABLE if found.effect is Effect.NONE else found.effect
        id = workspace.parts.tracker.begin_single(
            called,
            actor=actor,
            parent=parent,
            effect=effect,
            autopilot=autopilot,
            survey=_with(survey, roots),
        )
        parts = CommandParts(workspace.parts.tracker, id, every) if every else None
        ctx.exit(_supervise(session, workspace, id, called, words, undo=undo_on_failure, parts=parts))


def _keep_to_rules(
    session: CommandContext, workspace: Workspace, words: Sequence[str], typed: Typed, *, allowed: bool
) -> None:
    """Refuse what a rule denies, and ask about what has to be asked for, before the command starts."""
    ruling = judge_typed(workspace.settings.rules, " ".join(words), typed.found, allowed=allowed)
    if ruling.do is Ruling.DENY:
        refuse_by_rule(workspace.parts.ledger, typed, ruling)
    if ruling.do is Ruling.ASK and typed.autopilot:
        refuse_by_rule(workspace.parts.ledger, typed, ruling, "and on autopilot nobody can be asked")
    if typed.autopilot and not allowed:
        refuse_on_autopilot(workspace.parts.ledger, typed)
    if ruling.do is not Ruling.ASK or _was_asked(workspace, typed):
        return
    if session.json or not consent.is_terminal() or session.is_inside():
        refuse_by_rule(workspace.parts.ledger, typed, ruling, "and nobody can be asked here")
    click.echo(f"takeback: {printable(ruling.why)}", err=True)
    if not click.confirm(f"{printable(typed.name)}: Run it?", default=False, err=True):
        refuse_by_rule(workspace.parts.ledger, typed, ruling, "and the answer was no")


def _was_asked(workspace: Workspace, typed: Typed) -> bool:
    """Whether it runs inside of an agent's call with this very effect, which the gate has asked about."""
    outer = workspace.history.actions.get(workspace.inside_action())
    if outer is None or not workspace.history.runs[outer.stream].began.detached:
        return False
    return getattr(outer.began, "effect", None) is typed.found.effect


def _with(survey: Survey, roots: Sequence[str]) -> Survey:
    """What an action looks at: what it names itself, and whole folders."""
    return msgspec.structs.replace(survey, places=(*roots, *survey.places))


def _locked(workspace: Workspace, judged: Judgement, called: str, parent: str) -> list[str]:
    """What the command would write although others have it locked: refused, or said."""
    found = workspace.parts.locks.before(written(judged), parent=parent)
    if not found:
        return []
    if workspace.parts.locks.refuses:
        raise RefusedError(
            f"{called} was refused: {guard.told(found)}. It was not started",
            hint=workspace.parts.locks.how(found),
        )
    return [f"takeback: {guard.told(found)}"]


def _supervise(
    session: CommandContext,
    workspace: Workspace,
    id: str,
    called: str,
    words: tuple[str, ...],
    *,
    undo: bool,
    parts: CommandParts | None,
) -> int:
    tracker = workspace.parts.tracker
    child = run_child(
        words,
        token=tracker.token(id),
        show_life=parts.show_life if parts else lambda: tracker.life.show(id),
        more=workspace.parts.environment_of(id),
        tick=parts.tick if parts else lambda: None,
    )
    try:
        _record(session, workspace, id, called, child, undo=undo, parts=parts)
    except (TakebackError, OSError) as error:
        # The command has run, so its own failure counts first. The next command settles what is not recorded now.
        click.echo(f"takeback: what {id} changed is not recorded yet: {error}", err=True)
        return child.code or RollbackIncomplete.exit_code
    return child.code


def _left(child: Child) -> tuple[Process, ...]:
    """What the command left behind. The daemon is not: it serves everybody, whoever's hook has started it."""
    daemon = control.holder(environment.state_home())
    return tuple(one for one in child.left if one.pid != daemon or not client.is_daemon(one.pid))


def _record(
    session: CommandContext,
    workspace: Workspace,
    id: str,
    called: str,
    child: Child,
    *,
    undo: bool,
    parts: CommandParts | None,
) -> None:
    """Write down what the command did, say it, and take it back if that was asked for."""
    tracker = workspace.parts.tracker
    outcome = Outcome.DONE if child.code == 0 else Outcome.FAILED
    if parts:
        action = parts.end(outcome, exit_code=child.code, why=child.why, left=_left(child))
    else:
        action = tracker.end_single(id, outcome, exit_code=child.code, why=child.why, left=_left(child))
    tracker.life.end(id)
    report = _take_back(workspace, id) if undo and child.code and made(workspace.history, action) else None
    if session.json:
        click.echo(summary_data(workspace, action, child, report), err=True)
    elif not child.started:
        click.echo(f"takeback: {recordable(child.why)}", err=True)
    else:
        for line in summary_lines(workspace, action, child, called, undoing=report is not None):
            click.echo(line, err=True)
        if parts and parts.missed:
            times = plural(len(parts.missed), "time")
            click.echo(f"  no checkpoint       {times}, last because {parts.missed[-1]}", err=True)
        if report is not None:
            print_report(CommandContext(to_stderr=True), workspace.history, report)


def _take_back(workspace: Workspace, id: str) -> RollbackReport | None:
    """Undo what the failed command did. A conflict changes nothing, and its report says so."""
    try:
        return workspace.undo(id)
    except RunBusy as busy:
        click.echo(f"takeback: {busy}", err=True)
        return None
    except (ConflictError, RollbackIncomplete) as error:
        if error.report is None:
            raise
        report: RollbackReport = error.report
        return report
