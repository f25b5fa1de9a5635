"""Carrying out rollbacks that the core planned: undo, redo, restore; and finishing one that a crash interrupted.

    look at the present → plan → record the plan → swap → read the world again → record what was done

The recorded plan is the point of no return. Before it nothing has changed; after it the plan is carried out, by this
process or by the next command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Concatenate, ParamSpec

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core import selection as select
from takeback.core.change import ABSENT, IN_ROOT, Change, Target, Version
from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.core.listing import ListPlace, listed_back
from takeback.core.rollback import (
    Dependents,
    Do,
    OnConflict,
    Planned,
    RollbackPlan,
    doubtful_among,
    judge,
    passed_over,
    plan_acceptance,
    plan_rollback,
    unknown_among,
)
from takeback.core.selection import Filter, Selection, any_target
from takeback.engine.past.moments import Moments
from takeback.engine.rollback import items as rollback_items
from takeback.engine.rollback import restore as rollback_restore
from takeback.engine.rollback import unreachable
from takeback.engine.rollback import unreachable as rollback_unreachable
from takeback.engine.rollback.afterwards import CommandChecks, RollbackCheck, asked
from takeback.engine.rollback.busy import BusyWait, is_mine, refuse_background
from takeback.engine.rollback.report import ReportItem, RollbackReport, is_minor, of_plan
from takeback.engine.runs.recorded_calls import RecordedCalls, left_standing
from takeback.engine.tracking.recovery import end_taken_back, is_waiting, settle
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import ConflictError, RunBusy, UsageError
from takeback.ports.resource import Resource, Swap, Swapped
from takeback.system import crash_points
from takeback.system.processes import no_collection

PLANNED = crash_points.crash_point("rollback-planned")
RECORDED = crash_points.crash_point("rollback-recorded")
SWAPPED = crash_points.crash_point("rollback-swapped")
ENDED = crash_points.crash_point("rollback-ended")

PROGRESSED = crash_points.crash_point("rollback-progressed")


Places = Callable[[Iterable[Change]], Mapping[Target, ListPlace]]
"""Returns how much each of these changes matters to a person."""


P = ParamSpec("P")


def _asking(
    method: Callable[Concatenate[Rollbacks, P], RollbackReport],
) -> Callable[Concatenate[Rollbacks, P], RollbackReport]:
    """Ask the checks of takeback.toml when the method has released the lock: they may take a while."""

    @wraps(method)
    def asks(self: Rollbacks, /, *args: P.args, **kwargs: P.kwargs) -> RollbackReport:
        return asked(method(self, *args, **kwargs), (), self.checks())

    return asks


class Rollbacks:
    """The rollbacks of one workspace."""

    def __init__(
        self,
        tracker: Tracker,
        moments: Moments,
        calls: RecordedCalls,
        actor: str,
        places: Places,
        checks: Callable[[], CommandChecks],
    ) -> None:
        """`checks` returns the commands that are asked after each rollback, as accepted by now."""
        self.tracker = tracker
        self.moments = moments
        self._places = places
        self.calls = calls
        self.ledger = tracker.ledger
        self.actor = actor
        self.checks = checks

    @_asking
    def undo(
        self,
        wanted_ids: Sequence[str] = (),
        *,
        to: str = "",
        agent: str = "",
        wanted: Filter = any_target,
        preview: bool = False,
        on_conflict: OnConflict = OnConflict.STOP,
        dependents: Dependents = Dependents.STOP,
    ) -> RollbackReport:
        """Take back what recorded actions did: the last one, these, one agent's, or all after a moment."""
        if to and (wanted_ids or agent):
            raise UsageError(
                f"{'ids' if wanted_ids else '--agent'} and --to exclude each other",
                hint="name what to take back, or a moment",
            )
        after = self.moments.find(to).position if to else 0
        with self._quiet() as finished:
            if finished:
                return finished
            history = self.ledger.history
            passed: tuple[str, ...] = ()
            unsettled: tuple[str, ...] = ()
            over: tuple[RecordedAction, ...] = ()
            if to:
                chosen = select.after(history, after, wanted)
            elif wanted_ids:
                # What was kept is decided about anew only if the user asks for it by its id.
                decides = on_conflict in (OnConflict.MERGE, OnConflict.OVERWRITE)
                chosen = select.of_ids(history, wanted_ids, wanted, agent, kept=decides)
                if wanted is any_target and not agent:
                    chosen = self._with_dependents(chosen, dependents)
            elif agent:
                unsettled = tuple(a for a in history.unsettled() if select.is_by(history.actions[a], agent))
                chosen = select.of_agent(history, agent, wanted)
            else:
                unsettled = tuple(history.unsettled())
                chosen, passed = rollback_unreachable.last(history, wanted, self._seen)
                if wanted is any_target:
                    over = passed_over(history, chosen.actions)
            if to or wanted_ids or agent:
                select.refuse_compacted_among(history, chosen.actions)
            refuse_background(self.tracker, chosen.actions)
            plan = self._plan(chosen, on_conflict, wanted)
            choices = self._choices(plan, chosen, wanted)
            # This ends a waiting run, even if it had changed nothing.
            waits = bool(wanted_ids) and is_waiting(history, chosen.actions)
            report = self._decide(
                plan, e.RollbackKind.UNDO, preview=preview, even_nothing=waits, choices=choices
            )
            if report.is_stopped:
                return self._files_apart(self._with_others(report, wanted), wanted)
            if not preview:
                end_taken_back(self.tracker, chosen.actions)
            report = report.with_unknown(tuple(action.id for action in over if action.is_unknown))
            beyond = tuple(action.id for action in over if action.leaves_something)
            return msgspec.structs.replace(report, passed=passed, beyond=beyond, unsettled=unsettled)

    def _with_dependents(self, chosen: Selection, choice: Dependents) -> Selection:
        """Return the selection with the steps that used its results. Raise ConflictError if a human has to choose."""
        from takeback.core import dependence  # needed only by those who name what to take back

        history = self.ledger.history
        found = dependence.dependents(history, chosen.actions)
        if found.standing and choice is Dependents.STOP:
            of = {history.actions[id].as_tool.step for id in chosen.actions} - {""}
            both = " ".join(sorted({*of, *(step.id for step in found.standing)}, key=ids.seq_of))
            names = ", ".join(f"{step.name} ({step.id})" for step in found.standing)
            raise ConflictError(
                f"the result of what would be taken back was used by {names}; nothing was taken back",
                hint=f"take them back, too: takeback undo {both}; or leave them: add --dependents leave",
            )
        taken = (*found.silent, *(found.standing if choice is Dependents.TAKE else ()))
        more = [id for step in taken for id in history.actions_in(step.id)]
        return (
            select.of_actions(history, select.inside(history, [*chosen.actions, *more])) if more else chosen
        )

    @_asking
    def redo(self, *, preview: bool = False, on_conflict: OnConflict = OnConflict.STOP) -> RollbackReport:
        """Take the most recent rollback back."""
        with self._quiet() as finished:
            if finished:
                return finished
            chosen = select.last_rollback(self.ledger.history)
            plan = self._plan(chosen, on_conflict)
            choices = self._choices(plan, chosen)
            return self._decide(plan, e.RollbackKind.REDO, preview=preview, choices=choices)

    @_asking
    def restore(self, moment: str, *, wanted: Filter = any_target, preview: bool = False) -> RollbackReport:
        """Make the world equal to a moment, whoever changed it."""
        found = self.moments.find(moment)  # before anything is recorded: a time may be a moment ago
        with self._quiet() as finished:
            if finished:
                return finished
            marks = self.moments.marks(found)
            items = rollback_restore.planned(self.tracker, found, marks, wanted)
            plan = self._foresee(RollbackPlan((found.typed,), items, OnConflict.OVERWRITE))
            if wanted is any_target:
                left = rollback_restore.left_alone(self.tracker, found, marks)
                plan = msgspec.structs.replace(plan, items=(*plan.items, *left))
            return self._decide(plan, e.RollbackKind.RESTORE, preview=preview)

    def finish(self) -> RollbackReport | None:
        """Carry out what an interrupted rollback had planned. The caller holds the lock."""
        for action in self.ledger.history.open_actions():
            if isinstance(action.began, e.RollbackBegan):
                self.ledger.refuse_moved()  # it continues where the workspace has its seat
                return self._carry_out(action.id, action.began, finished_earlier=True)
        return None

    def accept(
        self,
        changes: Sequence[Change],
        stage: str,
        *,
        wanted: Filter = any_target,
        preview: bool = False,
        on_conflict: OnConflict = OnConflict.STOP,
    ) -> RollbackReport:
        """Make the changes of a view here, even while actions go on. What changed since it began is a conflict."""
        with self.tracker.lock.held():
            self.ledger.refresh()
            if finished := self.finish():
                return finished
            self.tracker.observe()
            chosen = [change for change in changes if wanted(change.target)]
            plan = self._plan_acceptance(chosen, on_conflict)
            others = (
                [c for c in OnConflict if c not in (OnConflict.STOP, on_conflict)] if plan.conflicts else []
            )
            choices = tuple(c.value for c in others if not self._plan_acceptance(chosen, c).conflicts)
            kind = e.RollbackKind.ACCEPT
            return self._decide(plan, kind, preview=preview, choices=choices, stage=stage)

    def _plan_acceptance(self, changes: Sequence[Change], on_conflict: OnConflict) -> RollbackPlan:
        plan = plan_acceptance(changes, self._seen, on_conflict=on_conflict, divisible=self._is_divisible)
        return self._foresee(self._merge(plan, "both changes are in it"))

    # Before

    def of_run(
        self,
        run: str,
        after: int = 0,
        *,
        preview: bool = False,
        on_conflict: OnConflict = OnConflict.STOP,
        checks: Sequence[RollbackCheck] = (),
    ) -> RollbackReport:
        """Take back what a run did after a position in the journal, even while it or others go on.

        `checks` are those of the run, asked before the commands of takeback.toml.
        """
        report = self._of_run(run, after, preview=preview, on_conflict=on_conflict)
        return asked(report, checks, self.checks())

    def _of_run(self, run: str, after: int, *, preview: bool, on_conflict: OnConflict) -> RollbackReport:
        with self.tracker.lock.held():
            self.ledger.refresh()
            self.finish()
            self.tracker.observe()
            chosen = select.of_run(self.ledger.history, run, after)
            plan = self._plan(chosen, on_conflict)
            # Even if nothing was changed: its calls count as taken back, and are made again when called again.
            even_nothing = bool(chosen.actions)
            report = self._decide(plan, e.RollbackKind.UNDO, preview=preview, even_nothing=even_nothing)
            return report.require_begun()

    def once_more(self, action: str) -> None:
        """Try again to take back what a rollback could not, even while its run goes on."""
        with self.tracker.lock.held():
            self.ledger.refresh()
            plan = self._plan(select.of_actions(self.ledger.history, [action]), OnConflict.STOP)
            self._decide(plan, e.RollbackKind.UNDO, preview=False).require_begun()

    @contextmanager
    def _quiet(self) -> Iterator[RollbackReport | None]:
        """Hold the lock while nothing runs, with the record up to date with the world.

        Yield the report of an interrupted rollback if there was one: finishing it is then all that is done.
        """
        waiting = BusyWait()
        self.ledger.refuse_elsewhere()
        while True:
            with self.tracker.lock.held():
                self.ledger.refresh()
                finished = self.finish()
                settle(self.tracker, self.calls)
                busy = self.ledger.history.open_actions()
                if finished or not busy:
                    if not finished:
                        self.tracker.observe()
                    yield finished
                    return
            mine = next((action for action in busy if is_mine(action)), busy[0])
            waiting.a_moment(self.ledger.history, mine)

    # The plan

    @no_collection()  # of very many changes
    def _plan(self, chosen: Selection, on_conflict: OnConflict, wanted: Filter = any_target) -> RollbackPlan:
        chosen, far = unreachable.without_foreign(self.ledger.history, chosen)
        chosen, hidden = rollback_unreachable.without(chosen, self._seen)
        plan = plan_rollback(
            self.ledger.history, chosen, self._seen, on_conflict=on_conflict, divisible=self._is_divisible
        )
        plan = self._foresee(self._merge(plan))
        return msgspec.structs.replace(plan, items=(*plan.items, *far, *hidden, *self._left(plan, wanted)))

    def _choices(self, plan: RollbackPlan, chosen: Selection, wanted: Filter = any_target) -> tuple[str, ...]:
        """Return the choices with which a plan would not stop; each one is tried."""
        if not plan.conflicts:
            return ()
        others = [choice for choice in OnConflict if choice not in (OnConflict.STOP, plan.on_conflict)]
        return tuple(c.value for c in others if not self._plan(chosen, c, wanted).conflicts)

    def _files_apart(self, report: RollbackReport, wanted: Filter) -> RollbackReport:
        """Return the report of a stopped undo with whether its files could be merged if the branches stay."""
        blocked = {item.target.resource for item in report.items if item.did == "conflict"}
        if OnConflict.MERGE.value in report.choices or blocked <= set(IN_ROOT):
            return report

        def is_file(target: Target) -> bool:
            return target.resource in IN_ROOT and wanted(target)

        files = select.of_actions(self.ledger.history, report.of, is_file)
        goes = bool(files) and not self._plan(files, OnConflict.MERGE, is_file).conflicts
        return msgspec.structs.replace(report, files_apart=goes)

    def _with_others(self, report: RollbackReport, wanted: Filter) -> RollbackReport:
        """Return the report of a stopped undo with the actions in its way, and whether they can be undone too."""
        others = in_the_way(self.ledger.history, report)
        if not others:
            return report
        chosen = select.of_ids(self.ledger.history, [*report.of, *others], wanted)
        try:
            refuse_background(self.tracker, chosen.actions)
            goes = not self._plan(chosen, OnConflict.STOP, wanted).conflicts
        except RunBusy:
            goes = False
        return msgspec.structs.replace(report, others=others, others_too=goes)

    def _left(self, plan: RollbackPlan, wanted: Filter) -> list[Planned]:
        """Return the calls that an earlier rollback had to leave, so that a second undo does not report success."""
        seen = {item.target for item in plan.items}
        standing = left_standing(self.ledger.history, plan.of)
        left = [c for c in standing if c.target not in seen and wanted(c.target)]
        now = self._seen(change.target for change in left)
        why = "it could not be taken back earlier either"
        return [Planned(c.target, Do.LEAVE, c.after, c.after, (), why=why) for c in left if now[c.target]]

    def _seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """Return the present versions according to the last mark. A swap looks again before it writes."""
        now: dict[Target, Version] = {}
        for name, some in _by_resource(targets).items():
            now.update(self.tracker.resources[name].seen(some))
        return now

    def _is_divisible(self, target: Target) -> bool:
        return self.tracker.resources[target.resource].traits.divisible

    def _merge(
        self, plan: RollbackPlan, why: str = "other changes stayed, the agent's were taken out"
    ) -> RollbackPlan:
        """Try every merge now, so that one that fails stops the plan before anything is written."""
        choice = plan.on_conflict
        return plan.decided({i.target: self._merged(i, choice, why) for i in plan.items if i.do is Do.MERGE})

    def _merged(self, item: Planned, on_conflict: OnConflict, why: str) -> Planned:
        resource = self.tracker.resources[item.target.resource]
        version = item.goal
        for merge in item.merges:
            merged = resource.merge(version, merge.base, merge.goal)
            if isinstance(merged, str):
                return rollback_items.otherwise(item, Do.CONFLICT, merged or item.why, on_conflict)
            version = merged
        return msgspec.structs.replace(item, goal=version, why=why)

    def _foresee(self, plan: RollbackPlan) -> RollbackPlan:
        """Simulate the whole plan, so that what cannot be put back is known before anything is written."""
        kept = {item.target for item in plan.items if item.do in (Do.KEEP, Do.CONFLICT)}
        for name, resource in self.tracker.resources.items():
            planned = {i.target: i for i in plan.items if i.changes_something and i.target.resource == name}
            every = rollback_items.swaps_of(plan.swaps, plan.on_conflict) if planned else ()
            swaps = [rollback_items.as_whose(s, self.ledger.history) for s in every if s.target in planned]
            foreseen = resource.foresee(swaps, kept)
            otherwise = {
                target: rollback_items.otherwise(planned[target], do, why, plan.on_conflict)
                for target, (do, why) in foreseen.items()
            }
            plan = plan.decided(otherwise)
        return plan

    # The deed

    def _decide(
        self,
        plan: RollbackPlan,
        kind: e.RollbackKind,
        *,
        preview: bool,
        even_nothing: bool = False,
        choices: tuple[str, ...] = (),
        stage: str = "",
    ) -> RollbackReport:
        if preview or plan.conflicts or not (plan.items or even_nothing):
            history, kept = self.ledger.history, {i.target for i in plan.items if i.do is Do.KEEP}
            return of_plan(
                plan,
                kind.value,
                partial(self._says, back=kind is not e.RollbackKind.ACCEPT),
                self.tracker.follows,
                self._places([Change(i.target, i.present, i.goal) for i in plan.items]),
                preview=preview,
                choices=choices,
                unknown=unknown_among(history, kind, plan.of),
                doubtful=doubtful_among(history, kind, plan.of, kept),
            )
        self._note_gone(plan)
        crash_points.reach(PLANNED)
        items = tuple(
            # If nothing is to be written, the look before the plan is the verification.
            e.Item(
                i.target, rollback_items.foreseen(i), i.do in (Do.ALREADY, Do.KEEP), i.why, i.settles, i.seqs
            )
            for i in plan.items
        )
        marks, choice = self.tracker.saved(i.target for i in plan.items), plan.on_conflict.value
        began = e.RollbackBegan(
            kind, plan.of, plan.swaps, items, self.actor, marks, on_conflict=choice, stage=stage
        )
        (record,) = self.ledger.append([began])
        crash_points.reach(RECORDED)
        return self._carry_out(record.id, began)

    def _says(self, item: Planned, *, back: bool) -> str:
        """Return a description for people of what would be done to a target."""
        resource = self.tracker.resources[item.target.resource]
        if not item.changes_something and not resource.traits.external:
            return ""
        return resource.tell(Change(item.target, item.present, item.goal), back=back)

    def _note_gone(self, plan: RollbackPlan) -> None:
        """Record as drift what is gone from another system without a rollback here."""
        gone = tuple(
            Change(item.target, recorded, item.present)
            for item in plan.items
            if self.tracker.resources[item.target.resource].traits.external
            and (recorded := self.ledger.history.latest(item.target)) != item.present
        )
        if gone:
            self.ledger.append([e.DriftSeen(gone)])

    def _carry_out(
        self, id: str, began: e.RollbackBegan, *, finished_earlier: bool = False
    ) -> RollbackReport:
        swapped: dict[Target, Swapped] = {}
        begun_at = began.marks if finished_earlier else ()
        history, kept = self.ledger.history, {i.target for i in began.items if i.did is e.Did.KEPT}
        unknown = unknown_among(history, began.kind, began.of)
        doubtful = doubtful_among(history, began.kind, began.of, kept)
        for resource, swaps in rollback_items.in_order(self.tracker.resources.values(), began):
            if resource.traits.external:
                swapped.update(self._one_by_one(id, began, resource, swaps))
            elif swaps:
                since = next((mark for mark in begun_at if mark.resource == resource.name), None)
                done_by = resource.swap(swaps, id, fresh=not finished_earlier, since=since)
                swapped.update({s.target: s for s in done_by})
        crash_points.reach(SWAPPED)
        items = tuple(rollback_items.done(planned, swapped.get(planned.target)) for planned in began.items)
        done = {c.target: rollback_items.written(c, swapped[c.target]) for c in began.swaps}
        changes = tuple(change for change in done.values() if not change.after.alike(change.before))
        marks, unseen = self._meanwhile(done, [s.target for s in swapped.values() if s.opened])
        items = (*items, *unseen)
        self.ledger.append([e.RollbackEnded(id, items, changes, marks)])
        self.ledger.journal.sync()
        crash_points.reach(ENDED)
        written = {change.target: change for change in began.swaps}
        kind = began.kind.value
        shown = tuple(self._shown(items, written, kind))
        return RollbackReport(
            id,
            kind,
            began.of,
            judge(items, (*unknown, *doubtful)),
            shown,
            finished_earlier=finished_earlier,
            unknown=unknown,
            doubtful=doubtful,
        )

    def _shown(
        self, items: Sequence[e.Item], written: Mapping[Target, Change], kind: str
    ) -> Iterator[ReportItem]:
        """Yield the items of a report: with a text for each, and its place in a list."""
        made = {i.target: written.get(i.target) or Change(i.target, ABSENT, ABSENT) for i in items}
        places = self._places(made.values())
        for item in items:
            target, did, change = item.target, item.did.value, written.get(item.target)
            resource = self.tracker.resources[target.resource]
            back = kind != e.RollbackKind.ACCEPT.value
            says = resource.tell(made[target], back=back) if change or resource.traits.external else ""
            minor = is_minor(did, change, follows=self.tracker.follows(target))
            at = listed_back(made[target], places, kind)
            yield ReportItem(target, did, item.verified, item.why, (), minor, says, at, item.settles)

    def _one_by_one(
        self, id: str, began: e.RollbackBegan, resource: Resource, swaps: Sequence[Swap]
    ) -> dict[Target, Swapped]:
        """Swap and record one by one, so that a later start does not repeat a request to another system."""
        done: dict[Target, Swapped] = {}
        earlier = dict(self.ledger.history.actions[id].progress)
        planned = {item.target: item for item in began.items}
        for swap in swaps:
            if item := earlier.get(swap.target):
                stands = item.did in (e.Did.FAILED, e.Did.UNVERIFIABLE)
                now = swap.present if stands else swap.goal
                done[swap.target] = Swapped(swap.target, item.did, now, item.verified, item.why)
                continue
            (result,) = resource.swap([swap], id, fresh=True)
            done[swap.target] = result
            self.ledger.append([e.RollbackProgressed(id, rollback_items.done(planned[swap.target], result))])
            crash_points.reach(PROGRESSED)
        return done

    def _meanwhile(
        self, done: Mapping[Target, Change], opened: Iterable[Target]
    ) -> tuple[tuple[e.Mark, ...], list[e.Item]]:
        """Look at the world after the swaps. Other changes that happened meanwhile are someone else's.

        But a change below a folder that was opened was out of sight before: it may be the agent's.
        """
        marks = self.tracker.marks()
        others = [change for change in self.tracker.since_last(marks) if change.target not in done]
        looked_at = {t: change for t, change in done.items() if t.resource in self.tracker.observed}
        now = self._seen(looked_at)
        since = [
            Change(t, change.after, now[t])
            for t, change in looked_at.items()
            if not now[t].alike(change.after)
        ]
        if others or since:
            self.tracker.attribute([*others, *since], ())
        above = tuple(f"{target.name}/" for target in opened)
        why = "it was out of sight when the action was recorded, and differs from its last known state"
        hidden = [change.target for change in others if change.target.name.startswith(above)]
        return marks, [e.Item(target, e.Did.UNVERIFIABLE, why=why) for target in hidden]


def in_the_way(history: History, report: RollbackReport) -> tuple[str, ...]:
    """Return the actions that an undo conflicts with; empty if someone else's changes conflict too."""
    found: dict[str, None] = {}
    for item in report.items:
        if item.did == "conflict":
            entries = [entry for id in report.of for entry in history.live(id) if entry.target == item.target]
            makers = [id for entry in entries for id in (entry.action, *entry.change.shared_with)]
            others = [id for id in (*makers, *item.blockers) if id not in report.of]
            if not others or not all(history.actions[id].is_tool for id in others):
                return ()
            found |= dict.fromkeys(others)
    return tuple(sorted(found, key=ids.seq_of))


def _by_resource(targets: Iterable[Target]) -> dict[str, list[Target]]:
    groups: dict[str, list[Target]] = {}
    for target in targets:
        groups.setdefault(target.resource, []).append(target)
    return groups
