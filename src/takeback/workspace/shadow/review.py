"""The review of a shadow: what it would do, in order; what could be taken back; what it changed in its view."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.codec import value_digest
from takeback.core.values import shortened, view
from takeback.engine.describe.accounts import CHANGES
from takeback.engine.describe.wording import call_text
from takeback.engine.shadow.shadow import Intention
from takeback.errors import CorruptionError, UsageError
from takeback.system import processes
from takeback.system.private_files import write_whole
from takeback.workspace.staging import Stage, StageLook
from takeback.workspace.workspace import Workspace

FORMAT = 1
FILE = "shadow.json"

BACK = {
    e.Effect.RESTORABLE: "can be taken back",
    e.Effect.TRANSACTIONAL: "can be taken back",
    e.Effect.COMPENSABLE: "can be taken back by {undo}",
    e.Effect.DEFERRED: "can be taken back until it is sent",
    e.Effect.UNKNOWN: "unknown: only what it changes in the workspace can be taken back",
    e.Effect.IRREVERSIBLE: "CANNOT be taken back",
}


class ShadowDeed(msgspec.Struct, frozen=True):
    """One call of a shadow, as its own journal has it."""

    name: str
    tool: str
    step: str
    key: str
    arguments: Any
    result: Any
    effect: e.Effect
    why: str = ""


class ShadowResult(msgspec.Struct, frozen=True):
    """What came of a shadow, told by the process that ran it."""

    name: str
    outcome: e.Outcome
    """Stopped means that the shadow could not go on, and ended early."""
    why: str
    intentions: tuple[Intention, ...]
    memory: dict[str, Any]
    deeds: tuple[ShadowDeed, ...]
    """All its calls in order: those that were made in the view, and those that were only intended."""


class ShadowReview(msgspec.Struct, frozen=True, kw_only=True):
    """The review of a shadow. `str()` is its text."""

    format: int = FORMAT
    run: str
    """The id of the shadow in the log of the workspace."""
    view: str
    """The view with its changes."""
    result: ShadowResult
    changes: tuple[str, ...]
    """What it changed in its view, as text."""
    meanwhile: tuple[str, ...] = ()
    """What changed in the real folder while it ran: you, or a program with absolute paths."""

    @property
    def digest(self) -> str:
        """The digest of exactly what is shown, to which an approval is bound."""
        return value_digest(msgspec.to_builtins(self))

    @property
    def intentions(self) -> tuple[Intention, ...]:
        """Everything that it would have done outside of its view, in order."""
        return self.result.intentions

    def __repr__(self) -> str:
        made, would = len(self.changes), len(self.intentions)
        return f"<ShadowReview {self.run} {self.result.outcome}, {would} intended, {made} changes>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the review as lines for people. Nothing is left out: a deletion must not hide behind "and more"."""
        result = self.result
        how = {"done": "done", "failed": "failed", "stopped": "ended early"}[result.outcome.value]
        lines = [
            f"Shadow {self.run} of {result.name!r}: {how}. Nothing was done outside the view {self.view}."
        ]
        if result.why:
            lines.append(f"  why         {result.why}")
        for number, one in enumerate(self.intentions, 1):
            lines.append(f"  {number:>3}. would {_told(one)}")
            lines.append(f"       {back_of(one)}{f'; asks first: {one.asks}' if one.asks else ''}")
        if not self.intentions:
            lines.append("  It would call nothing and send nothing.")
        lines += [f"  changes     {line}" for line in self.changes] or ["  changes     nothing"]
        if self.meanwhile:
            lines.append(f"  meanwhile   changed in the real folder: {', '.join(self.meanwhile)}")
        if result.outcome is e.Outcome.DONE:
            lines.append(f"  look        takeback stage diff {self.view}")
            lines.append(
                f"  do it       takeback promote {self.run}        drop it   takeback stage drop {self.view}"
            )
        return lines

    def data(self) -> dict[str, Any]:
        """Return the review as data for programs, without secrets."""
        return {
            "run": self.run,
            "view": self.view,
            "name": self.result.name,
            "outcome": self.result.outcome.value,
            "why": self.result.why,
            "intended": [_data(one) for one in self.intentions],
            "changes": list(self.changes),
            "meanwhile": list(self.meanwhile),
            "digest": self.digest,
        }


