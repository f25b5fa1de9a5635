"""Promoting a shadow: doing for real exactly what it showed, as one run, after approval.

First the changes of its view are made, as one action; then its calls, statements and messages follow in order, with
the real results in place of the stand-ins. If one of them fails, all of it is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import Any

from takeback.core import events as e
from takeback.core import ids
from takeback.core.lifecycle import Life
from takeback.core.values import plain
from takeback.engine.gate.gate import Approve, verdict
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs.run import Run
from takeback.engine.shadow.review import Promoted, ShadowReview
from takeback.engine.shadow.shadow import Intention
from takeback.engine.shadow.stand_ins import known_at, replaced
from takeback.errors import BackendError, ConflictError, RefusedError, UsageError
from takeback.resources.calls import handlers
from takeback.settings import environment
from takeback.workspace.locate import find_modules_at
from takeback.workspace.refusal import refuse_agent
from takeback.workspace.staging import Stage
from takeback.workspace.workspace import Workspace

NAMES_SHOWN = 5
Function = Callable[..., Any]


def promote(
    workspace: Workspace,
    review: ShadowReview,
    *,
    approve: Approve | None = None,
    functions: Mapping[int, Function] | None = None,
) -> Promoted:
    """Do what a shadow showed. Raise ConflictError, with nothing done, if the world has moved since."""
    environment.refuse_in_shadow("a promotion")
    workspace.recover()
    refuse_incomplete(workspace, review)
    stage = workspace.stages[review.view]
    accepted = _accepted_earlier(workspace, review)
    if not accepted:
        refuse_moved(stage)
    called = dict(_functions(workspace, review, functions or {}))
    answered = _Whole(approve)
    try:
        with workspace.run(
            review.result.name, key=_key(review), approve=answered, ref=f"shadow {review.run}"
        ) as run:
            _ask(run, review, answered)
            if not accepted:
                refuse_moved(stage)
                accepted = stage.accept(keep=True).require_complete().rollback
            known = _do(run, review, called)
            for name, value in review.result.memory.items():
                run.memory[name] = _real(name, value, known)
    except BaseException:
        if accepted:
            workspace.undo(accepted, on_conflict="keep")
        raise
    stage.drop()
    return Promoted(run.id, accepted)


def _accepted_earlier(workspace: Workspace, review: ShadowReview) -> str:
    """Return the action that made the changes of the view, if an earlier attempt was interrupted after that."""
    history = workspace.history
    found = history.runs_of_key(_key(review))
    if not found or history.runs[found[-1]].life is not Life.INTERRUPTED:
        return ""
    for action in history.since(ids.seq_of(found[-1])):
        began = action.began
        if (
            isinstance(began, e.RollbackBegan)
            and began.stage == review.view
            and not history.is_undone(action.id)
        ):
            return action.id
    return ""


def _key(review: ShadowReview) -> str:
    return f"promote {review.run}"


def refuse_incomplete(workspace: Workspace, review: ShadowReview) -> None:
    """Raise UsageError for a shadow that did not come to its end, or that was promoted before."""
    result = review.result
    if result.outcome is not e.Outcome.DONE:
        how = "failed" if result.outcome is e.Outcome.FAILED else "ended early"
        raise UsageError(
            f"{review.run} {how}, so it cannot be promoted: {result.why}. Nothing was done",
            hint=f"`takeback stage accept {review.view}` takes over what it changed in its view, without its calls",
        )
    if result.marked:
        raise UsageError(
            f"{', '.join(result.marked)} would hold a stand-in for a result that is not known yet, so {review.run} "
            "cannot be promoted; nothing was done",
            hint="let a function with `simulate` return the real value, or write the result in a run of its own",
        )
    history = workspace.history
    for id in history.runs_of_key(_key(review)):
        if history.runs[id].life is Life.DONE:
            raise UsageError(f"{review.run} was promoted already, as {id}; nothing was done")


def refuse_agent_promoting(workspace: Workspace) -> None:
    """Raise RefusedError inside an action: an agent cannot approve what it showed."""
    inside = environment.parent_action() or workspace.inside_action()
    refuse_agent(inside, "an agent cannot promote its own shadow", done="done")


def refuse_moved(stage: Stage) -> None:
    """Raise ConflictError if the workspace is not as it was when the shadow began."""
    moved = sorted(change.target.said for change in stage.moved())
    if moved:
        more = f" and {len(moved) - NAMES_SHOWN} more" if len(moved) > NAMES_SHOWN else ""
        raise ConflictError(
            f"the world has moved since the shadow began: {', '.join(moved[:NAMES_SHOWN])}{more} changed. "
            "Nothing was done",
            hint="run the shadow again, so that it shows what would happen now",
        )


def _functions(
    workspace: Workspace, review: ShadowReview, known: Mapping[int, Function]
) -> Iterator[tuple[int, Function]]:
    """Yield the functions to call, by the numbers of the intentions. Raise UsageError if one is missing."""
    find_modules_at(workspace.root)
    for number, one in enumerate(review.intentions):
        if number in known:
            yield number, known[number]
        elif one.kind == "call" and not one.function:
            raise UsageError(
                f"{one.name} cannot be found by its name, so only the program of the shadow can promote it; nothing "
                "was done",
                hint="call run.promote() there, or move the function to the top of a module",
            )
        elif one.kind == "call":
            try:
                yield number, handlers.find(one.function)
            except BackendError as error:
                raise UsageError(f"{error.message}; nothing was done", error.hint) from error


class _Whole:
    """The answer to all requests of a promotion: the shadow was approved as a whole, or not yet."""

    def __init__(self, approve: Approve | None) -> None:
        self._approve = approve
        self.given = False

    def __call__(self, request: Any) -> bool | None:
        if self.given:
            return True
        return self._approve(request) if self._approve else None


def _ask(run: Run, review: ShadowReview, answered: _Whole) -> None:
    """Wait for the approval of exactly this review. Raise RefusedError without it."""
    careful = any(one.effect in (e.Effect.IRREVERSIBLE, e.Effect.UNKNOWN) for one in review.intentions)
    wanted = Wanted(
        f"promote {review.run}",
        e.Effect.IRREVERSIBLE if careful else e.Effect.COMPENSABLE,
        plain={"review": review.digest},
        seen={"args": [], "kwargs": review.data()},
        tool="takeback.promote",
    )
    gate = run._parts.gate
    approval = gate.ask(run.id, wanted, f"everything that the shadow {review.run} showed is done for real")
    gate.consult(approval)
    answer = gate.wait(approval.id)
    if answer is not None:
        raise RefusedError(f"{review.run} was not promoted: {answer.why}. Nothing was done")
    assert verdict(run._ledger.refresh().approvals[approval.id]) is None
    run._ledger.append([e.ApprovalUsed(approval.id)], run.id)
    answered.given = True


def _do(run: Run, review: ShadowReview, called: Mapping[int, Function]) -> dict[str, Any]:
    """Do what was intended, in order. Return the real results that take the place of stand-ins."""
    known: dict[str, Any] = {}
    numbered = enumerate(review.intentions)
    for name, some in groupby(numbered, key=lambda pair: pair[1].step):
        with run.step(name) if name else nullcontext():
            for number, one in some:
                _do_one(run, number, one, called, known)
    return known


def _do_one(
    run: Run, number: int, one: Intention, called: Mapping[int, Function], known: dict[str, Any]
) -> None:
    arguments = _real(one.name, one.arguments, known)
    if one.kind == "statement":
        return _execute(run, one, arguments)
    if one.kind == "intent":
        run.defer(one.function, *arguments["args"], key=one.key, **one.options, **arguments["kwargs"])
        return None
    function = partial(called[number], *arguments["args"], **arguments["kwargs"])
    result = plain(run.call(function, key=one.key or f"intended {number}"), f"the result of {one.name}")
    for place, mark in one.marks.items():
        try:
            known[mark] = known_at(place, result)
        except KeyError:
            continue  # whoever needs it finds that there is none
    return None


def _real(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    """Return a value with real results in place of stand-ins. Raise ConflictError if one of them has none."""
    try:
        return replaced(value, known)
    except KeyError as error:
        raise ConflictError(f"{name} needs {error.args[0]}, for which there is no real result") from None


def _execute(run: Run, one: Intention, arguments: Mapping[str, Any]) -> None:
    """Execute a statement, which has to affect as many rows as it did in the shadow."""
    with run.database(arguments["address"]) as db:
        found = db.execute(arguments["query"], arguments["values"]).rowcount
        if found != arguments["rows"]:
            rows = arguments["rows"]
            raise ConflictError(
                f"the world has moved: a statement in {one.name} affected {found} rows, and {rows} in the shadow"
            )
