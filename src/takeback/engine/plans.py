"""Running a plan. Every fault that can be known in advance is reported before the first step begins.

A plan runs like ordinary code: one run, a step for each of its steps, one call in each. So taking back, continuing
after a crash and returning recorded results work as usual, without any code here.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from takeback.core import policy
from takeback.core.codec import digest
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import Effect
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.plan import (
    Plan,
    PlannedStep,
    default_key,
    dependencies,
    in_order,
    known_part,
    references,
    resolve,
    targets,
    weaker,
)
from takeback.core.policy import Broken, Foresee, RuleContext, Use
from takeback.core.redact import redact
from takeback.core.rules import Rules, Ruling, for_plans
from takeback.core.values import plain
from takeback.engine.gate.rules import ground_of, name_in_rules
from takeback.engine.runs.call import first_key
from takeback.engine.runs.declare import declared, unwrapped
from takeback.engine.runs.recorded_calls import is_gone, stands
from takeback.errors import RefusedError, TakebackError, UsageError
from takeback.ports.plans import PlanRun, PlanRuns

RESERVED = {"key", "effect"}
"""Keyword arguments of `run.call` itself; a tool gets its own arguments of these names by position."""

Tell = Callable[[str, str], None]


class Tool(msgspec.Struct, frozen=True):
    """A function that a plan calls."""

    target: str
    function: Callable[..., Any]
    effect: Effect


class PreparedPlan(msgspec.Struct, frozen=True):
    """A plan that has been checked completely."""

    plan: Plan
    order: tuple[PlannedStep, ...]
    imports: dict[str, str]
    """What each step's tool imports."""
    tools: dict[str, Tool]
    """Tools by what is imported. A tool that the rules deny is not imported and is missing here."""
    rules: Rules
    ground: RuleContext
    broken: list[Broken]
    asks: list[Broken]
    notes: list[str]

    @property
    def key(self) -> str:
        return self.plan.key or default_key(self.plan, self.imports)

    def use(self, step: PlannedStep) -> Use:
        """Return the step's tool, with the stronger of the expected and its own effect."""
        target = self.imports[step.id]
        if target not in self.tools:
            return Use(target, step.effect or Effect.NONE)
        tool = self.tools[target]
        effect = step.effect or tool.effect
        undeclared = effect is Effect.UNKNOWN
        use = Use(name_in_rules(tool.function, target), effect, also=target, undeclared=undeclared)
        return policy.foreseen(use, known_part(step.args), self.rules.commands, self.ground)


class Ran(msgspec.Struct, frozen=True):
    """The outcome of a plan."""

    run: str
    key: str
    results: dict[str, Any]
    """By step, as JSON values."""
    earlier: tuple[str, ...]
    """The steps that an earlier attempt had completed."""


def prepare(
    plan: Plan,
    *,
    root: str | os.PathLike[str],
    rules: Rules,
    known: Mapping[str, str],
    autopilot: bool = False,
    foresee: Foresee | None = None,
) -> PreparedPlan:
    """Check a plan before anything happens. Raise UsageError for what cannot work; broken rules are reported.

    Tools are imported, which runs their modules, except those that the rules deny.
    """
    root = os.path.realpath(root)
    ground = ground_of(root, rules.tools, known)
    imports = targets(plan, known)
    tools = _import_allowed(plan, imports, rules, ground)
    # Only now is it known where the tools with short names were defined.
    ground = ground_of(root, rules.tools, known, foresee)
    prepared = PreparedPlan(plan, in_order(plan), imports, tools, rules, ground, [], [], [])
    if faults := [fault for step in prepared.order for fault in _misfits(prepared, step)]:
        raise UsageError(f"{'; '.join(faults)}; nothing was done")
    return msgspec.structs.replace(
        prepared,
        broken=policy.check_plan(plan, rules, prepared.use, ground, autopilot=autopilot),
        asks=policy.requests(plan, rules, prepared.use, ground),
        notes=[
            f"the effect of {tool.target} is unknown: only what it changes in the workspace can be taken back"
            for tool in tools.values()
            if tool.effect is Effect.UNKNOWN
        ],
    )