def back_of(one: Intention) -> str:
    """Return whether an intention, once done, could be taken back."""
    return BACK[one.effect].format(undo=one.undo.rpartition(":")[2] or "its handler")


def _told(one: Intention) -> str:
    verb = {"call": "call", "intent": "send", "statement": "execute in"}[one.kind]
    return f"{verb} {call_text(one.name, one.shown)}"


def _data(one: Intention) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name,
        "tool": one.tool,
        "step": one.step,
        "effect": one.effect.value,
        "arguments": one.shown,
        "result": shortened(view(one.result)),
        "stood_in": one.how,
        "asks": one.asks,
        "back": back_of(one),
    }


# Keeping it


def keep(workspace: Workspace, stage: Stage, result: ShadowResult, look: StageLook) -> ShadowReview:
    """Record a shadow in the log of the real workspace, and keep its review with its view."""
    changed = [
        (change, said)
        for change, said, minor in zip(look.changes, look.said, look.minor, strict=True)
        if not minor
    ]
    run = _record(workspace, stage.name, result, [change for change, _ in changed])
    review = ShadowReview(
        run=run,
        view=stage.name,
        result=result,
        changes=tuple(said or f"{_verb(change)} {change.target.said}" for change, said in changed),
        meanwhile=tuple(sorted(change.target.said for change in stage.moved())),
    )
    write_whole(stage.folder.path / FILE, msgspec.json.encode(review))
    return review


def _verb(change: Any) -> str:
    if not change.before:
        return "create"
    return "change" if change.after else "delete"


def find(workspace: Workspace, run: str) -> ShadowReview:
    """Return the review of a shadow. Raise UsageError if the run is not one, or its view is gone."""
    recorded = workspace.history.runs.get(run)
    if recorded is None:
        raise UsageError(
            f"there is no run {run}; nothing was done", hint="`takeback log` lists what there is"
        )
    if not recorded.began.shadow:
        raise UsageError(
            f"{run} is not a shadow; nothing was done", hint="tb.run(..., shadow=True) begins one"
        )
    path: Path = workspace.stages[recorded.began.shadow].folder.path / FILE
    try:
        review = msgspec.json.decode(path.read_bytes(), type=ShadowReview)
    except (OSError, msgspec.DecodeError) as error:
        raise CorruptionError(f"the review of {run} cannot be read: {error}; nothing was done") from error
    if review.run != run:
        raise UsageError(f"the view {review.view} belongs to another shadow, {review.run}; nothing was done")
    return review


def _record(workspace: Workspace, view_name: str, result: ShadowResult, changes: list[Any]) -> str:
    """Record what a shadow intended and changed as notes without any effect. Return its id."""
    append = workspace.known.ledger.append
    began = e.RunBegan(result.name, shadow=view_name, detached=True, process=processes.this_process())
    run = append([began], "")[0].id
    for number, (name, some) in enumerate(groupby(result.deeds, key=lambda deed: deed.step)):
        step = append([e.StepBegan(name)], run)[0].id if name else ""
        body = [e.ActionNoted(name, e.Outcome.DONE, step)] if name else []
        notes = [_noted(deed, f"{number}.{n}", step) for n, deed in enumerate(some)]
        append([*body, *notes, *([e.StepEnded(step, e.Outcome.DONE)] if name else [])], run)
    told = [[change.target.said, change.before.id, change.after.id] for change in changes]
    kept = workspace.parts.calls.keep(told)
    noted = e.ActionNoted(
        "changes in the view", e.Outcome.DONE, key="changes", result=kept.view, full=kept.full, tool=CHANGES
    )
    append([noted, e.RunEnded(result.outcome, result.why)], run)
    return run


def _noted(deed: ShadowDeed, number: str, step: str) -> e.ActionNoted:
    return e.ActionNoted(
        deed.name,
        e.Outcome.DONE,
        step,
        key=deed.key or number,
        arguments=deed.arguments,
        result=deed.result,
        tool=deed.tool,
        intended=None if deed.effect is e.Effect.NONE else deed.effect,
        why=deed.why,
    )
