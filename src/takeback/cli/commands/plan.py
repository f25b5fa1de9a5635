"""`takeback plan check`, `plan shadow`, `plan approve` and `plan run`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
import msgspec

from takeback.cli import consent
from takeback.cli.context import CommandContext, TakebackCommand, TakebackGroup
from takeback.cli.options import ids_of
from takeback.cli.text import plural
from takeback.core.plan import BYTES_MAX, Plan, dependencies, parse_plan
from takeback.errors import RefusedError, UsageError
from takeback.workspace.plans import (
    PreparedPlan,
    Ran,
    approve_plan,
    check_plan,
    plan_digest,
    run_plan,
    told,
)

FILE = click.argument("file", metavar="FILE")


@click.group("plan", cls=TakebackGroup)
def command() -> None:
    """Check a plan against the safety rules, approve it, or run it

    A plan is a JSON file with steps, tools, arguments and dependencies; docs/PLANS.md shows one. Use - for standard
    input.
    """


@command.command("check", cls=TakebackCommand)
@FILE
@click.option("--autopilot", is_flag=True, help="Also refuse what a human would have to approve")
@click.pass_obj
@click.pass_context
def check(ctx: click.Context, session: CommandContext, file: str, autopilot: bool) -> None:
    """Check a plan against the safety rules, and run nothing

    Reads the plan, imports its tools (this runs their modules, except those that the rules deny), and names each
    step that breaks a rule of takeback.toml, with the way to allow it. Exits with 2 for a plan that cannot work, 3
    for one that breaks a rule.
    """
    plan = _read(file)
    prepared, workspace = check_plan(plan, autopilot=autopilot)
    if workspace is not None:
        session.opened.append(workspace)
    if session.is_inside():
        prepared = _for_an_agent(prepared)
    if session.json:
        session.data(_data(prepared))
    else:
        for line in _lines(prepared, file):
            session.line(line)
    ctx.exit(RefusedError.exit_code if prepared.broken else 0)


@command.command("shadow", cls=TakebackCommand)
@FILE
@click.option("--autopilot", is_flag=True, help="Refuse what a human would have to approve, as the run would")
@click.pass_obj
@click.pass_context
def shadow(ctx: click.Context, session: CommandContext, file: str, autopilot: bool) -> None:
    """Run a plan in a view, with calls only intended, and show what it would do

    Nothing changes, nothing is called and nothing is sent. `takeback promote` then does exactly what was shown. Exits
    with 4 if a step fails, and with 6 if the shadow ends early because nothing can stand in for a result.
    """
    from takeback.workspace.shadow.runs import shadow_plan

    plan = _read(file)
    with session.protect() as workspace:
        review = shadow_plan(workspace, plan, autopilot=autopilot)
    if session.json:
        session.data(review.data())
    else:
        session.line(str(review))
    ctx.exit({"done": 0, "failed": 4, "stopped": 6}[review.result.outcome.value])


@command.command("approve", cls=TakebackCommand)
@FILE
@click.option(
    "--key",
    default="",
    metavar="KEY",
    help="The key of the run that you approve (default: derived from the plan)",
)
@click.option("--yes", is_flag=True, help="Approve without asking; needed if there is no terminal")
@click.pass_obj
def approve(session: CommandContext, file: str, key: str, yes: bool) -> None:
    """Approve a plan as a whole, so that it runs without further questions

    Shows every step, and asks. The approval is bound to exactly these steps, arguments and tools (with the code in
    the files of the tools), and to the key of the run: after any change you have to approve it again. It is refused
    inside an action: an agent cannot approve its own plan.
    """
    plan = _read(file)
    if not yes and (session.json or not consent.is_terminal()):
        raise UsageError("there is no terminal to ask on; nothing was approved", hint="add --yes")
    with session.protect() as workspace:
        prepared, _ = check_plan(plan, autopilot=False, start=workspace.root, opened=workspace)
        looked_at = plan_digest(prepared, key)
        if not session.json:
            for line in _lines(prepared, file)[:-1]:
                session.line(line)
        if prepared.broken:
            raise RefusedError("the plan breaks a rule; nothing was approved")
        if not yes and not click.confirm("Approve this plan?", default=False, err=True):
            raise RefusedError("you did not approve it; nothing was approved")
        approve_plan(workspace, plan, key=key, digest=looked_at)
    if session.json:
        return session.data(
            {"approved": True, "name": plan.name, "digest": looked_at, "key": key or prepared.key}
        )
    session.line(f"Approved {plan.name!r} exactly as it is.  Run it   takeback plan run {file}{_with(key)}")


def _with(key: str) -> str:
    return f" --key {key}" if key else ""


@command.command("run", cls=TakebackCommand)
@FILE
@click.option(
    "--key",
    default="",
    metavar="KEY",
    help="The key of the run; the same key means the same run (default: derived from the plan)",
)
@click.option(
    "--continue",
    "going_on",
    default="",
    metavar="RUN",
    shell_complete=ids_of("runs"),
    help="Go on with this unfinished run: keep its completed steps that are the same, take back the others first",
)
@click.option(
    "--on-failure",
    type=click.Choice(["undo", "pause"]),
    default="undo",
    show_default=True,
    help="If a step fails: take the whole run back, or only that step, so that the run can be continued",
)
@click.option("--autopilot", is_flag=True, help="Never ask: refuse what a human would have to approve")
@click.pass_obj
def run(
    session: CommandContext, file: str, key: str, going_on: str, on_failure: str, autopilot: bool
) -> None:
    """Run a plan as one run: all of it is done, or all of it is taken back

    If the run was interrupted, it continues after its last completed step. If it is complete, nothing is done, and
    its recorded results are printed; use another --key to run the plan again. The tools run in the folder of the
    workspace.

    A plan that you have approved with `takeback plan approve` asks only about steps whose arguments are results of
    others. With `plans = "approved"` in [rules] of takeback.toml, any other plan is refused.
    """
    plan = _read(file)
    tell = partial(_show_step, session)
    with session.protect() as workspace:
        ran = run_plan(
            workspace,
            plan,
            key=key,
            autopilot=autopilot,
            tell=tell,
            going_on=going_on,
            on_failure=on_failure,
        )
    if session.json:
        return session.data(msgspec.to_builtins(ran))
    session.line(_summary(ran))


def _show_step(session: CommandContext, step: str, what: str) -> None:
    """Say that a step is done."""
    if what != "began" and not session.json:
        session.line(f"  {'done' if what == 'done' else 'done earlier':14}{step}")


def _read(file: str) -> Plan:
    try:
        with click.open_file(file, "rb") as opened:
            data: bytes = opened.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; nothing was done") from error
    return parse_plan(data, "the plan" if file == "-" else file)


def _for_an_agent(prepared: PreparedPlan) -> PreparedPlan:
    """Return the same without how to allow it: an agent might do that itself."""
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
        return f"{ran.run} was already done ({plural(count, 'step')}), and its results stand. Nothing was done again."
    again = f", {len(ran.earlier)} of them by an earlier attempt" if ran.earlier else ""
    return f"{ran.run} done: {plural(count, 'step')}{again}.  Changed your mind?  takeback undo {ran.run}"