def run_plan(
    runs: PlanRuns,
    prepared: PreparedPlan,
    *,
    key: str = "",
    autopilot: bool = False,
    approved: bool = False,
    on_failure: str = "undo",
    tell: Tell = lambda *_: None,
) -> Ran:
    """Carry out a plan. `tell` is called for each step that begins, is done, or was done by an earlier attempt.

    If a human `approved` the plan as a whole, a step that needs approval has it, provided that the plan has all of
    its arguments.
    """
    refuse_broken(prepared)
    results: dict[str, Any] = {}
    earlier: list[str] = []
    called: dict[str, int] = {}
    key = key or prepared.key
    now: list[PlannedStep] = []

    def approve(_request: object) -> bool | None:
        return None if any(references(now[-1].args)) else True

    answers = approve if approved else None
    name = prepared.plan.name
    with runs.run(name, key=key, autopilot=autopilot, approve=answers, on_failure=on_failure) as run:
        for step in prepared.order:
            tell(step.id, "began")
            now.append(step)
            with run.step(step.id, retries=step.retries, uses=dependencies(step)) as handle:
                if handle.done:
                    earlier.append(step.id)
                try:
                    results[step.id] = _call(run, prepared, step, results, called)
                except TakebackError as error:
                    where = f"step {step.id}"
                    if not error.message.startswith(where):
                        error.message = f"{where} ({prepared.imports[step.id]}): {error.message}"
                    raise
            tell(step.id, "earlier" if step.id in earlier else "done")
    return Ran(run.id, key, results, tuple(earlier))


def digest_of(prepared: PreparedPlan, key: str = "") -> str:
    """Return the digest of what a human approves: the steps, what they import, the key, and the code of the tools.

    The code is that of the files in which the tools are defined, not of what these import in turn.
    """
    plan = msgspec.structs.replace(prepared.plan, schema="")
    code = {target: _code(tool.function) for target, tool in prepared.tools.items()}
    exactly = [plan, prepared.imports, key or prepared.key, code]
    return digest(msgspec.json.encode(exactly, order="sorted"))


def _code(function: Callable[..., Any]) -> str:
    """Return the digest of the file in which a function is defined; empty for one that is built in."""
    try:
        path = inspect.getsourcefile(unwrapped(function)[0])
        return digest(Path(path).read_bytes()) if path else ""
    except (OSError, TypeError):
        return ""


