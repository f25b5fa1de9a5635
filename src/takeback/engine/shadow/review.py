"""The review of a shadow: what it would do, in order; what could be taken back; what it changed in its view."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.codec import value_digest
from takeback.core.values import shortened, view
from takeback.engine.describe.wording import call_text
from takeback.engine.shadow.shadow import Intention

FORMAT = 1

BACK = {
    e.Effect.RESTORABLE: "can be taken back",
    e.Effect.TRANSACTIONAL: "can be taken back",
    e.Effect.COMPENSABLE: "can be taken back by {undo}",
    e.Effect.DEFERRED: "can be taken back until it is sent",
    e.Effect.UNKNOWN: "unknown: only what it changes in the workspace can be taken back",
    e.Effect.IRREVERSIBLE: "CANNOT be taken back",
}


class Promoted(msgspec.Struct, frozen=True):
    """A shadow that was done for real."""

    id: str
    """The run that made its calls."""
    accepted: str = ""
    """The action that made the changes of its view; empty if there were none."""

    @property
    def ids(self) -> tuple[str, ...]:
        """What to take back, to take all of it back: `tb.undo(*promoted.ids)`."""
        return tuple(filter(None, (self.id, self.accepted)))


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
    marked: tuple[str, ...] = ()
    """Files and databases that hold a stand-in: what they would really hold is not known."""


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
        if result.marked:
            lines.append(f"  stand-ins   in {', '.join(result.marked)}: so it cannot be promoted")
        if self.meanwhile:
            lines.append(f"  meanwhile   changed in the real folder: {', '.join(self.meanwhile)}")
        if result.outcome is e.Outcome.DONE and not result.marked:
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
            "stand_ins_in": list(self.result.marked),
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
