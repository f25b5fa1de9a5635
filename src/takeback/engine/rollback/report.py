"""The report of a rollback: what it did or would do, for people and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core.change import Change, Target
from takeback.core.listing import ListedChange, ListLine, ListPlace, lines_of, listed_back, place_of
from takeback.core.rollback import Do, Planned, RollbackPlan, Verdict
from takeback.errors import ConflictError, RollbackIncomplete

NAMES_SHOWN = 3

_OPEN = ("conflict", "failed", "unverifiable")

UNTOUCHED = "untouched"
"""Items that a stopped rollback would have handled if there were no conflict."""

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
TITLES = {"undo": "Took back", "redo": "Brought back", "restore": "Restored", "accept": "Accepted"}
_NOTHING_DONE = {
    "undo": "taken back",
    "redo": "brought back",
    "restore": "restored",
    "accept": "accepted",
}
WOULD_TITLES = {
    "undo": "Would take back",
    "redo": "Would bring back",
    "restore": "Would restore",
    "accept": "Would accept",
}
DOING = {"undo": "take back", "redo": "bring back", "restore": "restore", "accept": "accept"}
_ACCEPTED = {"restored": "wrote", "removed": "deleted"}
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
    """One target, and what was done to it or, in a preview, would be done."""

    target: Target
    did: str
    verified: bool
    why: str = ""
    blockers: tuple[str, ...] = ()
    minor: bool = False
    """True if it hardly matters: only a time was put back, or nothing had to be done."""
    says: str = ""
    """A description for people, if the name of the target is not enough."""
    listed: ListedChange | None = None
    """Its place in a list for people."""
    of: tuple[str, ...] = ()
    """The actions that made the changes which it takes back."""

    @property
    def said(self) -> str:
        """The text for people, without repeating what was done."""
        return self.says.removesuffix(f" {self.did}") or self.target.said

    def __repr__(self) -> str:
        return f"<ReportItem {str(self.target)[:80]} {self.did}{'' if self.verified else ', not verified'}>"

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


class CheckResult(msgspec.Struct, frozen=True):
    """The answer of one check that was asked after a rollback."""

    name: str
    passed: bool
    why: str = ""

    def data(self) -> dict[str, Any]:
        return {"check": self.name, "passed": self.passed, "why": self.why}


class RollbackReport(msgspec.Struct, frozen=True):
    """The list of targets with what was done to each. `rollback` is empty if no rollback began."""

    rollback: str
    kind: str
    of: tuple[str, ...]
    verdict: Verdict
    items: tuple[ReportItem, ...]
    preview: bool = False
    finished_earlier: bool = False
    choices: tuple[str, ...] = ()
    """The values of `--on-conflict` with which it would not stop again; empty for a restore."""
    passed: tuple[str, ...] = ()
    """Later actions that were skipped: they may have changed something that is now unreachable."""
    unknown: tuple[str, ...] = ()
    """Actions that may have had more effects elsewhere than this report lists."""
    doubtful: tuple[str, ...] = ()
    """Actions that may have made a change that was kept: it is unknown whose it is."""
    beyond: tuple[str, ...] = ()
    """Later actions that did something irreversible elsewhere and changed nothing here."""
    unsettled: tuple[str, ...] = ()
    """Actions that an earlier undo could not verify: only an undo with their id tries again."""
    others: tuple[str, ...] = ()
    """Actions that an undo stopped at; empty if a human's changes are in the way too."""
    others_too: bool = False
    """True if an undo of `of` and `others` together would not stop."""
    files_apart: bool = False
    """True if an undo of the files alone could be merged: a branch cannot be, and is in the way."""

    checks: tuple[CheckResult, ...] = ()
    """The answers of the checks that were asked afterwards; if one failed, the verdict is partial."""

    @property
    def is_stopped(self) -> bool:
        """True if a conflict kept it from beginning, so that nothing was changed."""
        return self.verdict is Verdict.CONFLICT and not self.preview

    @property
    def is_complete(self) -> bool:
        """True if everything requested is done and verified; in a preview, if it would be done."""
        return self.verdict not in (Verdict.CONFLICT, Verdict.PARTIAL)

    def require_begun(self) -> RollbackReport:
        """Return this report; raise ConflictError if a conflict kept it from beginning."""
        if self.is_stopped:
            raise ConflictError(str(self), hint=hint_of(self), report=self)
        return self

    def require_complete(self) -> RollbackReport:
        """Return this report; raise ConflictError if it did not begin, RollbackIncomplete if something remains."""
        if self.verdict is Verdict.PARTIAL:
            hint = "the report names what remains; `takeback status` too"
            raise RollbackIncomplete(str(self), hint=hint, report=self)
        return self.require_begun()

    def with_unknown(self, more: tuple[str, ...]) -> RollbackReport:
        """Return this report with more actions that changed nothing here but may have done something elsewhere."""
        if not more:
            return self
        is_known = self.verdict in (Verdict.CLEAN, Verdict.NOTHING)
        verdict = Verdict.UNKNOWN if is_known else self.verdict
        return msgspec.structs.replace(self, verdict=verdict, unknown=(*self.unknown, *more))

    def __str__(self) -> str:
        if self.verdict is Verdict.CONFLICT:
            lines = dict(self.lists())["conflict"]
            why = next(item.why for item in self.items if item.target == lines[0].targets[0])
            names = _names(self.texts(lines), _sizes(lines))
            return f"Stopped at {names}: {why.partition(BY_HAND)[0]}. Nothing was {_NOTHING_DONE[self.kind]}."
        if not self.items:
            return f"Nothing to {DOING[self.kind]}.{self._elsewhere()}{self._checked()}"
        words = _ACCEPTED if self.kind == "accept" else {}
        parts = [
            f"{words.get(did, did)} {_names(self.texts(lines), _sizes(lines))}" for did, lines in self.lists()
        ]
        verb = (WOULD_TITLES if self.preview else TITLES)[self.kind]
        text = f"{verb} {_counted(len(self.achieved))}: {', '.join(parts) or 'all was as before'}."
        if not self.preview:
            verified, total = self.verified
            text += f" Verified {verified:,} of {total:,}."
        return text + self._elsewhere() + self._checked()

    def _checked(self) -> str:
        failed = [check for check in self.checks if not check.passed]
        passed = len(self.checks) - len(failed)
        done = f" {passed} check{'' if passed == 1 else 's'} passed." if passed else ""
        return done + "".join(f" The check {check.name} failed: {check.why}." for check in failed)

    def _elsewhere(self) -> str:
        stays = f" What {_names(self.beyond)} did elsewhere stays." if self.beyond else ""
        unknown = f" Unknown: whether {_names(self.unknown)} did anything elsewhere." if self.unknown else ""
        doubt = f" Unknown: whether {_names(self.doubtful)} changed what was kept." if self.doubtful else ""
        return stays + doubt + unknown

    @property
    def achieved(self) -> list[ReportItem]:
        """The items that were taken back. What was kept, by choice or by necessity, is not among them."""
        return [item for item in self.items if item.did in _ACHIEVED and not item.minor]

    @property
    def verified(self) -> tuple[int, int]:
        """How many items were verified, and of how many. What hardly matters counts only if it was not verified."""
        told = [item for item in self.items if not (item.minor and item.verified)] or self.items
        return sum(item.verified for item in told), len(told)

    def __repr__(self) -> str:
        return f"<RollbackReport {self.rollback or self.kind} {self.verdict}, {len(self.items)} items>"

    def grouped(self) -> list[tuple[str, list[Target]]]:
        """Return the targets by what was done to them, in the order of the report."""
        groups: dict[str, list[Target]] = {}
        for item in self.items:
            if not item.minor:
                groups.setdefault(item.did, []).append(item.target)
        return [(did, sorted(groups[did])) for did in _ORDER if did in groups]

    def lists(self, *, folding: bool = True) -> list[tuple[str, list[ListLine]]]:
        """Return the lines for people by what was done, in the order of the report: what matters most first."""
        groups: dict[str, list[ListedChange]] = {}
        for item in self.items:
            if not item.minor:
                placed = item.listed or ListedChange(item.target, place_of(item.target))
                groups.setdefault(item.did, []).append(placed)
        return [(did, lines_of(groups[did], folding=folding)) for did in _ORDER if did in groups]

    def texts(self, lines: Iterable[ListLine]) -> list[str]:
        """Return the text of each line."""
        said = {item.target: item.said for item in self.items if item.says}
        return [line.said if line.is_folded else said.get(line.targets[0], line.name) for line in lines]

    def data(self) -> dict[str, Any]:
        """Return the object that `undo --json` prints."""
        return {
            "rollback": self.rollback or None,
            "kind": self.kind,
            "of": list(self.of),
            "verdict": self.verdict.value,
            "preview": self.preview,
            "finished_earlier": self.finished_earlier,
            "unknown": list(dict.fromkeys((*self.doubtful, *self.unknown))),
            "items": [item.data() for item in self.items],
            **({"checks": [check.data() for check in self.checks]} if self.checks else {}),
            **({"passed_over": list(self.passed)} if self.passed else {}),
            **({"unsettled": list(self.unsettled)} if self.unsettled else {}),
        }