def passed_to(prepared: PreparedPlan, step: PlannedStep, args: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the function of a step with its positional and keyword arguments, as `run.call` gets them."""
    tool = prepared.tools[prepared.imports[step.id]]
    return (tool.function, *_passed(tool, args))


def refuse_broken(prepared: PreparedPlan) -> None:
    """Raise RefusedError if the plan breaks a rule."""
    if prepared.broken:
        said = "; ".join(f"{told(broken)}" for broken in prepared.broken)
        raise RefusedError(f"{said}; nothing was done", how=prepared.broken[0].how_to_allow)


def told(broken: Broken) -> str:
    """Return a broken rule as text."""
    return f"{f'step {broken.step}: ' if broken.step else ''}{broken.what} (rule {broken.rule})"


def _call(
    run: PlanRun,
    prepared: PreparedPlan,
    step: PlannedStep,
    results: Mapping[str, Any],
    called: dict[str, int],
) -> Any:
    """Make the call of one step, after judging its arguments again now that they are known."""
    args = resolve(step.args, results)
    use, tool = prepared.use(step), prepared.tools[prepared.imports[step.id]]
    earlier = called.get(use.name, 0)
    called[use.name] = earlier + 1
    if args != step.args:
        rules = for_plans(prepared.rules)
        found = policy.judge_call(rules, use.name, use.effect, args, prepared.ground, earlier=earlier)
        if found.do is Ruling.DENY:
            raise RefusedError(
                f"step {step.id} was refused before it ran: {found.why} (rule {found.rule})", how=found.how
            )
    by_place, by_name = _passed(tool, args)
    # The plan may expect a more careful effect than the tool declares.
    expected = {"effect": step.effect.value} if step.effect else {}
    result = run.call(tool.function, *by_place, **by_name, **expected)
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    # As another process would read it from the record, so that references mean the same there.
    return plain(result, f"the result of step {step.id}")


async def _awaited(result: Any) -> Any:
    return await result


# A plan that was changed since an earlier attempt


class PlanChange(msgspec.Struct, frozen=True):
    """What a plan makes of the completed steps of a run."""

    kept: tuple[str, ...]
    """The names of the steps that are the same."""
    gone: tuple[RecordedStep, ...]
    """The steps that are not in the plan any more, or not with these arguments; in order."""


def compare_with_run(
    history: History, run: RecordedRun, prepared: PreparedPlan, result_of: Callable[[RecordedAction], Any]
) -> PlanChange:
    """Compare a plan with what a run has completed and not taken back.

    A step is the same if its call is: the same tool in a step of the same name, with the same arguments, where the
    results that these refer to are those of steps that are kept.
    """
    done = {s.name: s for s in run.steps.values() if s.life is Life.DONE and stands(history, s)}
    results: dict[str, Any] = {}
    for step in prepared.order:
        known = done.get(redact(step.id))
        if known is None or any(reference.step not in results for reference in references(step.args)):
            continue
        if prepared.imports[step.id] not in prepared.tools:
            continue
        try:
            function, args, kwargs = passed_to(prepared, step, resolve(step.args, results))
        except UsageError:
            continue  # the result has another shape than the plan expects
        key = first_key(function, known.name, args, kwargs)
        calls = [history.actions[id] for id in history.calls_of(run.id, key)]
        same = next((c for c in reversed(calls) if c.life is Life.DONE and not is_gone(history, c)), None)
        if same is not None and same.as_tool.step == known.id:
            results[step.id] = result_of(same)
    kept = {redact(id) for id in results}
    return PlanChange(tuple(results), tuple(s for s in done.values() if s.name not in kept))


# Looking


def _import_allowed(
    plan: Plan, imports: Mapping[str, str], rules: Rules, ground: RuleContext
) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    faults = []
    only_tools = Rules(tools=rules.tools)
    for step in plan.steps:
        target = imports[step.id]
        if target in tools:
            continue
        if policy.judge_call(only_tools, target, Effect.NONE, {}, ground).do is Ruling.DENY:
            continue
        try:
            tools[target] = import_tool(target)
        except UsageError as error:
            faults.append(f"step {step.id}: {error.message}")
    if faults:
        raise UsageError(
            f"{'; '.join(faults)}; nothing was done",
            hint="a tool is package.module:function, found from the workspace's folder or installed",
        )
    return tools


def import_tool(target: str) -> Tool:
    """Import the function that `package.module:function` names. Raise UsageError with the reason if that fails."""
    module, _, path = target.partition(":")
    writes = sys.dont_write_bytecode
    try:
        # Checking a plan leaves nothing behind, not even __pycache__.
        sys.dont_write_bytecode = True
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = writes
    if not callable(found):
        raise UsageError(f"{target} is a {type(found).__name__}, not a function")
    return Tool(target, found, declared(found).effect)


def _misfits(prepared: PreparedPlan, step: PlannedStep) -> list[str]:
    """Return the faults of a step that does not fit its tool."""
    tool = prepared.tools.get(prepared.imports[step.id])
    if tool is None:
        return []
    faults = []
    if not _may_expect(step.effect, tool.effect):
        faults.append(f"step {step.id} expects {tool.target} to be {step.effect}, but it is {tool.effect}")
    try:
        _passed(tool, dict.fromkeys(step.args))
    except UsageError as error:
        faults.append(f"step {step.id}: {error.message}")
    return faults


def _may_expect(expected: Effect | None, own: Effect) -> bool:
    """Return whether a plan may expect this effect: the tool's own, or a more careful one without handlers.

    A plan cannot declare an undeclared tool: a plan is data, often written by a model.
    """
    if expected is None or expected is own:
        return True
    careful = (Effect.RESTORABLE, Effect.UNKNOWN, Effect.IRREVERSIBLE)
    return expected in careful and not weaker(expected, own)


def _passed(tool: Tool, args: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments for `run.call`."""
    try:
        signature = inspect.signature(tool.function)
    except (TypeError, ValueError):
        # Some functions written in C have no signature; the call itself will show.
        return (), dict(args)
    try:
        bound = signature.bind(**args)
    except TypeError as error:
        raise UsageError(f"{tool.target} cannot be called like this: {error}") from None
    if not args.keys() & RESERVED:
        return (), dict(args)
    bound.apply_defaults()
    if taken := sorted(bound.kwargs.keys() & RESERVED):
        raise UsageError(
            f"{tool.target} takes {', '.join(taken)} by name only, which `run.call` uses itself",
        )
    return bound.args, bound.kwargs
