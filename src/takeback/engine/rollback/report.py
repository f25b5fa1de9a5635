"""What a rollback did, or would do, in a form that reads well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from takeback.core.change import Change, Target
from takeback.core.rollback import Do, Planned, RollbackPlan, Verdict
from takeback.errors import ConflictError, RollbackIncomplete

NAMES_SHOWN = 3

_OPEN = ("conflict", "failed", "unverifiable")

UNTOUCHED = "untouched"
"""What would have been dealt with, had nothing else stood in the way."""

_ACHIEVED = ("restored", "removed", "compensated", "cancelled", "merged")

_ORDER = (
    "restored",
    "removed",
    "compensated",
    "cancelled",
    "merged",
    "already",
    "kept",
    "conflict",
    "failed",
    "unverifiable",
    UNTOUCHED,
)
TITLES = {"undo": "Took back", "redo": "Brought back", "restore": "Restored"}
_NOTHING_DONE = {"undo": "taken back", "redo": "brought back", "restore": "restored"}
WOULD_TITLES = {"undo": "Would take back", "redo": "Would bring back", "restore": "Would restore"}
DOING = {"undo": "take back", "redo": "bring back", "restore": "restore"}
_WOULD = {
    "restore": "restored",
    "remove": "removed",
    "merge": "merged",
    "compensate": "compensated",
    "cancel": "cancelled",
    "keep": "kept",
    "leave": "kept",
}


class ReportItem(msgspec.Struct, frozen=True):
    """One target, and what was done to it. In a preview, what would be done."""

    target: Target
    did: str
    verified: bool
    why: str = ""
    blockers: tuple[str, ...] = ()
    minor: bool = False
    """Nothing that a person would miss: only a time was put back, or nothing had to be done."""
    says: str = ""
    """What was done, as a person would say it, where the name of the target does not say enough."""

    @property
    def resource(self) -> str:
        return self.target.resource

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "resource": self.target.resource,
            "target": str(self.target),
            "did": self.did,
            "verified": self.verified,
            "why": self.why,
        }
        if self.says:
            data["says"] = self.says
        return data | {"blockers": list(self.blockers)} if self.blockers else data


class RollbackReport(msgspec.Struct, frozen=True):
    """The list of targets with what was done to each. `rollback` is empty where nothing was started."""

    rollback: str
    kind: str
    of: tuple[str, ...]
    verdict: Verdict
    items: tuple[ReportItem, ...]
    preview: bool = False
    finished_earlier: bool = False
    choices: tuple[str, ...] = ()
    """What `--on-conflict` can be where it stopped, so that it would not stop again; nothing for a restore."""
    passed: tuple[str, ...] = ()
    """Later actions that may have changed something where nobody can look now, and that were passed over."""
    unknown: tuple[str, ...] = ()
    """Actions of which nobody knows what they did besides what is listed here: effects elsewhere are not known."""
    beyond: tuple[str, ...] = ()
    """Later actions that are known to have done what no undo reaches, of which nothing was found here."""
    unsettled: tuple[str, ...] = ()
    """Actions that an earlier undo has reported as unknown: without an id nothing more is done about them."""
    others: tuple[str, ...] = ()
    """Actions that stand in the way of an undo that stopped; empty where a human's changes do, too."""
    others_too: bool = False
    """Whether an undo of `of` and `others` together would not stop."""

    @property
    def is_stopped(self) -> bool:
        """Whether a conflict kept it from beginning, so that nothing was changed."""
        return self.verdict is Verdict.CONFLICT and not self.preview

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for is done and verified; in a preview, whether it would be done."""
        return self.verdict not in (Verdict.CONFLICT, Verdict.PARTIAL)

    def require_begun(self) -> RollbackReport:
        """Return this report; raise ConflictError where a conflict kept it from beginning."""
        if self.is_stopped:
            raise ConflictError(str(self), hint=hint_of(self), report=self)
        return self

    def require_complete(self) -> RollbackReport:
        """Return this report; raise ConflictError where it did not begin, RollbackIncomplete where more remains."""
        if self.verdict is Verdict.PARTIAL:
            hint = "the report names what remains; `takeback status` too"
            raise RollbackIncomplete(str(self), hint=hint, report=self)
        return self.require_begun()

    def with_unknown(self, more: tuple[str, ...]) -> RollbackReport:
        """The same where these actions, of which nothing was found here, may have done something elsewhere."""
        if not more:
            return self
        is_known = self.verdict in (Verdict.CLEAN, Verdict.NOTHING)
        verdict = Verdict.UNKNOWN if is_known else self.verdict
        return msgspec.structs.replace(self, verdict=verdict, unknown=(*self.unknown, *more))

    def __str__(self) -> str:
        if self.verdict is Verdict.CONFLICT:
            conflicts = [item for item in self.items if item.did == "conflict"]
            names, why = _names(item.target.said for item in conflicts), conflicts[0].why
            return f"Stopped at {names}: {why}. Nothing was {_NOTHING_DONE[self.kind]}."
        if not self.items:
            return f"Nothing to {DOING[self.kind]}.{self._elsewhere()}"
        parts = [f"{did} {_names(self.said[t] for t in targets)}" for did, targets in self.grouped()]
        verb = (WOULD_TITLES if self.preview else TITLES)[self.kind]
        text = f"{verb} {_counted(len(self.achieved))}: {', '.join(parts) or 'all was as before'}."
        if not self.preview:
            text += f" Verified {sum(item.verified for item in self.items)} of {len(self.items)}."
        return text + self._elsewhere()

    def _elsewhere(self) -> str:
        stays = f" It stays what {_names(self.beyond)} did elsewhere." if self.beyond else ""
        unknown = f" Unknown: whether {_names(self.unknown)} did anything elsewhere." if self.unknown else ""
        return stays + unknown

    @property
    def achieved(self) -> list[ReportItem]:
        """What a person would call taken back. What was kept, by choice or because it had to be, is not."""
        return [item for item in self.items if item.did in _ACHIEVED and not item.minor]

    def __repr__(self) -> str:
        return f"<RollbackReport {self.rollback or self.kind} {self.verdict}, {len(self.items)} items>"

    def grouped(self) -> list[tuple[str, list[Target]]]:
        """Targets by what was done to them, in the order in which a person wants to hear it."""
        groups: dict[str, list[Target]] = {}
        for item in self.items:
            if not item.minor:
                groups.setdefault(item.did, []).append(item.target)
        return [(did, sorted(groups[did])) for did in _ORDER if did in groups]

    @property
    def said(self) -> dict[Target, str]:
        """How each target is named in the report, below the word for what was done, which is not said twice."""
        return {i.target: i.says.removesuffix(f" {i.did}") or i.target.said for i in self.items}

    def data(self) -> dict[str, Any]:
        """The object that `undo --json` prints."""
        return {
            "rollback": self.rollback or None,
            "kind": self.kind,
            "of": list(self.of),
            "verdict": self.verdict.value,
            "preview": self.preview,
            "finished_earlier": self.finished_earlier,
            "unknown": list(self.unknown),
            "items": [item.data() for item in self.items],
            **({"passed_over": list(self.passed)} if self.passed else {}),
            **({"unsettled": list(self.unsettled)} if self.unsettled else {}),
        }


def of_plan(
    plan: RollbackPlan,
    kind: str,
    says: Callable[[Planned], str],
    minor: Callable[[Target], bool],
    *,
    preview: bool,
    choices: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (),
) -> RollbackReport:
    """What a plan would do, or why it was not begun. `minor` are targets that follow from others."""
    stopped = bool(plan.conflicts) and not preview
    items = tuple(
        ReportItem(
            i.target,
            did := UNTOUCHED if stopped and i.do is not Do.CONFLICT else _WOULD.get(i.do, i.do.value),
            False,
            i.why,
            i.blockers,
            is_minor(did, i, follows=minor(i.target)),
            "" if did == UNTOUCHED else says(i),
        )
        for i in plan.items
    )
    verdict = Verdict.CLEAN
    if any(item.do is Do.CONFLICT for item in plan.items):
        verdict = Verdict.CONFLICT
    elif any(item.do is Do.LEAVE for item in plan.items):
        verdict = Verdict.PARTIAL
    elif unknown:
        verdict = Verdict.UNKNOWN
    elif not any(item.changes_something for item in plan.items):
        verdict = Verdict.NOTHING
    return RollbackReport(
        "", kind, plan.of, verdict, items, preview=preview, choices=choices, unknown=unknown
    )


TRY_AGAIN = "try again"
"""What a resource says of something that stands in the way only now."""


def hint_of(report: RollbackReport) -> str:
    """How to go on from a conflict."""
    if not report.choices:
        return "what stands in the way is named above; `--path` restores the rest, path by path"
    if any(item.did == "conflict" and TRY_AGAIN in item.why for item in report.items):
        # Another choice would not help.
        return "nothing is lost; try again when the other process is done, or end it"
    *most, last = report.choices
    return f"choose with --on-conflict {', '.join(most)} or {last}"


def is_minor(did: str, change: Change | Planned | None, *, follows: bool = False) -> bool:
    """Whether a person would not miss it. `follows` says that it goes with another target."""
    if did == "already" or (follows and did not in _OPEN):
        return True
    if isinstance(change, Planned):
        return change.changes_something and change.present == change.goal
    return change is not None and change.before == change.after


def _counted(changes: int) -> str:
    return f"{changes or 'no'} change{'' if changes == 1 else 's'}"


def _names(names: Iterable[str]) -> str:
    every = list(names)
    if len(every) <= NAMES_SHOWN:
        return " and ".join(filter(None, [", ".join(every[:-1]), every[-1] if every else ""]))
    return f"{', '.join(every[:NAMES_SHOWN])} and {len(every) - NAMES_SHOWN:,} more"
