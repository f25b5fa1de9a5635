"""Recording actions: marks before and after, and which action made the changes in between.

At every mark the changes since the last one are attributed to the actions open in that interval: to none (drift,
the human's), to one action, or to several, which then share them. Of nested actions only the innermost counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import OF_PATHS, Change, Target, is_within
from takeback.core.codec import path_of
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.engine.ledger import Ledger
from takeback.engine.tracking.signs_of_life import SignsOfLife
from takeback.errors import UsageError
from takeback.ports.foresight import Survey
from takeback.ports.lock import Lock
from takeback.ports.resource import Attributed, Named, Observed, Resource
from takeback.storage.state.registry import state_name
from takeback.system import crash_points, processes

PART = re.compile(r"part \d+")
"""What the step of a part of a command is called."""
BEGAN = crash_points.crash_point("action-began")
ENDING = crash_points.crash_point("action-ending")
ENDED = crash_points.crash_point("action-ended")
SAVED = crash_points.crash_point("checkpoint-taken")


class Tracker:
    """The recorder of changes: knows the last recorded state of the world and attributes what changed since."""

    def __init__(
        self,
        ledger: Ledger,
        observed: Sequence[Observed],
        lock: Lock,
        life: SignsOfLife,
        name: str,
        *,
        reported: Sequence[Resource] = (),
        attributed: Sequence[Attributed] = (),
        named: Named | None = None,
    ) -> None:
        """Track changes of these resources.

        `reported` are resources whose changes are recorded by the code that makes them, not found by looking.
        `named` is the observed resource that is looked at only if an action names a part of it.
        """
        self.ledger = ledger
        self.observed = {resource.name: resource for resource in observed}
        self.attributed = tuple(attributed)
        self._named = named
        # In the order in which they are taken back: a handler may still need the files as the run left them.
        self.resources: dict[str, Resource] = {r.name: r for r in [*reported, *attributed, *observed]}
        self.lock = lock
        self.life = life
        self.name = name
        self._counts: dict[str, processes.Count] = {}
        """The process count when an action began here."""

    # Marks

    def marks(self, also: Sequence[str] = ()) -> tuple[e.Mark, ...]:
        """Look at the world with every resource, and at these places outside the workspace."""
        recorded = self.ledger.history.marks
        found = []
        # In the opposite order of taking back: files show where there are databases.
        for name, resource in reversed(self.observed.items()):
            if resource is self._named and not self._attends(also):
                continue
            if name in recorded:
                resource.settled(recorded[name])
            found.append(resource.mark())
        return tuple(found)

    def _attends(self, more: Iterable[str] = (), targets: Iterable[Target] = ()) -> bool:
        """Point the `named` resource at all places outside the workspace that matter now. Return False if none do."""
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
        """Return the last marks, after a look at those of these targets that were not covered by the last look."""
        if self._named is not None and self._attends(targets=targets):
            mark = self._named.mark()
            if changes := self.since_last([mark]):
                self.attribute(changes, (mark,))
            return tuple((self.ledger.history.marks | {mark.resource: mark}).values())
        return tuple(self.ledger.history.marks.values())

    def since_last(self, marks: Sequence[e.Mark]) -> list[Change]:
        """Return what changed between the last recorded marks and these."""
        last = self.ledger.history.marks
        return [
            change
            for mark in marks
            if mark.resource in last and last[mark.resource].state != mark.state
            for change in self.observed[mark.resource].changes(last[mark.resource], mark)
        ]

    def observe(self, also: Sequence[str] = ()) -> tuple[e.Mark, ...]:
        """Look at the world, and record and attribute what changed since the last look."""
        marks, drift = self._look(also)
        if drift:
            self.ledger.append(drift)
        return marks

    def attribute(self, changes: Sequence[Change], marks: tuple[e.Mark, ...]) -> None:
        """Record changes and attribute them to the open actions, or to drift."""
        if owners := self.owners():
            self._seen_during(owners, list(changes), marks)
        else:
            self.ledger.append([e.DriftSeen(tuple(changes), marks)])

    def _look(self, also: Sequence[str] = ()) -> tuple[tuple[e.Mark, ...], list[e.Event]]:
        """Return the present marks, and the drift that the caller still has to record."""
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
        # While only leftover processes are at work, a human may be working too.
        in_doubt = all(owner.life is Life.BACKGROUND for owner in owners)
        proved = not in_doubt and not any(map(self.is_guarded, owners))
        # In one append, for all owners: the marks in each event say that everything was seen.
        self.ledger.append(
            [
                e.ChangesSeen(owner.id, self.proved(owner, made) if proved else made, marks)
                for owner, made in apportioned(owners, changes, in_doubt=in_doubt)
            ],
            owners[0].stream,
        )

    def proved(self, action: RecordedAction, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Return the changes, marked as in doubt unless made while the action's owner showed signs of life."""
        last_ns = self.life.last_ns(action.id)
        marked = []
        for change in changes:
            changed_ns = self.observed[change.target.resource].changed_at(change.target)
            certain = 0 < changed_ns <= last_ns
            marked.append(change if certain else msgspec.structs.replace(change, in_doubt=True))
        return tuple(marked)

    def owners(self) -> list[RecordedAction]:
        """Return the actions that may have written since the last look: the innermost open ones, and those in the
        background, which stay open until the first look after the end of their processes.
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

        `before` are events that precede it in its stream; `step` is the step whose body it is. Without `looking`
        there is no mark: its changes are then found by, and belong to, the action around it.
        """
        if not looking:
            # After a power cut the action around it finds these changes by looking, with or without this record.
            found_anyway = began.effect in (e.Effect.RESTORABLE, e.Effect.NONE)
            durable = not found_anyway or step is not None or bool(before)
            opened = [*before, self._in_step(began, step, stream)]
            record = self.ledger.append(opened, stream, durable=durable)[-1]
        else:
            with self.lock.held():
                self.ledger.refresh()
                # Look first: what changed before the step does not belong to it.
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

        While processes that it started still run it stays open in the background. `lives_on` means that its agent
        reports its end later; `left` are processes that the caller found. `after` are events that follow in its
        stream: the end of its step, or of its run. `changes` are those that no look would find.
        With `unsure` it may have ended long before: what a look finds may be a human's.
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
                # Another action is open inside it, and the changes since belong to that one.
                self.observe()
            marks = self.marks()
            others = [other for other in owners if other is not action]
            in_doubt = unsure or all(owner.life is Life.BACKGROUND for owner in (action, *others))
            owners = [action, *others]
            parts = apportioned(owners, self.since_last(marks), in_doubt=in_doubt)
            made = (*(change for owner, own in parts if owner is action for change in own), *changes)
            # What only others name is theirs. In the same append, which has the marks.
            after = [*(e.ChangesSeen(o.id, theirs) for o, theirs in parts if o is not action), *after]
            if lives_on or left:
                detached = e.ActionDetached(action_id, made, marks, exit_code, why, result, full, left)
                self.ledger.append([detached, *after], action.stream)
            else:
                ended = e.ActionEnded(action_id, outcome, made, marks, why, exit_code, result, full, unsure)
                self.ledger.append([ended, *after], action.stream)
            if action.process == processes.this_process():
                # What this program starts from now on does not belong to the action.
                processes.put_brand(processes.this_process(), processes.new_brand())
        crash_points.reach(ENDED)
        return action

    def made_by(self, action_id: str) -> tuple[Change, ...]:
        """Return the changes of this action in resources that know by themselves who made a change."""
        return tuple(change for resource in self.attributed for change in resource.made_by(action_id))

    # Runs of a single action: a command or a block of code

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
        """Return whether the process that records the action still lives and has not abandoned it."""
        if self.is_left_behind(action.id) or self.life.is_given_up(action.id):
            return False
        while action.process is None and action.as_tool.parent:
            # A call is guarded by the process of the step or run around it.
            action = self.ledger.history.actions[action.as_tool.parent]
        process = action.process
        run = self.ledger.history.runs.get(action.stream)
        if process is None and run and run.began.detached:
            return self.is_led(run)
        return processes.is_alive(process, self.life.last_ns(action.id))

    def whole(self, action: RecordedAction) -> RecordedAction:
        """Return the command that this is a part of; the action itself if it is not a part."""
        return (
            self.ledger.history.actions[action.as_tool.parent]
            if is_part(self.ledger.history, action)
            else action
        )

    def open_part(self, id: str) -> str:
        """Return the open part of this action, which contains what begins inside the action; otherwise `id`."""
        history = self.ledger.history
        parts = (a.id for a in history.open_actions() if a.as_tool.parent == id and is_part(history, a))
        return next(parts, id) if id else id

    def is_led(self, run: RecordedRun) -> bool:
        """Return whether a session may still go on.

        Without a leading process it stays open until a caller ends it.
        """
        if self.is_left_behind(run.id):
            return False
        return run.began.process is None or processes.is_alive(run.began.process, self.life.last_ns(run.id))

    # What goes on in the background

    def end_gone(self) -> None:
        """End the background actions whose processes are all gone.

        Called before each look: changes since the last look may be theirs, later ones are not.
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
        # While only leftover processes are at work, a human may be working too.
        in_doubt = all(other.life is Life.BACKGROUND for other in others)
        changes = (*shared(self.since_last(marks), others, in_doubt=in_doubt), *self.made_by(action.id))
        outcome = e.Outcome.FAILED if action.exit_code or action.why else e.Outcome.DONE
        why = action.why or "its last process has ended"
        ended = e.ActionEnded(
            action.id, outcome, changes, marks, why, action.exit_code, action.result, action.full
        )
        self.ledger.append([ended], action.stream)

    def lives_on(self, action: RecordedAction) -> bool:
        """Return whether an action's processes may still be at work; a session's are until its agent reports."""
        if self.is_left_behind(action.id):
            return False
        return self._is_told_of(action) or bool(self.living(action.id))

    def living(self, action_id: str) -> list[int]:
        """Return the living processes that the action started."""
        action = self.ledger.history.actions[action_id]
        return sorted(self._found(action, processes.ProcessTable()))

    def in_background(self) -> list[int]:
        """Return all living processes that actions left behind."""
        left = [action for action in self.ledger.history.open_actions(Life.BACKGROUND) if action.processes]
        table = processes.ProcessTable() if left else None
        return sorted({pid for action in left if table for pid in self._found(action, table)})

    def leaves(self, action: RecordedAction) -> tuple[e.Process, ...]:
        """Return the processes that an action leaves behind when its command has ended."""
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
        """Return the processes that it started, recognised by what a process inherits and by its ancestors."""
        whole = self.whole(action)
        began, run = whole.began, self.ledger.history.runs.get(action.stream)
        if not isinstance(began, e.ActionBegan):
            return set()
        inherited = table.branded(self._brands(whole))
        if run and run.began.detached:
            # Children of the agent are its own tools and other calls; a process left by a call has lost its parent.
            inherited -= table.below(began.process)
        else:
            inherited |= table.with_token(self.token(whole.id))
        found = table.with_offspring(inherited | table.alive(action.processes))
        return found - {os.getpid()}

    def _brands(self, action: RecordedAction) -> set[int]:
        """Return its brand, and while it is open also the later brands of its run, which replace its own."""
        own, run = action.as_tool.brand, self.ledger.history.runs.get(action.stream)
        found = {own}
        if own and run and action.life is Life.OPEN:
            found |= self.ledger.history.brands_of(run.id, action.seq)
            if action.process == processes.this_process():
                found |= processes.own_brands(own)
        return found - {0}

    def is_left_behind(self, id: str) -> bool:
        """Return whether it began in a folder that the workspace has left since: it cannot be recorded any more."""
        return ids.seq_of(id) < self.ledger.history.moves.moved

    def _is_told_of(self, action: RecordedAction) -> bool:
        """Return whether it is in the background of an open session whose agent will report its end."""
        run = self.ledger.history.runs.get(action.stream)
        is_open = run is not None and run.began.detached and run.life is Life.OPEN
        in_background = action.life is Life.BACKGROUND and not action.processes
        return in_background and is_open and run is not None and self.is_led(run)

    def follows(self, target: Target) -> bool:
        """Return whether a target only follows from another one, so that reports leave it out."""
        pattern = self.resources[target.resource].traits.minor
        return bool(pattern and re.search(pattern, target.name))

    @property
    def origin(self) -> str:
        """The name of the workspace where it began. Keys for other systems contain it, wherever the seat is now."""
        began = self.ledger.history.began
        return state_name(os.fsdecode(path_of(began.root))) if began else self.name

    def token(self, action_id: str) -> str:
        """Return the value that identifies an action's processes, unique across workspaces."""
        return f"{self.name}:{action_id}"