def of_plan(
    plan: RollbackPlan,
    kind: str,
    says: Callable[[Planned], str],
    minor: Callable[[Target], bool],
    places: Mapping[Target, ListPlace],
    *,
    preview: bool,
    choices: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (),
    doubtful: tuple[str, ...] = (),
) -> RollbackReport:
    """Return the report of a plan that was not carried out. `minor` says which targets follow from others."""
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
            listed_back(Change(i.target, i.present, i.goal), places, kind),
            i.settles,
        )
        for i in plan.items
    )
    verdict = Verdict.CLEAN
    if any(item.do is Do.CONFLICT for item in plan.items):
        verdict = Verdict.CONFLICT
    elif any(item.do is Do.LEAVE for item in plan.items):
        verdict = Verdict.PARTIAL
    elif unknown or doubtful:
        verdict = Verdict.UNKNOWN
    elif not any(item.changes_something for item in plan.items):
        verdict = Verdict.NOTHING
    return RollbackReport(
        "",
        kind,
        plan.of,
        verdict,
        items,
        preview=preview,
        choices=choices,
        unknown=unknown,
        doubtful=doubtful,
    )


BY_HAND = "; by hand: "
"""What is between a reason and a command that a human can use instead."""
TRY_AGAIN = "try again"
"""The words with which a resource marks a conflict that is only temporary."""


