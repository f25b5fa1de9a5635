"""What the journal says, folded into runs, actions, checkpoints and the changes that still stand.

The fold never stops at an event that should not have come: what can be taken back must stay so. Such an event
is kept as a breach, which `verify` reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, get_args

from takeback.core import events as e
from takeback.core import intents as i
from takeback.core import lifecycle
from takeback.core.change import ABSENT, Change, Entry, Target, Version
from takeback.core.entities import (
    Approval,
    Breach,
    Checkpoint,
    RecordedAction,
    RecordedRun,
    RecordedStep,
    called,
)
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.memory import value_after
from takeback.core.record import Record
from takeback.core.seats import Moves, WorkspaceSeated


class History:
    """The state of a workspace at one position of its journal."""

    def __init__(self) -> None:
        self.seq = 0
        self.began: e.WorkspaceBegan | None = None
        self.runs: dict[str, RecordedRun] = {}
        self.actions: dict[str, RecordedAction] = {}
        self.rollbacks: list[str] = []
        self.checkpoints: dict[str, Checkpoint] = {}
        self.breaches: list[Breach] = []
        self.accepted: dict[str, str] = {}  # settings files, each with the version that a human accepted last
        self.marks: dict[str, e.Mark] = {}
        self.streams: dict[str, int] = defaultdict(int)
        self.approvals: dict[str, Approval] = {}
        self.keyed_runs: dict[str, list[str]] = defaultdict(list)
        self.memory: dict[str, dict[str, Any]] = defaultdict(dict)
        """The values that each run keeps, by the path of each."""
        self.progress: dict[str, dict[Target, e.Item]] = defaultdict(dict)
        """What an unfinished rollback has already done of what must not be done twice."""
        self.intents = i.Intents()
        self.moves = Moves()
        self._undone: dict[str, str] = {}
        self._never: set[tuple[str, Target]] = set()
        self._unended: dict[str, RecordedAction] = {}
        self._open_runs: dict[str, RecordedRun] = {}
        self._timeline: dict[Target, list[Entry]] = defaultdict(list)
        self._shared: dict[str, list[Entry]] = defaultdict(list)
        self._settlers: dict[tuple[str, Target, int], list[str]] = defaultdict(list)
        self._keepers: set[tuple[str, Target]] = set()
        self._unsettled: set[tuple[str, Target, int]] = set()
        self._beside: set[str] = set()
        self._accepted_at: dict[str, int] = {}

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        history = cls()
        for record in records:
            history.apply(record)
        return history

    def apply(self, record: Record) -> None:
        """Take in the next record."""
        self.seq = record.seq
        self.streams[record.stream] = record.envelope.n
        event = record.event
        _APPLY[type(event)](self, record, event)
        for mark in getattr(event, "marks", ()):
            self.marks[mark.resource] = mark
            self.moves.looked(mark.resource, record.at_us)

    # What stands

    def timeline(self, target: Target) -> list[Entry]:
        """Every recorded change of a target, by anybody, in order."""
        return self._timeline.get(target, [])

    def latest(self, target: Target) -> Version:
        """The version that was last recorded of a target."""
        timeline = self._timeline.get(target)
        return timeline[-1].change.after if timeline else ABSENT

    def values(self) -> set[bytes]:
        """The names of the content that holds arguments and results of calls."""
        named = [name for a in self.actions.values() for name in (a.as_tool.full, a.full)]
        named += [intent.full for intent in self.intents.every.values()]
        return {bytes.fromhex(name) for name in named if name}

    def targets(self) -> Iterable[Target]:
        """Everything that was ever changed."""
        return self._timeline.keys()

    def entries(self, action: str) -> list[Entry]:
        """The changes that an action made, or may have made; not those that are known never to have happened."""
        both = [*self.actions[action].made, *self._shared.get(action, [])]
        real = (entry for entry in both if (action, entry.target) not in self._never)
        return sorted(real, key=lambda entry: entry.seq)

    def never_happened(self, action: str) -> bool:
        """Whether its call was in doubt, and is known by now not to have happened."""
        return any(id == action for id, _ in self._never)

    def taken_back(self, action: str, target: Target, seq: int) -> bool:
        """Whether a rollback that itself still stands has settled this change of the target.

        An action's change is known by the record that holds it. A rollback has one word on each target.
        """
        key = (action, target, 0 if self.actions[action].is_rollback else seq)
        return any(not self.taken_back(rollback, target, 0) for rollback in self._settlers.get(key, ()))

    def live(self, action: str) -> list[Entry]:
        """The changes of an action that are not taken back."""
        return [x for x in self.entries(action) if not self.taken_back(action, x.target, x.seq)]

    def untried(self, action: str) -> list[Entry]:
        """The live changes of an action without those that an undo has reported as unknown, which stay so."""
        return [x for x in self.live(action) if (action, x.target, x.seq) not in self._unsettled]

    def unsettled(self) -> list[str]:
        """Actions of which all that is left was reported as unknown by an undo, the oldest first."""
        reported = {id for id, _, _ in self._unsettled}
        left = [self.actions[id] for id in reported if self.live(id) and not self.untried(id)]
        return [action.id for action in sorted(left, key=lambda action: action.seq)]

    def kept(self, action: str) -> list[Entry]:
        """The changes of an action that an undo dealt with by leaving them as they were."""
        return [x for x in self.entries(action) if self._is_kept(action, x.target, x.seq)]

    def _is_kept(self, action: str, target: Target, seq: int) -> bool:
        key = (action, target, 0 if self.actions[action].is_rollback else seq)
        standing = [r for r in self._settlers.get(key, ()) if not self.taken_back(r, target, 0)]
        return bool(standing) and self._keepers.issuperset((rollback, target) for rollback in standing)

    def untrusted_since(self, target: Target, *, beside: bool = False) -> Entry | None:
        """The change with which actions began to write a target that no human has written or accepted since.

        With `beside`, what changed outside any action counts too where an agent's session was open: it may be the
        agent's, by way of something that it left behind.
        """
        untrusted = None
        for entry in reversed(self.timeline(target)):
            if untrusted is None and self._is_accepted(entry):
                return None
            action = self.actions[entry.action]
            is_agents = action.is_tool and not action.is_own
            doubted = is_agents or (beside and entry.action in self._beside)
            if not doubted or self.taken_back(entry.action, target, entry.seq):
                break
            untrusted = entry
        return untrusted

    def _is_accepted(self, entry: Entry) -> bool:
        """Whether a human accepted exactly this, after it was written: not what was accepted once and came back."""
        name = entry.target.name
        return entry.change.after.id == self.accepted.get(name) and entry.seq < self._accepted_at[name]

    @property
    def is_in_session(self) -> bool:
        """Whether an agent that is followed by its hooks is at work, or between two calls."""
        return any(run.began.detached for run in self._open_runs.values())

    def settled_by(self, rollback: str) -> list[Target]:
        """The targets that a rollback dealt with and that have not been brought back since."""
        items = self.actions[rollback].items
        return [i.target for i in items if i.did in SETTLING and not self.taken_back(rollback, i.target, 0)]

    def open_runs(self) -> list[RecordedRun]:
        """Runs that go on, or whose process died without a word."""
        return list(self._open_runs.values())

    def is_undone(self, action: str) -> bool:
        """Whether an action was taken back as a whole, also where it had changed nothing."""
        return action in self._undone and not self.live(action)

    def is_half_undone(self, action: str) -> bool:
        """Whether it was to be taken back, and could not be, or not for certain."""
        return action in self._undone and bool(self.live(action))

    def open_actions(self, life: Life = Life.OPEN) -> list[RecordedAction]:
        """Actions without a recorded end; or those whose processes outlived their command."""
        return [action for action in self._unended.values() if action.life is life]

    @property
    def has_unended(self) -> bool:
        """Whether any action has no recorded end, in the background or not."""
        return bool(self._unended)

    # One method for each event

    def _workspace_began(self, record: Record, event: e.WorkspaceBegan) -> None:
        if self.began is not None:
            self._breach(record, "the workspace began twice")
        self.began = event

    def _run_began(self, record: Record, event: e.RunBegan) -> None:
        self.runs[record.id] = self._open_runs[record.id] = RecordedRun(record.id, event, record.at_us)
        if event.key:
            self.keyed_runs[event.key].append(record.id)

    def _run_moved(self, record: Record, event: e.Event) -> None:
        run = self.runs.get(record.stream)
        if run is None:
            return self._breach(record, f"there is no run {record.stream}")
        if self._move(record, lifecycle.RUN, run, f"run {run.id}"):
            if isinstance(event, e.RunTaken):
                run.taken_by = event.actor or "you"
                return None  # why it was handed over still holds
            run.ended_us, run.taken_by = record.at_us, ""
            run.why = getattr(event, "why", "")
            if run.life is Life.OPEN:
                self._open_runs[run.id] = run
            else:
                self._open_runs.pop(run.id, None)

    def _step_began(self, record: Record, event: e.StepBegan) -> None:
        run = self.runs.get(record.stream)
        if run is None:
            return self._breach(record, f"there is no run {record.stream}")
        run.steps[record.id] = RecordedStep(record.id, event.name, event.parent, event.ref, record.at_us)

    def _step_ended(self, record: Record, event: e.StepEnded) -> None:
        run = self.runs.get(record.stream)
        step = run.steps.get(event.step) if run else None
        if step is None:
            return self._breach(record, f"there is no step {event.step}")
        self._move(record, lifecycle.STEP, step, f"step {step.id}")

    def _action_began(self, record: Record, event: e.ActionBegan | e.RollbackBegan | e.DriftSeen) -> None:
        by = getattr(event, "actor", "")
        action = RecordedAction(record.id, *called(event), record.stream, by, record.at_us, event)
        self.actions[action.id] = self._unended[action.id] = action
        if action.is_rollback:
            self.rollbacks.append(action.id)
        if run := self.runs.get(record.stream):
            run.actions.append(action.id)
            if isinstance(event, e.ActionBegan):
                self._place(run, action.id, event)
        if isinstance(event, e.DriftSeen):
            if self.is_in_session:
                self._beside.add(action.id)
            action.life = Life.DONE
            self._finish(record, action, event.changes)

    def _action_noted(self, record: Record, event: e.ActionNoted) -> None:
        began = e.ActionBegan(
            event.name,
            e.Effect.NONE,
            step=event.step,
            parent=event.parent,
            key=event.key,
            arguments=event.arguments,
            tool=event.tool,
            intent=event.intent,
        )
        self._action_began(record, began)
        action = self.actions[record.id]
        action.life = lifecycle.ENDED[event.outcome]
        action.result, action.full, action.why = event.result, event.full, event.why
        self._finish(record, action, ())

    def _place(self, run: RecordedRun, action: str, event: e.ActionBegan) -> None:
        """Where in its run an action stands."""
        if event.key:
            run.keys.setdefault(event.key, []).append(action)
        elif (step := run.steps.get(event.step)) and not step.body:
            step.body = action

    def _action_ended(
        self, record: Record, event: e.ActionDetached | e.ActionEnded | e.ActionSettled
    ) -> None:
        action = self.actions.get(event.action)
        if action is None or not action.is_tool:
            return self._breach(record, f"there is no action {event.action}")
        if self._move(record, lifecycle.ACTION, action, f"action {action.id}"):
            action.exit_code = getattr(event, "exit_code", action.exit_code)
            action.why = getattr(event, "why", "")
            action.result, action.full = getattr(event, "result", None), getattr(event, "full", "")
            action.happened, action.unsure = getattr(event, "happened", True), getattr(event, "unsure", False)
            action.processes = getattr(event, "processes", ())
            self._finish(record, action, event.changes)
            if action.life is Life.DONE and not event.marks and action.writes_files:
                self.moves.done(action.id)

    def _action_told(self, record: Record, event: e.ActionTold) -> None:
        action = self.actions.get(event.action)
        if action is None or not action.is_tool:
            return self._breach(record, f"there is no action {event.action}")
        if not event.happened:
            self._never.update((action.id, change.target) for change in event.changes)
        action.result, action.full = event.result, event.full
        self._add(record, action, event.changes)

    def _changes_seen(self, record: Record, event: e.ChangesSeen) -> None:
        action = self.actions.get(event.action)
        if action is None or action.life not in (Life.OPEN, Life.BACKGROUND):
            return self._breach(record, f"action {event.action} is not open")
        self._add(record, action, event.changes)

    def _intent(self, record: Record, event: i.IntentEvent) -> None:
        if wrong := self.intents.apply(record.id, record.stream, event, record.seq, record.at_us):
            return self._breach(record, wrong)
        if isinstance(event, i.IntentDeferred):
            self._changes_seen(record, e.ChangesSeen(event.action, (i.change_of(record.id, event),)))

    def _rollback_ended(self, record: Record, event: e.RollbackEnded) -> None:
        action = self.actions.get(event.rollback)
        if action is None or not action.is_rollback:
            return self._breach(record, f"there is no rollback {event.rollback}")
        if self._move(record, lifecycle.ROLLBACK, action, f"rollback {action.id}"):
            action.items = event.items
            self._finish(record, action, event.changes)
            self.progress.pop(action.id, None)
            self._turn(action)
            for item in event.items:
                if item.did in SETTLING:
                    self._settle(action.id, item)
                elif item.did is e.Did.UNVERIFIABLE:
                    self._unsettled.update((id, item.target, seq) for id in item.settles for seq in item.seqs)

    def _turn(self, rollback: RecordedAction) -> None:
        """An undo takes actions back as a whole; a redo brings back those that it names."""
        began = rollback.began
        assert isinstance(began, e.RollbackBegan)
        if began.kind is e.RollbackKind.UNDO:
            self._undone.update(dict.fromkeys(began.of, rollback.id))
        elif began.kind is e.RollbackKind.REDO:
            self._undone = {a: by for a, by in self._undone.items() if by not in began.of}

    def _rollback_progressed(self, record: Record, event: e.RollbackProgressed) -> None:
        action = self.actions.get(event.rollback)
        if action is None or action.life is not Life.OPEN:
            return self._breach(record, f"rollback {event.rollback} is not open")
        self.progress[event.rollback][event.item.target] = event.item

    def _settle(self, rollback: str, item: e.Item) -> None:
        if item.did is e.Did.KEPT:
            self._keepers.add((rollback, item.target))
        for action in item.settles:
            is_rollback = action in self.actions and self.actions[action].is_rollback
            for seq in (0,) if is_rollback else item.seqs:
                self._settlers[action, item.target, seq].append(rollback)

    def _checkpoint_taken(self, record: Record, event: e.CheckpointTaken) -> None:
        self.checkpoints[record.id] = Checkpoint(record.id, record.stream, record.at_us, event)

    def _approval_asked(self, record: Record, event: e.ApprovalAsked) -> None:
        self.approvals[record.id] = Approval(record.id, record.stream, record.at_us, event)

    def _approval_moved(self, record: Record, event: e.ApprovalAnswered | e.ApprovalUsed) -> None:
        approval = self.approvals.get(event.approval)
        if approval is None:
            return self._breach(record, f"there is no approval {event.approval}")
        if self._move(record, lifecycle.APPROVAL, approval, f"approval {approval.id}"):
            if isinstance(event, e.ApprovalAnswered):
                approval.actor, approval.why = event.actor, event.why
                approval.life = Life.GRANTED if event.granted else Life.DENIED

    def _seated(self, record: Record, event: WorkspaceSeated) -> None:
        self.moves.seated(record.seq, record.at_us, event)

    def _nothing(self, _record: Record, _event: e.Event) -> None:
        """It is told for the reader of the log alone."""

    def _config_accepted(self, record: Record, event: e.ConfigAccepted) -> None:
        self.accepted[event.path] = event.version
        self._accepted_at[event.path] = record.seq

    def _finish(self, record: Record, action: RecordedAction, changes: tuple[Change, ...]) -> None:
        action.ended_us = record.at_us
        if action.life is not Life.BACKGROUND:
            del self._unended[action.id]
        self._add(record, action, changes)

    def _add(self, record: Record, action: RecordedAction, changes: tuple[Change, ...]) -> None:
        for change in changes:
            entry = Entry(record.seq, action.id, change)
            action.made.append(entry)
            self._timeline[entry.target].append(entry)
            if entry.target.resource == "memory":
                self._remember(record, change)
            for other in change.shared_with:
                self._shared[other].append(entry)

    def _remember(self, record: Record, change: Change) -> None:
        values, name, timeline = (
            self.memory[change.target.root],
            change.target.name,
            self._timeline[change.target],
        )
        current = values.pop(name, None)
        if change.after:
            try:
                values[name] = value_after(timeline, len(timeline) - 1, current)
            except (KeyError, TypeError):
                self._breach(record, f"nobody knows the value that {change.target.said} is made of")

    def _move(self, record: Record, table: lifecycle.Table, subject: Any, called: str) -> bool:
        life = lifecycle.follow(table, subject.life, record.event)
        if life is None:
            self._breach(
                record, f"{called} is {subject.life}, which {type(record.event).__name__} cannot follow"
            )
            return False
        subject.life = life
        return True

    def _breach(self, record: Record, what: str) -> None:
        self.breaches.append(Breach(record.seq, what))


_APPLY: dict[type, Callable[[History, Record, Any], None]] = {
    e.WorkspaceBegan: History._workspace_began,
    e.RunBegan: History._run_began,
    e.RunEnded: History._run_moved,
    e.RunInterrupted: History._run_moved,
    e.RunResumed: History._run_moved,
    e.RunHandedOver: History._run_moved,
    e.RunTaken: History._run_moved,
    e.RunReturned: History._run_moved,
    e.StepBegan: History._step_began,
    e.StepEnded: History._step_ended,
    e.ActionBegan: History._action_began,
    e.DriftSeen: History._action_began,
    e.RollbackBegan: History._action_began,
    e.ActionDetached: History._action_ended,
    e.ActionEnded: History._action_ended,
    e.ActionSettled: History._action_ended,
    e.ActionNoted: History._action_noted,
    e.ActionTold: History._action_told,
    e.ActionRefused: History._nothing,
    e.ApprovalAsked: History._approval_asked,
    e.ApprovalAnswered: History._approval_moved,
    e.ApprovalUsed: History._approval_moved,
    e.RollbackProgressed: History._rollback_progressed,
    e.RollbackEnded: History._rollback_ended,
    e.ChangesSeen: History._changes_seen,
    e.ConfigAccepted: History._config_accepted,
    e.CheckpointTaken: History._checkpoint_taken,
    WorkspaceSeated: History._seated,
    **dict.fromkeys(get_args(i.IntentEvent), History._intent),
}