def name_of_part(number: int) -> str:
    """Return the name of the step that a part of a command is."""
    return f"part {number}"


def is_part(history: History, action: RecordedAction) -> bool:
    """Return whether an action is a part of a command: a step that is called so, inside the command itself.

    Its name says both, as `CommandParts` writes it.
    """
    whole, run = history.actions.get(action.as_tool.parent), history.runs.get(action.stream)
    step = run.steps.get(action.as_tool.step) if run else None
    if whole is None or step is None or whole.stream != action.stream or whole.process is None:
        return False
    return bool(PART.fullmatch(step.name)) and action.name == f"{step.name} of {whole.name}"


def _is_inside(action: RecordedAction, other: RecordedAction) -> bool:
    return action.as_tool.parent == other.id


def apportioned(
    owners: Sequence[RecordedAction], changes: Sequence[Change], *, in_doubt: bool = False
) -> list[tuple[RecordedAction, tuple[Change, ...]]]:
    """Return for each of these open actions the changes that are recorded with it, and with whom it shares them.

    An action that names the paths that it writes did not write others. One that names none may have written any.
    """
    if not any(owner.as_tool.paths for owner in owners):
        return [(owners[0], shared(changes, owners[1:], in_doubt=in_doubt))] if changes else []
    found: dict[str, list[Change]] = {}
    for change in changes:
        may = [owner for owner in owners if _may_write(owner, change.target)] or owners
        found.setdefault(may[0].id, []).extend(shared([change], may[1:], in_doubt=in_doubt))
    return [(owner, tuple(found[owner.id])) for owner in owners if owner.id in found]


def _may_write(action: RecordedAction, target: Target) -> bool:
    named = action.as_tool.paths
    if not named or target.root or target.resource not in OF_PATHS:
        return True
    # A folder changes with what is written in it.
    return target.name == "." or any(
        is_within(target.name, path) or is_within(path, target.name) for path in named
    )


def shared(
    changes: Sequence[Change], others: Sequence[RecordedAction], *, in_doubt: bool = False
) -> tuple[Change, ...]:
    """Return these changes, marked as shared between several actions, or as in doubt."""
    names = tuple(other.id for other in others)
    if not names and not in_doubt:
        return tuple(changes)
    return tuple(msgspec.structs.replace(c, shared_with=names, in_doubt=in_doubt) for c in changes)
