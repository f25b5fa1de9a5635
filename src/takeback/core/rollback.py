"""The take-back rule.

For one target, the selected changes in order compose into segments: within a segment each change starts where the
one before ended. A gap between two segments is someone else's version. Going backwards from the present:

- the present equals the segment's `after`: put its `before` there;
- it equals `before`: this segment is already taken back;
- anything else: someone else wrote. That is a conflict, and the user's choice decides: stop (nothing at all is
  changed), keep (end here, with their version), merge (three-way, between their version, what the agent wrote and
  what was there before it), overwrite (go to the first `before`; their version stays recoverable).

A segment that changed only the stamp (a touched file) is put back if the stamp is still the segment's own;
otherwise it is skipped, because no content is at stake.

A divisible target (a database, with its rows) is merged whatever was chosen: what someone else did to other
parts of it stays. Only a part that both changed is a conflict.

A change that someone else may have made (two agents at once, or in doubt after a crash) is always a conflict,
unless every action that may have made it is selected too, or the target is back at its first version. The same
rule, applied to a rollback's own changes, is redo.

This module decides and does not act; `Plan` can be shown before anything is touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from itertools import pairwise

import msgspec

from takeback.core.change import Change, Entry, Target, Version
from takeback.core.entities import RecordedAction
from takeback.core.events import Did, Item, RollbackKind
from takeback.core.history import History
from takeback.core.selection import Selection

IN_DOUBT = "it is in doubt who changed it"


class Dependents(StrEnum):
    """What an undo does about steps that used the result of what it takes back."""

    STOP = "stop"
    TAKE = "take"
    LEAVE = "leave"


class OnConflict(StrEnum):
    STOP = "stop"
    KEEP = "keep"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class Do(StrEnum):
    """What is to be done about one target."""

    RESTORE = "restore"
    REMOVE = "remove"
    ALREADY = "already"
    KEEP = "keep"
    MERGE = "merge"
    COMPENSATE = "compensate"
    CANCEL = "cancel"
    LEAVE = "leave"
    """It stays because it has to, not because the user chose so."""
    CONFLICT = "conflict"


class Segment(msgspec.Struct, frozen=True):
    """Consecutive changes without a gap, as one change from `before` to `after`."""

    before: Version
    after: Version
    actions: tuple[str, ...]
    doubt: str = ""

    def is_taken_back(self, present: Version) -> bool:
        return present.alike(self.before) if self.only_stamp else present == self.before

    def stands(self, present: Version) -> bool:
        return present.alike(self.after) if self.only_stamp else present == self.after

    @property
    def only_stamp(self) -> bool:
        return self.before == self.after


class Merge(msgspec.Struct, frozen=True):
    """A difference, from `base` to `goal`, to be applied to the present."""

    base: Version
    goal: Version


class Planned(msgspec.Struct, frozen=True):
    """One target of a plan. In the compare-and-swap, `present` is compared and `goal` is put in its place."""

    target: Target
    do: Do
    present: Version
    goal: Version
    settles: tuple[str, ...]
    seqs: tuple[int, ...] = ()
    why: str = ""
    merges: tuple[Merge, ...] = ()
    blockers: tuple[str, ...] = ()
    """Later actions by others on the same target, which the selection does not include."""

    @property
    def changes_something(self) -> bool:
        return self.do in (Do.RESTORE, Do.REMOVE, Do.MERGE, Do.COMPENSATE, Do.CANCEL)


class RollbackPlan(msgspec.Struct, frozen=True):
    """What a rollback would do, in order."""

    of: tuple[str, ...]
    items: tuple[Planned, ...]
    on_conflict: OnConflict

    @property
    def conflicts(self) -> tuple[Planned, ...]:
        return tuple(item for item in self.items if item.do is Do.CONFLICT)

    @property
    def swaps(self) -> tuple[Change, ...]:
        """The writes of the plan, as changes."""
        return tuple(Change(i.target, i.present, i.goal) for i in self.items if i.changes_something)

    def decided(self, otherwise: Mapping[Target, Planned]) -> RollbackPlan:
        """Return this plan with some items replaced."""
        if not otherwise:
            return self
        items = tuple(otherwise.get(item.target, item) for item in self.items)
        return msgspec.structs.replace(self, items=items)


def _nothing(_target: Target) -> bool:
    return False


def plan_rollback(
    history: History,
    selection: Selection,
    present: Callable[[Iterable[Target]], Mapping[Target, Version]],
    *,
    on_conflict: OnConflict = OnConflict.STOP,
    divisible: Callable[[Target], bool] = _nothing,
) -> RollbackPlan:
    """Decide about every target of the selection, latest change first."""
    by_target: dict[Target, list[Entry]] = defaultdict(list)
    for entry in selection.entries:
        by_target[entry.target].append(entry)
    now = present(list(by_target)) if by_target else {}
    latest_first = sorted(by_target.items(), key=lambda pair: pair[1][-1].seq, reverse=True)
    items = [
        _decide(history, selection, target, entries, now[target], on_conflict, divisible=divisible(target))
        for target, entries in latest_first
    ]
    for action, target in selection.bare:
        last = next(history.latest_entries(target), None)
        there = last.change.after if last else Version("unknown")
        items.append(Planned(target, Do.ALREADY, there, there, (action,), why="it was not changed then"))
    return RollbackPlan(selection.actions, tuple(items), on_conflict)


def compose(entries: Iterable[Entry], selected: Iterable[str], unsure: Collection[str] = ()) -> list[Segment]:
    """Join changes of one target, in order, into segments. All changes of `unsure` actions are in doubt."""
    chosen = frozenset(selected)
    segments: list[Segment] = []
    for entry in entries:
        change = entry.change
        doubt = IN_DOUBT if entry.action in unsure else _doubt(entry, chosen)
        last = segments[-1] if segments else None
        if last and last.after == change.before and not doubt and not last.doubt:
            segments[-1] = Segment(last.before, change.after, (*last.actions, entry.action))
        else:
            segments.append(Segment(change.before, change.after, (entry.action,), doubt))
    return segments


def _doubt(entry: Entry, chosen: frozenset[str]) -> str:
    if entry.change.in_doubt:
        return IN_DOUBT
    makers = (entry.action, *entry.change.shared_with)
    if chosen.issuperset(makers):
        return ""
    return f"{' or '.join(makers)} changed it, while both were running"


def _decide(
    history: History,
    selection: Selection,
    target: Target,
    entries: list[Entry],
    present: Version,
    choice: OnConflict,
    *,
    divisible: bool,
) -> Planned:
    unsure = {entry.action for entry in entries if history.actions[entry.action].unsure}
    segments = compose(entries, selection.actions, unsure)
    settles = tuple(
        dict.fromkeys(id for entry in entries for id in _makers(entry) if id in selection.actions)
    )
    seqs = tuple(entry.seq for entry in entries)
    if _came_and_went(segments, present):
        return Planned(target, Do.ALREADY, present, present, settles, seqs)
    changed = partial(_changed_by, history, target, entries)
    planned = _ruled(target, segments, present, choice, changed, divisible=divisible)
    blockers = _blockers(history, target, entries) if planned.do is Do.CONFLICT else ()
    return msgspec.structs.replace(planned, settles=settles, seqs=seqs, blockers=blockers)


def plan_acceptance(
    changes: Iterable[Change],
    present: Callable[[Iterable[Target]], Mapping[Target, Version]],
    *,
    on_conflict: OnConflict = OnConflict.STOP,
    divisible: Callable[[Target], bool] = _nothing,
) -> RollbackPlan:
    """Decide about every change of a view, to be made in the workspace: the rule above, applied to its inverse.

    What differs from where the view began was changed by someone else.
    """
    wanted = {change.target: change for change in changes}
    now = present(list(wanted)) if wanted else {}
    items = [
        _ruled(
            target,
            [Segment(change.after, change.before, ())],
            now[target],
            on_conflict,
            lambda: "you changed it since the view began",
            divisible=divisible(target),
        )
        for target, change in wanted.items()
    ]
    return RollbackPlan((), tuple(items), on_conflict)


def _ruled(
    target: Target,
    segments: list[Segment],
    present: Version,
    choice: OnConflict,
    changed: Callable[[], str],
    *,
    divisible: bool,
) -> Planned:
    """Apply the rule to the segments of one target. `changed` says who else changed it."""
    version, why = present, ""
    merges: list[Merge] = []
    for segment in reversed(segments):
        if not merges and segment.is_taken_back(version):
            continue
        # Putting back what is gone destroys nothing, whoever removed it.
        if not merges and (not segment.doubt or not version) and segment.stands(version):
            version = segment.before
            continue
        if segment.only_stamp:
            continue
        why = segment.doubt or changed()
        if choice is OnConflict.OVERWRITE:
            version = next(s.before for s in segments if not s.only_stamp)
            break
        if (choice is OnConflict.MERGE or divisible) and not segment.doubt:
            merges.append(Merge(segment.after, segment.before))
            continue
        if choice is OnConflict.KEEP:
            break
        return Planned(target, Do.CONFLICT, present, present, (), why=why)
    do = _what(version, present, kept=bool(why), merging=bool(merges))
    return Planned(target, do, present, version, (), why=why, merges=tuple(merges))


def _changed_by(history: History, target: Target, entries: list[Entry]) -> str:
    """Return who changed a target after the selected changes. What no action did was done by the user."""
    mine = {entry.seq for entry in entries}
    latest = next((entry for entry in history.latest_entries(target) if entry.seq not in mine), None)
    if latest is None or latest.seq < entries[0].seq or history.actions[latest.action].kind == "outside":
        return "you changed it since"
    return f"{latest.action} changed it since"


def _came_and_went(segments: list[Segment], present: Version) -> bool:
    """Return whether the target is back at its first version with no other change in between.

    Then it does not matter who made the changes.
    """
    chained = all(one.after == other.before for one, other in pairwise(segments))
    is_back = segments[0].before == present == segments[-1].after
    return chained and is_back and any(segment.doubt for segment in segments)


def _what(version: Version, present: Version, *, kept: bool, merging: bool) -> Do:
    if merging:
        return Do.MERGE
    if kept and version == present:
        return Do.KEEP  # with its own stamp: to put another one there would look as if it had been taken back
    if version.alike(present):
        return Do.ALREADY
    return Do.RESTORE if version else Do.REMOVE


def _makers(entry: Entry) -> tuple[str, ...]:
    return (entry.action, *entry.change.shared_with)


def _blockers(history: History, target: Target, entries: list[Entry]) -> tuple[str, ...]:
    """Return the actions that changed the target after the first selected change and are not selected."""
    mine = {entry.seq for entry in entries}
    return tuple(
        dict.fromkeys(
            entry.action
            for entry in history.timeline(target, after=entries[0].seq)
            if entry.seq not in mine and not history.taken_back(entry.action, target, entry.seq)
        )
    )


class Verdict(StrEnum):
    """The whole of a rollback in one word.

    Clean means that every item was verified against the world and every effect is known. Unknown means that every
    item was verified, but an action that was taken back may have done more, elsewhere or by a change that was kept.
    """

    CLEAN = "clean"
    UNKNOWN = "unknown"
    PARTIAL = "partial"
    NOTHING = "nothing"
    CONFLICT = "conflict"


_OPEN = {Did.CONFLICT, Did.FAILED, Did.UNVERIFIABLE}


def judge(items: Iterable[Item], unknown: Collection[str] = ()) -> Verdict:
    """Return the verdict on a completed rollback. `unknown` are actions that may have done more."""
    every = list(items)
    if any(item.did in _OPEN or not item.verified for item in every):
        return Verdict.PARTIAL
    if unknown:
        return Verdict.UNKNOWN
    return Verdict.CLEAN if every else Verdict.NOTHING


def unknown_among(history: History, kind: RollbackKind, of: Iterable[str]) -> tuple[str, ...]:
    """Return the actions that may have done more than an undo of them takes back.

    Actions that share a change with them count too. A redo and a restore only concern recorded items. Actions
    that were taken back earlier were reported then.
    """
    if kind is not RollbackKind.UNDO:
        return ()
    chosen = [id for id in of if id in history.actions]
    shared = [maker for id in chosen for entry in history.live(id) for maker in _makers(entry)]
    every = [history.actions[id] for id in dict.fromkeys((*chosen, *shared))]
    return tuple(action.id for action in every if action.is_unknown and not history.is_undone(action.id))


def doubtful_among(
    history: History, kind: RollbackKind, of: Iterable[str], kept: Collection[Target]
) -> tuple[str, ...]:
    """Return the actions of an undo that may have made a change that it keeps: it is unknown whose it is."""
    if kind is not RollbackKind.UNDO or not kept:
        return ()
    chosen = [id for id in of if id in history.actions]
    every = frozenset(chosen)
    return tuple(
        id
        for id in chosen
        if any(
            entry.target in kept and (history.actions[id].unsure or _doubt(entry, every))
            for entry in history.live(id)
        )
    )


def passed_over(history: History, of: Collection[str]) -> tuple[RecordedAction, ...]:
    """Return the unknown and irreversible actions that an undo of the last change skips: they changed nothing here.

    They are later than what the undo takes back, and than the last rollback, whose report named the earlier ones.
    """
    found: list[RecordedAction] = []
    for action in reversed(history.actions.values()):
        if action.id in of or action.is_rollback:
            break
        if action.is_unknown or action.leaves_something:
            found.append(action)
    return tuple(reversed(found))
