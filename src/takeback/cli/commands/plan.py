"""`takeback plan check` and `takeback plan run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand, TakebackGroup, find_modules_at
from takeback.cli.text import plural, shortened
from takeback.core.plan import BYTES_MAX, Plan, dependencies, parse_plan
from takeback.core.redact import redact
from takeback.engine.gate.foresight import Foresight
from takeback.engine.plans import PreparedPlan, Ran, prepare, run_plan, told
from takeback.errors import BackendError, RefusedError, RollbackIncomplete, TakebackError, UsageError
from takeback.settings import environment, toml
from takeback.workspace.locate import find_root, registry_of_user
from takeback.workspace.opening import find_workspace
from takeback.workspace.store.journal import held_unopened

FILE = click.argument("file", metavar="FILE")
NOTE = "Takeback: "
"""How a run begins the note that it adds to the error that ended it."""


@click.group("plan", cls=TakebackGroup)
def command() -> None:
    """Check a plan against the safety rules, or run it

    A plan is a JSON file with steps, tools, arguments and dependencies; docs/PLANS.md shows one. FILE may be - for
    standard input.
    """


@command.command("check", cls=TakebackCommand)
@FILE
@click.option("--autopilot", is_flag=True, help="Refuse also what a human would have to approve")
@click.pass_obj
@click.pass_context
def check(ctx: click.Context, session: CommandContext, file: str, autopilot: bool) -> None:
    """Check a plan against the safety rules, and run nothing

    Reads the plan, imports its tools (which runs their modules; not those that the rules deny), and names each step
    that breaks a rule of takeback.toml, with the way to allow it. Exits with 2 for a plan that cannot work, 3 for one
    that breaks a rule.
    """
    plan = _read(file)
    workspace = find_workspace(".")
    if workspace is None:
        registry = registry_of_user()
        root = find_root(".", registry)
        settings = held_unopened(registry.state_of(root), root).settings
    else:
        with workspace:
            root, settings = workspace.root, workspace.settings
            session.opened.append(workspace)
    prepared = _prepare(plan, root, settings, autopilot=autopilot)
    if session.is_inside():
        prepared = _for_an_agent(prepared)
    if session.json:
        session.data(_data(prepared))
    else:
        for line in _lines(prepared, file):
            session.line(line)
    ctx.exit(RefusedError.exit_code if prepared.broken else 0)


@command.command("run", cls=TakebackCommand)
@FILE
@click.option(
    "--key", default="", metavar="K", help="What makes two runs the same one; by default the plan itself"
)
@click.option("--autopilot", is_flag=True, help="Ask nobody: refuse what a human would have to approve")
@click.pass_obj
def run(session: CommandContext, file: str, key: str, autopilot: bool) -> None:
    """Run a plan as one run: all of it is done, or all of it is taken back

    A run that was interrupted is continued after its last completed step. One that is complete answers with its
    recorded results and does nothing; name another --key to do it again. The tools work in the workspace's folder.
    """
    plan = _read(file)
    with session.protect() as workspace:
        prepared = _prepare(plan, workspace.root, workspace.settings, autopilot=autopilot)
        progress = _Steps(session)
        try:
            ran = run_plan(workspace, prepared, key=key, autopilot=autopilot, tell=progress)
        except RollbackIncomplete as error:
            why = _failed(prepared, progress.current, error.__cause__ or error)
            raise RollbackIncomplete(f"{why}. {error.message}", error.hint, report=error.report) from error
        except TakebackError:
            raise
        except Exception as error:
            notes = [
                note.removeprefix(NOTE) for note in getattr(error, "__notes__", ()) if note.startswith(NOTE)
            ]
            raise BackendError(
                f"{_failed(prepared, progress.current, error)}. {' '.join(notes) or 'The run was taken back.'}",
                hint="running the plan again begins anew",
            ) from error
    if session.json:
        return session.data(msgspec.to_builtins(ran))
    session.line(_summary(ran))


def _failed(prepared: PreparedPlan, step: str, error: BaseException) -> str:
    what = redact(f"{type(error).__name__}: {error}")
    tool = f" ({prepared.imports[step]})" if step in prepared.imports else ""
    return f"step {step}{tool} failed: {shortened(what, 500)}"


class _Steps:
    """Shows each step as it is done, and knows which one is at work."""

    def __init__(self, session: CommandContext) -> None:
        self._session = session
        self.current = ""

    def __call__(self, step: str, what: str) -> None:
        self.current = step
        if what != "began" and not self._session.json:
            self._session.line(f"  {'done' if what == 'done' else 'done earlier':14}{step}")


def _read(file: str) -> Plan:
    try:
        with click.open_file(file, "rb") as opened:
            data: bytes = opened.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; nothing was done") from error
    return parse_plan(data, "the plan" if file == "-" else file)


def _prepare(plan: Plan, root: Path, settings: toml.Config, *, autopilot: bool) -> PreparedPlan:
    # Tools are found, and work, as if Python had been started at the top of the workspace.
    find_modules_at(root)
    os.chdir(root)
    foresee = Foresight(root, environment.home_folder())
    rules, known = settings.rules, settings.tools
    return prepare(plan, root=root, rules=rules, known=known, autopilot=autopilot, foresee=foresee)


def _for_an_agent(prepared: PreparedPlan) -> PreparedPlan:
    """The same without how it could be allowed: an agent might do that by itself."""
    said = {
        "broken": [msgspec.structs.replace(one, how_to_allow="") for one in prepared.broken],
        "asks": [msgspec.structs.replace(one, how_to_allow="") for one in prepared.asks],
    }
    return msgspec.structs.replace(prepared, **said)


def _data(prepared: PreparedPlan) -> dict[str, Any]:
    return {
        "name": prepared.plan.name,
        "key": prepared.key,
        "ok": not prepared.broken,
        "steps": [
            {
                "id": step.id,
                "tool": prepared.imports[step.id],
                "effect": prepared.use(step).effect,
                "after": list(dependencies(step)),
            }
            for step in prepared.order
        ],
        "broken": msgspec.to_builtins(prepared.broken),
        "asks": msgspec.to_builtins(prepared.asks),
        "notes": prepared.notes,
    }


def _lines(prepared: PreparedPlan, file: str) -> list[str]:
    count = plural(len(prepared.order), "step")
    if prepared.broken:
        lines = [
            f"Refused: {prepared.plan.name!r} breaks {plural(len(prepared.broken), 'rule')}. Nothing was done."
        ]
        for broken in prepared.broken:
            lines.append(f"  {told(broken)}")
            if broken.how_to_allow:
                lines.append(f"    to allow it   {broken.how_to_allow}")
        return lines
    lines = [f"{prepared.plan.name!r} has {count} and keeps to the rules. They would run in this order:"]
    for step in prepared.order:
        waits = f", after {', '.join(dependencies(step))}" if dependencies(step) else ""
        lines.append(f"  {step.id}: {prepared.imports[step.id]}, {prepared.use(step).effect}{waits}")
    lines += [f"  waits for you   step {asked.step}: {asked.what}" for asked in prepared.asks]
    lines += [f"  note            {note}" for note in prepared.notes]
    return [*lines, f"  run it          takeback plan run {file}"]


def _summary(ran: Ran) -> str:
    count = len(ran.results)
    if len(ran.earlier) == count:
        return f"{ran.run} was done before ({plural(count, 'step')}), and its results stand. Nothing was done again."
    again = f", {len(ran.earlier)} of them by an earlier attempt" if ran.earlier else ""
    return f"{ran.run} done: {plural(count, 'step')}{again}.  Changed your mind?  takeback undo {ran.run}"
