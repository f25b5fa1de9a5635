"""Recording actions: marks before and after, and whose the changes in between are.

At every mark the changes since the last one are given to whoever was open in that interval: to nobody (drift, the
human's), to one action, or to several, which then share them. Of a lineage only the innermost action counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change, Target
from takeback.core.codec import path_of
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.lifecycle import Life
from takeback.engine.ledger import Ledger
from takeback.engine.tracking.signs_of_life import SignsOfLife
from takeback.errors import UsageError
from takeback.ports.foresight import Survey
from takeback.ports.lock import Lock
from takeback.ports.resource import Attributed, Named, Observed, Resource
from takeback.storage.state.registry import state_name
from takeback.system import crash_points, processes

BEGAN = crash_points.crash_point("action-began")
ENDING = crash_points.crash_point("action-ending")
ENDED = crash_points.crash_point("action-ended")
SAVED = crash_points.crash_point("checkpoint-taken")


class Tracker:
    """Knows the world as it was last recorded, and records what happens to it."""

    def __init__(
        self,
        ledger: Ledger,
        observed: Sequence[Observed],
        lock: Lock,
        life: SignsOfLife,
        name: str,
        *,
        told: Sequence[Resource] = (),
        attributed: Sequence[Attributed] = (),
        named: Named | None = None,
    ) -> None:
        """`told` are resources whose changes are recorded by whoever makes them, and not found by looking.

        `named` is the one of those observed that is looked at only where an action names something of it.
        """
        self.ledger = ledger
        self.observed = {resource.name: resource for resource in observed}
        self.attributed = tuple(attributed)
        self._named = named
        # In the order in which they are taken back: a handler may still need the files as the run left them.
        self.resources: dict[str, Resource] = {r.name: r for r in [*told, *attributed, *observed]}
        self.lock = lock
        self.life = life
        self.name = name
        self._counts: dict[str, processes.Count] = {}
        """Which processes there were when an action began here."""

    # Marks

    def marks(self, also: Sequence[str] = ()) -> tuple[e.Mark, ...]:
        """Look at the world, with every resource; and at these places outside the workspace."""
        recorded = self.ledger.history.marks
        found = []
        # The other way round than they are taken back: it is the files that tell where there are databases.
        for name, resource in reversed(self.observed.items()):
            if resource is self._named and not self._attends(also):
                continue
            if name in recorded:
                resource.settled(recorded[name])
            found.append(resource.mark())
        return tuple(found)

    def _attends(self, more: Iterable[str] = (), targets: Iterable[Target] = ()) -> bool:
        """Turn to what open actions and rollbacks name outside the workspace, and to these; False for nothing."""
        assert self._named is not None
        history, name = self.ledger.history, self._named.name
        running = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
        places = {place for action in running for place in action.as_tool.outside}
        swapped = {c.target for a in running for c in a.swaps if c.target.resource == name}
        more, single = tuple(more), {target for target in targets if target.resource == name}
        attends = bool(places or swapped or more or single)
        if attends:
            self._named.attend(places, swapped, more, single)
        return attends

    def saved(self, targets: Iterable[Target]) -> tuple[e.Mark, ...]:
        """The last marks, after a look at those of these targets that nobody looked at since they were changed."""
        if self._named is not None and self._attends(targets=targets):
            mark = self._named.mark()
            if changes := self.since_last([mark]):
                self.attribute(changes, (mark,))
            return tuple((self.ledger.history.marks | {mark.resource: mark}).values())
        return tuple(self.ledger.history.marks.values())

    def since_last(self, marks: Sequence[e.Mark]) -> list[Change]:
        """What changed between the last recorded marks and these."""
        last = self.ledger.history.marks
        return [
            change
            for mark in marks
            if mark.resource in last and last[mark.resource].state != mark.state
            for change in self.observed[mark.resource].changes(last[mark.resource], mark)
        ]

    def observe(self, also: Sequence[str] = ()) -> tuple[e.Mark, ...]:
        """Look at the world and record what changed since the last look, as whoever's it is."""
        marks, drift = self._look(also)
        if drift:
            self.ledger.append(drift)
        return marks

    def attribute(self, changes: Sequence[Change], marks: tuple[e.Mark, ...]) -> None:
        """Record changes that were found by the way, as whoever's they are."""
        if owners := self.owners():
            self._seen_during(owners, list(changes), marks)
        else:
            self.ledger.append([e.DriftSeen(tuple(changes), marks)])

    def _look(self, also: Sequence[str] = ()) -> tuple[tuple[e.Mark, ...], list[e.Event]]:
        """The marks of this moment, and what is still to be recorded of the way here: nobody's changes."""
        self.end_gone()
        marks = self.marks(also)
        changes = self.since_last(marks)
        owners = self.owners() if changes else []
        if owners:
            self._seen_during(owners, changes, marks)
        elif changes:
            return marks, [e.DriftSeen(tuple(changes), marks)]
        return marks, []

    def _seen_during(
        self, owners: list[RecordedAction], changes: list[Change], marks: tuple[e.Mark, ...]
    ) -> None:
        first, *others = owners
        # Beside processes that outlived their command, or their guard, a human may be working too.
        in_doubt = all(owner.life is Life.BACKGROUND for owner in owners)
        marked = shared(changes, others, in_doubt=in_doubt)
        if not in_doubt and not any(map(self.is_guarded, owners)):
            marked = self.proved(first, marked)
        self.ledger.append([e.ChangesSeen(first.id, marked, marks)], first.stream)

    def proved(self, action: RecordedAction, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Only what changed while the action's owner showed signs of life is provably the action's."""
        last_ns = self.life.last_ns(action.id)
        marked = []
        for change in changes:
            changed_ns = self.observed[change.target.resource].changed_at(change.target)
            certain = 0 < changed_ns <= last_ns
            marked.append(change if certain else msgspec.structs.replace(change, in_doubt=True))
        return tuple(marked)

    def owners(self) -> list[RecordedAction]:
        """Who may have written since the last look: open actions, the innermost of each lineage, and those in the
        background, which are open until a look comes after the end of their processes.
        """
        history = self.ledger.history
        running = [a for a in history.open_actions() if a.is_tool and a.began.marks]
        running += history.open_actions(Life.BACKGROUND)
        running = [action for action in running if not self.is_left_behind(action.id)]
        parents = {action.as_tool.parent for action in running}
        return [action for action in running if action.id not in parents]

    # Checkpoints and actions

    def save(self, message: str, actor: str) -> str:
        """Take a checkpoint and return its id."""
        with self.lock.held():
            self.ledger.refresh()
            marks, drift = self._look()
            record = self.ledger.append([*drift, e.CheckpointTaken(message, actor, marks)])[-1]
            self.ledger.journal.sync()
            crash_points.reach(SAVED)
            return record.id

    def begin(
        self,
        began: e.ActionBegan,
        *,
        stream: str = "",
        before: Sequence[e.Event] = (),
        step: e.StepBegan | None = None,
        looking: bool = True,
    ) -> str:
        """Record that an action is about to begin. It is durable when this returns.

        `before` are events that go ahead of it in its stream, `step` is one whose body it is. Without `looking`
        there is no mark: what changes is then found by, and belongs to, the action around it.
        """
        if not looking:
            # What the action around it finds by looking is found after a power cut, too, with this record or not.
            found_anyway = began.effect in (e.Effect.RESTORABLE, e.Effect.NONE)
            durable = not found_anyway or step is not None or bool(before)
            opened = [*before, self._in_step(began, step, stream)]
            record = self.ledger.append(opened, stream, durable=durable)[-1]
        else:
            with self.lock.held():
                self.ledger.refresh()
                # First the look: what changed before the step is not the step's.
                brand = processes.new_brand() if began.process else 0
                marks = self.observe(began.outside)
                inside = self.open_part(began.parent)
                began = msgspec.structs.replace(began, parent=inside, marks=marks, brand=brand)
                record = self.ledger.append([*before, self._in_step(began, step, stream)], stream)[-1]
            if began.process:
                self._counts[record.id] = processes.count()
                processes.put_brand(began.process, brand)
        crash_points.reach(BEGAN)
        return record.id

    def _in_step(self, began: e.ActionBegan, step: e.StepBegan | None, stream: str) -> e.ActionBegan:
        if step is None:
            return began
        (record,) = self.ledger.append([step], stream)
        return msgspec.structs.replace(began, step=record.id)

    def end(
        self,
        action_id: str,
        outcome: e.Outcome,
        *,
        exit_code: int | None = None,
        why: str = "",
        lives_on: bool = False,
        after: Sequence[e.Event] = (),
        changes: Sequence[Change] = (),
        result: Any = None,
        full: str = "",
        unsure: bool = False,
        left: Iterable[e.Process] = (),
    ) -> RecordedAction:
        """Record what the action changed. Ending it twice changes nothing.

        While processes that it started are still there it is open in the background. `lives_on` says that its agent
        tells of its end later; `left` are processes that whoever started it found. `after` are events that follow
        in its stream: the end of its step, or of its run. `changes` are those that no look would find.
        With `unsure` it may have been over long before: what a look finds may be a human's.
        """
        with self.lock.held():
            history = self.ledger.refresh()
            action = history.actions.get(action_id)
            if action is None or not action.is_tool:
                raise UsageError(f"there is no action {action_id}")
            if action.life is not Life.OPEN and (lives_on or not self._is_told_of(action)):
                return action
            crash_points.reach(ENDING)
            left = () if lives_on else tuple({*left, *self.leaves(action)})
            self.end_gone()
            changes = (*changes, *self.made_by(action_id))
            if not action.began.marks:
                ended = e.ActionEnded(
                    action_id, outcome, tuple(changes), (), why, exit_code, result, full, unsure
                )
                self.ledger.append([ended, *after], action.stream)
                return action
            owners = self.owners()
            if action not in owners:
                # Another one is open inside it, and what happened since is that one's.
                self.observe()
            marks = self.marks()
            others = [other for other in owners if other is not action]
            in_doubt = unsure or all(owner.life is Life.BACKGROUND for owner in (action, *others))
            made = (*shared(self.since_last(marks), others, in_doubt=in_doubt), *changes)
            if lives_on or left:
                detached = e.ActionDetached(action_id, made, marks, exit_code, why, result, full, left)
                self.ledger.append([detached, *after], action.stream)
            else:
                ended = e.ActionEnded(action_id, outcome, made, marks, why, exit_code, result, full, unsure)
                self.ledger.append([ended, *after], action.stream)
            if action.process == processes.this_process():
                # What this program starts from now on is not the action's.
                processes.put_brand(processes.this_process(), processes.new_brand())
        crash_points.reach(ENDED)
        return action

    def made_by(self, action_id: str) -> tuple[Change, ...]:
        """What this action changed, as far as there are resources that know whose a change is."""
        return tuple(change for resource in self.attributed for change in resource.made_by(action_id))

    # A run of one action, as a command or a block of code is

    def begin_single(
        self,
        name: str,
        *,
        actor: str = "",
        parent: str = "",
        ref: str = "",
        effect: e.Effect = e.Effect.RESTORABLE,
        autopilot: bool = False,
        survey: Survey | None = None,
        tool: str = "",
    ) -> str:
        parent = parent if parent in self.ledger.refresh().actions else ""
        began = e.ActionBegan(
            name,
            effect,
            actor=actor,
            parent=parent,
            ref=ref,
            tool=tool,
            process=processes.this_process(),
            outside=survey.places if survey else (),
            uncaptured=(*survey.missed, *survey.stated) if survey else (),
        )
        return self.begin(began, before=[e.RunBegan(name, actor=actor, parent=parent, autopilot=autopilot)])

    def end_single(
        self,
        action_id: str,
        outcome: e.Outcome,
        *,
        exit_code: int | None = None,
        why: str = "",
        left: Iterable[e.Process] = (),
    ) -> RecordedAction:
        ended = [e.RunEnded(outcome)]
        return self.end(action_id, outcome, exit_code=exit_code, why=why, after=ended, left=left)

    def is_guarded(self, action: RecordedAction) -> bool:
        """Whether the process that records the action still lives, and goes on with it."""
        if self.is_left_behind(action.id) or self.life.is_given_up(action.id):
            return False
        while action.process is None and action.as_tool.parent:
            # A call is guarded by whoever guards the step or the run around it.
            action = self.ledger.history.actions[action.as_tool.parent]
        process = action.process
        run = self.ledger.history.runs.get(action.stream)
        if process is None and run and run.began.detached:
            return self.is_led(run)
        return processes.is_alive(process, self.life.last_ns(action.id))

    def whole(self, action: RecordedAction) -> RecordedAction:
        """The command of which this is a part; itself where it is none."""
        return self.ledger.history.actions[action.as_tool.parent] if is_part(action) else action

    def open_part(self, id: str) -> str:
        """The part of this action that is open now, else itself: what begins inside of it is inside of that."""
        parts = (a.id for a in self.ledger.history.open_actions() if is_part(a) and self.whole(a).id == id)
        return next(parts, id) if id else id

    def is_led(self, run: RecordedRun) -> bool:
        """Whether somebody may still go on with a run that is not the work of one process.

        Where no process was named, the end of none says anything, so nothing of it is settled without a word.
        """
        if self.is_left_behind(run.id):
            return False
        return run.began.process is None or processes.is_alive(run.began.process, self.life.last_ns(run.id))

    # What goes on in the background

    def end_gone(self) -> None:
        """End the actions in the background of which nothing lives on.

        This comes before each look: what changed since the last one may be theirs, what comes after it is not.
        """
        table: processes.ProcessTable | None = None
        for action in self.ledger.history.open_actions(Life.BACKGROUND):
            if self.is_left_behind(action.id) or self._is_told_of(action):
                continue
            table = table or processes.ProcessTable()
            if not self._found(action, table):
                self._end_gone(action)

    def _end_gone(self, action: RecordedAction) -> None:
        marks = self.marks()
        others = [owner for owner in self.owners() if owner is not action]
        # Beside processes that outlived their command a human may be working too.
        in_doubt = all(other.life is Life.BACKGROUND for other in others)
        changes = (*shared(self.since_last(marks), others, in_doubt=in_doubt), *self.made_by(action.id))
        outcome = e.Outcome.FAILED if action.exit_code or action.why else e.Outcome.DONE
        why = action.why or "its last process has ended"
        ended = e.ActionEnded(
            action.id, outcome, changes, marks, why, action.exit_code, action.result, action.full
        )
        run = self.ledger.history.runs.get(action.stream)
        over = [e.RunEnded(outcome)] if run and run.life is Life.OPEN and not run.began.detached else []
        self.ledger.append([ended, *over], action.stream)

    def lives_on(self, action: RecordedAction) -> bool:
        """Whether what an action started may still be at work. In a session it is, until somebody says otherwise."""
        if self.is_left_behind(action.id):
            return False
        return self._is_told_of(action) or bool(self.living(action.id))

    def living(self, action_id: str) -> list[int]:
        """Processes that the action started and that still live."""
        action = self.ledger.history.actions[action_id]
        return sorted(self._found(action, processes.ProcessTable()))

    def in_background(self) -> list[int]:
        """All processes that actions left behind and that still live."""
        left = [action for action in self.ledger.history.open_actions(Life.BACKGROUND) if action.processes]
        table = processes.ProcessTable() if left else None
        return sorted({pid for action in left if table for pid in self._found(action, table)})

    def leaves(self, action: RecordedAction) -> tuple[e.Process, ...]:
        """The processes that an action leaves behind when its command has ended."""
        if self.is_left_behind(action.id) or not action.as_tool.brand:
            return ()
        before = self._counts.pop(action.id, None)
        if before == processes.count():
            return ()
        table = processes.ProcessTable(before)
        inside = [a for a in self.ledger.history.open_actions(Life.BACKGROUND) if _is_inside(a, action)]
        found = self._found(action, table).difference(*(self._found(one, table) for one in inside))
        return tuple(map(processes.describe, sorted(found)))

    def _found(self, action: RecordedAction, table: processes.ProcessTable) -> set[int]:
        """What it started, by all that a process cannot easily shed: what it inherits, and whom it descends from."""
        whole = self.whole(action)
        began, run = whole.began, self.ledger.history.runs.get(action.stream)
        if not isinstance(began, e.ActionBegan):
            return set()
        inherited = table.branded(self._brands(whole))
        if run and run.began.detached:
            # What its agent holds are tools of the agent, and other calls; what a call leaves has lost its parent.
            inherited -= table.below(began.process)
        else:
            inherited |= table.with_token(self.token(whole.id))
        found = table.with_offspring(inherited | table.alive(action.processes))
        return found - {os.getpid()}

    def _brands(self, action: RecordedAction) -> set[int]:
        """Its own brand; while it is open, also those of what began beside it or inside it: they hide its own."""
        own, run = action.as_tool.brand, self.ledger.history.runs.get(action.stream)
        found = {own}
        if own and run and action.life is Life.OPEN:
            later = (self.ledger.history.actions[id] for id in reversed(run.actions))
            beside = takewhile(lambda other: other is not action, later)
            found.update(other.as_tool.brand for other in beside)
            if action.process == processes.this_process():
                found |= processes.own_brands(own)
        return found - {0}

    def is_left_behind(self, id: str) -> bool:
        """Whether it was begun where the workspace does not sit any more: nothing of it can be recorded there."""
        return ids.seq_of(id) < self.ledger.history.moves.moved

    def _is_told_of(self, action: RecordedAction) -> bool:
        """Whether it works on in a session that goes on, whose agent tells when it has ended."""
        run = self.ledger.history.runs.get(action.stream)
        is_open = run is not None and run.began.detached and run.life is Life.OPEN
        in_background = action.life is Life.BACKGROUND and not action.processes
        return in_background and is_open and run is not None and self.is_led(run)

    def follows(self, target: Target) -> bool:
        """Whether a target goes with another one, so that nobody wants to hear of it."""
        pattern = self.resources[target.resource].traits.minor
        return bool(pattern and re.search(pattern, target.name))

    @property
    def origin(self) -> str:
        """What it is called where it was begun. Keys for other systems are made of it, wherever it sits now."""
        began = self.ledger.history.began
        return state_name(os.fsdecode(path_of(began.root))) if began else self.name

    def token(self, action_id: str) -> str:
        """The value by which an action's processes are known, unlike that of any other workspace."""
        return f"{self.name}:{action_id}"


def is_part(action: RecordedAction) -> bool:
    """Whether it is a part of a command: recorded by whoever records that, and known by its processes.

    A transaction has neither a key nor a process either, and is not: no command is transactional.
    """
    began = action.began
    if not isinstance(began, e.ActionBegan) or began.key or began.process is not None:
        return False
    # A transaction in a database has a step and a parent too, and is not looked around.
    return bool(began.step and began.parent and began.marks)


def _is_inside(action: RecordedAction, other: RecordedAction) -> bool:
    return action.as_tool.parent == other.id


def shared(
    changes: Sequence[Change], others: Sequence[RecordedAction], *, in_doubt: bool = False
) -> tuple[Change, ...]:
    """These changes, marked as one of several actions', or as nobody's for certain."""
    names = tuple(other.id for other in others)
    if not names and not in_doubt:
        return tuple(changes)
    return tuple(msgspec.structs.replace(c, shared_with=names, in_doubt=in_doubt) for c in changes)