def hint_of(report: RollbackReport) -> str:
    """Return the hint for a conflict."""
    if not report.choices:
        return "the conflicts are named above; `--path` restores the rest, path by path"
    if any(item.did == "conflict" and TRY_AGAIN in item.why for item in report.items):
        # Another choice would not help.
        return "nothing is lost; try again when the other process is done, or end it"
    *most, last = report.choices
    return f"choose with --on-conflict {', '.join(most)} or {last}"


def is_minor(did: str, change: Change | Planned | None, *, follows: bool = False) -> bool:
    """Return whether an item hardly matters to people. `follows` means that it comes with another target."""
    if did == "already" or (follows and did not in _OPEN):
        return True
    if isinstance(change, Planned):
        return change.changes_something and change.present == change.goal
    return change is not None and change.before == change.after


def _counted(changes: int) -> str:
    return f"{changes or 'no'} change{'' if changes == 1 else 's'}"


def _sizes(lines: Iterable[ListLine]) -> list[int]:
    return [len(line.targets) for line in lines]


def _names(names: Iterable[str], sizes: Sequence[int] = ()) -> str:
    """Return the first names, and how many more there are; `sizes`: for how many targets each name stands."""
    every = list(names)
    if len(every) <= NAMES_SHOWN:
        return " and ".join(filter(None, [", ".join(every[:-1]), every[-1] if every else ""]))
    left = sum(sizes[NAMES_SHOWN:]) if sizes else len(every) - NAMES_SHOWN
    return f"{', '.join(every[:NAMES_SHOWN])} and {left:,} more"
