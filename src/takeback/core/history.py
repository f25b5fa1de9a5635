"""The state that the journal describes: runs, actions, checkpoints and the changes that still stand.

An event that is not allowed at its position never stops the fold, so that all other changes can still be taken
back. It is kept as a breach, which `verify` reports.

A history that reads the journal from its beginning has everything at hand. One that begins with an index has what is
open, and folds anything else from its own records when it is asked for. Both answer alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, get_args

from takeback.core import events as e
from takeback.core import folds, ids
from takeback.core import intents as i
from takeback.core.change import ABSENT, OF_PATHS, Entry, Target, Version, is_within
from takeback.core.entities import Approval, Breach, Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.memory import RESOURCE as MEMORY
from takeback.core.postings import (
    Flag,
    Guard,
    Index,
    RecentFlags,
    Topic,
    begun_by,
    every,
    named,
    newest_of,
    numbered,
    of_target,
)
from takeback.core.recollection import Recollection
from takeback.core.record import Record
from takeback.core.seats import TREE, WorkspaceSeated
from takeback.core.standing import WAITING, CurrentState, Unindexed, WhatStands

_GOING_ON = (e.ChangesSeen, i.IntentDeferred)
_OF_TOOLS = (e.ActionBegan, e.ActionNoted)


class History(WhatStands):
    """The state of a workspace at one position of its journal."""

    def __init__(self, guard: Guard | None = None) -> None:
        """Threads that share the history need a `guard`; with an index, they use the guard of the index."""
        self._begin(None, CurrentState(), guard)

    def _begin(self, index: Index | None, standing: CurrentState, guard: Guard | None = None) -> None:
        self._things = things = Recollection(index, guard)
        self._standing = standing
        things.postings.counts = standing.counts
        self.postings, self.runs, self.actions = things.postings, things.runs, things.actions
        self.checkpoints, self.approvals, self.intents = things.checkpoints, things.approvals, things.intents
        self._targets: dict[Target, None] = {}
        """Those that were changed since the index was made."""
        self._flags = RecentFlags()

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        history = cls()
        for record in records:
            history.apply(record)
        return history

    def become(self, other: History) -> None:
        """Answer as another history does from now on, which nothing else uses."""
        self.__dict__.update(other.__dict__)

    def begin_at(self, index: Index, standing: CurrentState) -> None:
        """Begin with an index, in place of the beginning of the journal. Nothing may have been applied yet."""
        assert not self.seq
        self._begin(index, standing)

    def apply(self, record: Record) -> None:
        """Apply the next record."""
        event, standing = record.event, self._standing
        with self.postings.guard:
            _APPLY[type(event)](self, record, event)
            for mark in getattr(event, "marks", ()):
                standing.marks[mark.resource] = mark
                standing.moves.looked(mark.resource, record.seq, record.at_us)
                if mark.resource == TREE:
                    self._post(record, every(Topic.LOOKS))
            standing.told_at(record.seq, record.at_us)
            standing.seq = self.postings.last = record.seq

    # Changes

    def timeline(self, target: Target, after: int = 0) -> list[Entry]:
        """Return the recorded changes of a target in order, whoever made them; only those after a record."""
        return self._things.timeline(target, after)

    def latest_entries(self, target: Target) -> Iterator[Entry]:
        """Yield the recorded changes of a target, the latest first, and read no more than is taken."""
        return self._things.latest_entries(target)

    def latest(self, target: Target) -> Version:
        """Return the last recorded version of a target."""
        last = next(self.latest_entries(target), None)
        return last.change.after if last else ABSENT

    def memory_of(self, run: str) -> dict[str, Any]:
        """Return the memory of a run: values by their paths."""
        return self._things.memory_of(run)

    def targets(self, resource: str, within: str = "") -> Iterator[Target]:
        """Yield the paths of a resource that were ever changed: `within` and those below it."""
        for target in self._targets:
            if target.resource == resource and is_within(target.name, within):
                yield target
        if index := self.postings.index:
            found = index.targets(resource, within)
            yield from (target for target in found if target not in self._targets)

    def entries(self, action: str) -> Sequence[Entry]:
        """Return the changes that an action made or may have made, without those known not to have happened."""
        known = self.actions[action]
        if not known.shared and not known.never:
            return known.made
        real = (entry for entry in (*known.made, *known.shared) if entry.target not in known.never)
        return sorted(real, key=lambda entry: entry.seq)

    def never_happened(self, action: str) -> bool:
        """Return whether the action's call was in doubt and turned out not to have happened."""
        return bool(self.actions[action].never)

    def taken_back(self, action: str, target: Target, seq: int) -> bool:
        """Return whether this change of the target was settled by a rollback that itself still stands.

        A change of an action is identified by the sequence number of its record. A rollback has one item for each
        target, so its number is always 0.
        """
        return any(
            not self.taken_back(rollback, target, 0) for rollback in self._settlers(action, target, seq)
        )

    def _settlers(self, action: str, target: Target, seq: int) -> Iterable[str]:
        known = self.actions[action]
        return known.settlers.get((target, 0 if known.is_rollback else seq), ())

    def live(self, action: str) -> list[Entry]:
        """Return the changes of an action that are not taken back."""
        return [x for x in self.entries(action) if not self.taken_back(action, x.target, x.seq)]

    def untried(self, action: str) -> Iterator[Entry]:
        """Yield the live changes of an action, without those that an undo could not verify."""
        unsettled = self.actions[action].unsettled
        for entry in self.entries(action):
            if (entry.target, entry.seq) not in unsettled and not self.taken_back(
                action, entry.target, entry.seq
            ):
                yield entry

    def kept(self, action: str) -> list[Entry]:
        """Return the changes of an action that an undo deliberately left in place."""
        return [x for x in self.entries(action) if self._is_kept(action, x.target, x.seq)]

    def _is_kept(self, action: str, target: Target, seq: int) -> bool:
        settlers = self._settlers(action, target, seq)
        standing = [r for r in settlers if not self.taken_back(r, target, 0)]
        return bool(standing) and all(target in self.actions[rollback].kept for rollback in standing)

    def settled_by(self, rollback: str) -> list[Target]:
        """Return the targets that a rollback settled and no redo has brought back since."""
        items = self.actions[rollback].items
        return [i.target for i in items if i.did in SETTLING and not self.taken_back(rollback, i.target, 0)]

    # Actions and runs

    def is_undone(self, action: str) -> bool:
        """Return whether an action was taken back as a whole, even if it had changed nothing."""
        return self._was_undone(action) and not self.live(action)

    def is_half_undone(self, action: str) -> bool:
        """Return whether an undo of the action was incomplete or could not be verified."""
        return self._was_undone(action) and bool(self.live(action))

    def _was_undone(self, action: str) -> bool:
        """Return whether an undo named the action, and no redo has named that undo since."""
        named = self.actions.get(action)
        if named is None:
            return False
        undos = (self.actions[id] for id in reversed(named.named_by))
        last = next((undo for undo in undos if folds.is_over(undo, e.RollbackKind.UNDO)), None)
        if last is None:
            return False
        return not self.is_redone(last.id)

    def is_redone(self, rollback: str) -> bool:
        """Return whether a redo has named the rollback."""
        return any(
            folds.is_over(self.actions[id], e.RollbackKind.REDO) for id in self.actions[rollback].named_by
        )

    def is_unended(self, action: str) -> bool:
        """Return whether an action has no recorded end."""
        return action in self._standing.actions

    def flagged(self, flag: Flag) -> Iterator[RecordedAction]:
        """Yield the actions that have this flag now, the latest first, and read no more than is taken."""
        self._set_flags()
        here, known, index = iter(self._flags.having(flag)), self._flags.known, self.postings.index
        earlier = (seq for seq in (index.flagged(flag) if index else ()) if seq not in known)
        return (self.actions[ids.make(ids.ACTION, seq)] for seq in newest_of(here, earlier))

    def first_flagged(self, flag: Flag) -> RecordedAction | None:
        """Return the oldest action that has this flag now."""
        self._set_flags()
        here, known, index = self._flags.having(flag), self._flags.known, self.postings.index
        earlier = (seq for seq in (index.flagged(flag, oldest=True) if index else ()) if seq not in known)
        first = min((*here, *islice(earlier, 1)), default=0)
        return self.actions[ids.make(ids.ACTION, first)] if first else None

    def count_flagged(self, flag: Flag) -> int:
        """Return how many actions have this flag now."""
        self._set_flags()
        here, known = len(self._flags.having(flag)), self._flags.known
        if (index := self.postings.index) is None:
            return here
        return here + index.count_flagged(flag) - sum(bool(index.flags(seq) & flag) for seq in known)

    def unsettled(self) -> list[str]:
        """Return the actions whose remaining changes an undo tried and could not verify, oldest first."""
        return [action.id for action in reversed(list(self.flagged(Flag.UNSETTLED)))]

    def in_doubt(self) -> list[RecordedAction]:
        """Return the actions of which it was unknown whether they happened, in order; it may be known by now."""
        found = [
            self.actions[ids.make(ids.ACTION, seq)] for seq in self.postings.highest(every(Topic.DOUBTS))
        ]
        return found[::-1]

    def rollbacks(self) -> Iterator[RecordedAction]:
        """Yield every rollback, the latest first."""
        seqs = self.postings.newest(every(Topic.ROLLBACKS))
        return (self.actions[ids.make(ids.ACTION, seq)] for seq in seqs)

    def since(self, seq: int) -> list[RecordedAction]:
        """Return the actions that began after a record, in order."""
        found = []
        for action in self.actions.values().__reversed__():
            if action.seq <= seq:
                break
            found.append(action)
        return found[::-1]

    def changed_since(self, seq: int) -> list[str]:
        """Return the tool calls that changed something after a record, in the order of their beginnings."""
        later = set(self.postings.after(every(Topic.CHANGES), seq))
        found = {folds.owner(record.event) for record in self.postings.read(list(later))}
        if not self.postings.position:
            found = {a.id for a in self.actions.values() if any(entry.seq in later for entry in a.made)}
        return sorted(found, key=ids.seq_of)

    def unseen(self) -> list[str]:
        """Return what was done since somebody last looked at the files: a move to another folder would lose it."""
        ends = set(self.postings.after(every(Topic.UNSEEN), self.moves.looked_at))
        found = {folds.owner(record.event) for record in self.postings.read(list(ends))}
        if not self.postings.position:
            found = {action.id for action in self.actions.at_hand.values() if action.ended in ends}
        return sorted(found, key=ids.seq_of)

    def inside(self, action: str) -> list[str]:
        """Return the actions that began inside another one, whatever run they belong to."""
        return [ids.make(ids.ACTION, seq) for seq in self.postings.seqs(numbered(Topic.UNDER, action))]

    def by(self, actors: Iterable[str]) -> Iterator[RecordedAction]:
        """Yield the tool calls of these actors, the latest first."""
        seqs = newest_of(*(self.postings.newest(named(Topic.BY, actor)) for actor in actors))
        found = (self.actions[ids.make(ids.ACTION, seq)] for seq in seqs)
        wanted = set(actors)
        return (action for action in found if action.actor in wanted)

    def calls_of(self, run: str, key: str) -> list[str]:
        """Return the calls of a run with this key: more than one where a call was taken back and made again."""
        seqs = self.postings.seqs(named(Topic.CALL_KEY, run, key), run)
        found = (self.actions[ids.make(ids.ACTION, seq)] for seq in seqs)
        return [action.id for action in found if (action.stream, action.as_tool.key) == (run, key)]

    def times_called(self, run: str, tool: str) -> int:
        """Return how often a run has called a tool, by the name that rules have for it."""
        return self.postings.size(named(Topic.CALLED, run, tool), run)

    def brands_of(self, run: str, after: int) -> set[int]:
        """Return the brands that actions of a run put on processes after a record."""
        seqs = self.postings.after(numbered(Topic.BRANDED, run), after)
        return {self.actions[ids.make(ids.ACTION, seq)].as_tool.brand for seq in seqs}

    def runs_of_key(self, key: str) -> list[str]:
        """Return the runs with this key, in order."""
        found = [ids.make(ids.RUN, seq) for seq in self.postings.seqs(named(Topic.RUN_KEY, key))]
        return [id for id in found if self.runs[id].began.key == key]

    def approvals_of(self, run: str) -> list[Approval]:
        """Return the requests of a run, in order."""
        seqs = self.postings.seqs(numbered(Topic.ASKED, run))
        return [self.approvals[ids.make(ids.APPROVAL, seq)] for seq in seqs]

    def plan_approvals(self, digest: str) -> list[int]:
        """Return the records in which a human approved the plan with this digest. What is read is compared."""
        return self.postings.seqs(named(Topic.PLAN, digest))

    def unused_approvals(self) -> list[Approval]:
        """Return the requests without an answer, and those whose answer was yes and has not been used."""
        return [self.approvals[id] for id in list(self._standing.approvals)]

    @property
    def is_in_session(self) -> bool:
        """True while the session of an agent with hooks is open, including between two calls."""
        return any(self.runs[id].began.detached for id in list(self._standing.runs))

    def runs_open_at(self, checkpoint: str) -> list[str]:
        """Return the runs that were open when a checkpoint was taken, in the order of their beginnings."""
        found = self.postings.highest(numbered(Topic.OPEN_THEN, checkpoint))
        return [ids.make(ids.RUN, seq) for seq in found][::-1]

    def open_runs(self) -> list[RecordedRun]:
        """Return the runs without a recorded end: still going on, or their process died."""
        return [self.runs[id] for id in list(self._standing.runs)]

    def waiting_runs(self) -> list[RecordedRun]:
        """Return the runs that were interrupted or handed over, in order."""
        return [self.runs[id] for id in sorted(self._standing.waiting, key=ids.seq_of)]

    def open_actions(self, life: Life = Life.OPEN) -> list[RecordedAction]:
        """Return the actions without a recorded end that are in state `life`: open, or in the background."""
        unended = (self.actions[id] for id in list(self._standing.actions))
        return [action for action in unended if action.life is life]

    def unended_in(self, run: str) -> list[RecordedAction]:
        """Return the actions of a run without a recorded end, in order."""
        return [action for id in list(self._standing.actions) if (action := self.actions[id]).stream == run]

    @property
    def is_unsettled(self) -> bool:
        """True if an action, a run or a compaction has no recorded end: a crash may have left it open."""
        return bool(self._standing.actions or self._standing.runs or self._standing.compacting)

    @property
    def has_unended(self) -> bool:
        """True if any action has no recorded end, in the background or not."""
        return bool(self._standing.actions)

    def count(self, kind: Topic) -> int:
        """Return how many there are of a kind: actions, runs, checkpoints."""
        return self.postings.count(every(kind))

    def listed_runs(self) -> Iterator[RecordedRun]:
        """Yield the runs that are more than one command, the latest first."""
        # They are posted when they come to be more, which is not always in the order of their beginnings.
        seqs = self.postings.highest(every(Topic.LISTED_RUNS))
        return (self.runs[ids.make(ids.RUN, seq)] for seq in seqs)

    def steps(self) -> Iterator[tuple[RecordedRun, RecordedStep]]:
        """Yield every step with its run, the latest first."""
        for seq in self.postings.newest(every(Topic.STEPS)):
            step = ids.make(ids.STEP, seq)
            run = self.runs[self.run_of_step(step)]
            yield run, run.steps[step]

    def actions_in(self, step: str) -> list[str]:
        """Return the actions of a step."""
        return [ids.make(ids.ACTION, seq) for seq in self.postings.seqs(numbered(Topic.IN_STEP, step))]

    def run_of_step(self, step: str) -> str:
        """Return the run that a step belongs to, or nothing."""
        if not self.postings.position:
            return next((run.id for run in self.runs.at_hand.values() if step in run.steps), "")
        records = self.postings.read([ids.seq_of(step)])
        return next((r.stream for r in records if r.id == step and r.stream in self.runs), "")

    # What an index needs to go on from here

    def unindexed(self) -> Unindexed:
        """Return what the records since the index add to it."""
        self._set_flags()
        postings, flags = self.postings, self._flags.known
        return Unindexed(postings.position, self._standing, postings.since, flags, self._targets)

    def indexed(self) -> None:
        """Go on from an index that has taken in all of this. Only what is open stays at hand."""
        self.postings.position = self.seq
        self.postings.since.clear()
        self._flags.clear()
        self._targets.clear()
        self._trim()

    def trim(self, most: int) -> None:
        """Keep only what is open at hand if that is more than so many things, and all else can be read again."""
        if self.postings.position and self._things.at_hand > most:
            with self.postings.guard:
                self._trim()

    def _trim(self) -> None:
        standing = self._standing
        runs = [*standing.runs, *standing.waiting]
        self._things.keep(actions=standing.actions, runs=runs, approvals=standing.approvals)

    def _set_flags(self) -> None:
        with self.postings.guard:
            self._flags.settle(self._flags_of)

    def _flags_of(self, id: str) -> int:
        action, flags = self.actions[id], 0
        if action.is_tool and not action.is_own and next(self.untried(action.id), None):
            flags |= Flag.UNDOABLE
        if action.kind in ("undo", "restore") and self.settled_by(action.id):
            flags |= Flag.REDOABLE
        if action.is_unknown and not self.is_undone(action.id):
            flags |= Flag.UNKNOWN
        if action.unsettled and self.live(action.id) and not next(self.untried(action.id), None):
            flags |= Flag.UNSETTLED
        return flags

    # One method for each event

    def _workspace_began(self, record: Record, event: e.WorkspaceBegan) -> None:
        if self.began is not None:
            self._breach(record, "the workspace began twice")
        self._standing.began = event

    def _run_began(self, record: Record, event: e.RunBegan) -> None:
        run = self._things.begun(record.id, record.at_us, event)
        self.runs.put(record, run.id, run)
        self._standing.runs[run.id] = None
        self._post(record, begun_by(Topic.RUN, record))
        self._list(run, was_listed=False)
        if event.key:
            self._post(record, named(Topic.RUN_KEY, event.key))

    def _run_moved(self, record: Record, _event: e.Event) -> None:
        run = self._of_run(record)
        if run is None:
            return
        standing = self._standing
        standing.runs.pop(run.id, None)
        standing.waiting.pop(run.id, None)
        if run.life is Life.OPEN:
            standing.runs[run.id] = None
        elif run.life in WAITING:
            standing.waiting[run.id] = None

    def _of_run(self, record: Record) -> RecordedRun | None:
        """Take in a record about a run, and return that run; None if the record may not come now."""
        run = self.runs.get(record.stream)
        if run is None:
            self._breach(record, f"there is no run {record.stream}")
        elif wrong := folds.next_of_run(run, record):
            self._breach(record, wrong)
        else:
            self._post(record, numbered(Topic.RUN, run.id))
            return run
        return None

    def _step_moved(self, record: Record, event: e.StepBegan | e.StepEnded) -> None:
        run = self.runs.get(record.stream)
        was_listed = run is not None and run.is_listed
        if (run := self._of_run(record)) and isinstance(event, e.StepBegan):
            self._post(record, every(Topic.STEPS))
            self._list(run, was_listed=was_listed)

    def _list(self, run: RecordedRun, *, was_listed: bool) -> None:
        if run.is_listed and not was_listed:
            self.postings.post(every(Topic.LISTED_RUNS), ids.seq_of(run.id))

    def _action_began(self, record: Record, event: folds.Beginning) -> None:
        action = folds.begun(record, event)
        self.actions.put(record, action.id, action)
        self._post(record, begun_by(Topic.ACTION, record))
        began = action.began
        if isinstance(began, e.ActionBegan):
            self._tool_began(record, began, is_own=action.is_own)
        elif isinstance(began, e.RollbackBegan):
            self._post(record, every(Topic.ROLLBACKS))
            self._name(record, began.of)
        if run := self.runs.get(record.stream):
            was_listed = run.is_listed
            self._post(record, numbered(Topic.IN_RUN, run.id))
            self._list(run, was_listed=was_listed)
            if isinstance(event, _OF_TOOLS) and folds.is_body(run, event):
                self._of_run(record)
        if isinstance(began, e.DriftSeen) and self.is_in_session:
            action.beside = True
            self._post(record, numbered(Topic.BESIDE, action.id))
        if action.life is Life.OPEN:
            self._standing.actions[action.id] = None
        self._changed(record, action)

    def _tool_began(self, record: Record, began: e.ActionBegan, *, is_own: bool) -> None:
        self._standing.tools += 1
        if ids.is_id(began.parent):
            self._post(record, numbered(Topic.UNDER, began.parent))
        if ids.is_id(began.step):
            self._post(record, numbered(Topic.IN_STEP, began.step))
        if began.key and record.stream != ids.WORKSPACE:
            self._post(record, named(Topic.CALL_KEY, record.stream, began.key))
        if began.tool and record.stream != ids.WORKSPACE:
            self._post(record, named(Topic.CALLED, record.stream, began.tool))
        if began.brand and record.stream != ids.WORKSPACE:
            self._post(record, numbered(Topic.BRANDED, record.stream))
        if began.actor and not is_own:
            self._standing.actors[began.actor] = None
            self._post(record, named(Topic.BY, began.actor))

    def _name(self, record: Record, of: Collection[str]) -> None:
        """Note, with each action that a rollback names, that the rollback names it."""
        for id in of:
            if id[:1] == ids.ACTION and ids.is_id(id):
                if known := self.actions.at_hand.get(id):
                    known.named_by.append(record.id)
                self._post(record, numbered(Topic.ACTION, id))

    def _went_on(self, record: Record, event: e.Event) -> None:
        """Take in a record with which an action goes on, or ends."""
        id = folds.owner(event)
        action = self.actions.get(id)
        if action is None:
            return self._breach(
                record, f"there is no {'rollback' if hasattr(event, 'rollback') else 'action'} {id}"
            )
        if wrong := folds.next_of_action(action, record):
            return self._breach(record, wrong)
        goes_on = isinstance(event, _GOING_ON)
        self._post(record, numbered(Topic.ADDED if goes_on else Topic.ACTION, id))
        if action.life not in (Life.OPEN, Life.BACKGROUND):
            self._standing.actions.pop(id, None)
        if isinstance(event, folds.ActionEnd):
            if action.life is Life.DONE and action.writes_files and not folds.has_looked(event):
                self._post(record, every(Topic.UNSEEN))
        elif isinstance(event, e.RollbackEnded):
            self._settle(record, event)
        self._changed(record, action)
        return None

    def _settle(self, record: Record, event: e.RollbackEnded) -> None:
        """Note what a rollback did about each target it dealt with, and whose flags may have changed."""
        settled = {action for item in event.items for action in item.settles} - {event.rollback}
        for item in event.items:
            for id in item.settles:
                if known := self.actions.at_hand.get(id):
                    folds.settle(known, event.rollback, item)
        for id in settled:
            self._post(record, numbered(Topic.ACTION, id))
        left = [event.rollback, *settled, *self.actions[event.rollback].began.of]  # type: ignore[union-attr]
        done: set[str] = set()  # not the changed flags: what is in them may be from before this record
        while left:
            id = left.pop()
            if id not in done and (known := self.actions.get(id)):
                self._flags.change(id)
                if known.is_rollback:  # what it had settled is live again, or not any more
                    left.extend(action for item in known.items for action in item.settles)
                    left.extend(known.began.of)  # type: ignore[union-attr]
            done.add(id)

    def _intent(self, record: Record, event: i.IntentEvent) -> None:
        if wrong := self.intents.apply(record, event):
            return self._breach(record, wrong)
        if isinstance(event, i.IntentDeferred):
            self._went_on(record, event)

    def _checkpoint_taken(self, record: Record, event: e.CheckpointTaken) -> None:
        for run in self._standing.runs:
            self.postings.post(begun_by(Topic.OPEN_THEN, record), ids.seq_of(run))
        taken = Checkpoint(record.id, record.stream, record.at_us, event, record.compacted_us)
        self.checkpoints.put(record, taken.id, taken)

    def _approval_asked(self, record: Record, event: e.ApprovalAsked) -> None:
        asked = Approval(record.id, record.stream, record.at_us, event)
        self.approvals.put(record, asked.id, asked)
        self._standing.approvals[asked.id] = None
        self._post(record, begun_by(Topic.APPROVAL, record))
        if record.stream != ids.WORKSPACE:
            self._post(record, numbered(Topic.ASKED, record.stream))

    def _approval_moved(self, record: Record, event: e.ApprovalAnswered | e.ApprovalUsed) -> None:
        approval = self.approvals.get(event.approval)
        if approval is None:
            return self._breach(record, f"there is no approval {event.approval}")
        if wrong := folds.next_of_approval(approval, event):
            return self._breach(record, wrong)
        self._post(record, numbered(Topic.APPROVAL, approval.id))
        if approval.life is not Life.GRANTED:
            self._standing.approvals.pop(approval.id, None)
        return None

    def _seated(self, record: Record, event: WorkspaceSeated) -> None:
        if event.is_move:
            self.moves.lost.update(self.unseen())
        self.moves.seated(record.seq, record.at_us, event)

    def _nothing(self, _record: Record, _event: e.Event) -> None:
        """Do nothing: the event changes no state. `replay` and `export` show it."""

    def _config_accepted(self, record: Record, event: e.ConfigAccepted) -> None:
        self.accepted[event.path] = event.version
        self._standing.accepted_at[event.path] = record.seq

    def _plan_approved(self, record: Record, event: e.PlanApproved) -> None:
        self._post(record, named(Topic.PLAN, event.digest))

    def _content_forgotten(self, record: Record, _event: e.ContentForgotten) -> None:
        self.forgets.append(record.seq)

    def _compaction_began(self, record: Record, _event: e.CompactionBegan) -> None:
        self.compactions.append(record.seq)
        self._standing.compacting = record.seq

    def _compaction_ended(self, record: Record, event: e.CompactionEnded) -> None:
        # Two processes may have finished it, so it may be told twice.
        if event.compaction not in self.compactions:
            self._breach(record, f"there is no compaction {event.compaction}")
        elif self.compacting == event.compaction:
            self._standing.compacting = 0

    def _changed(self, record: Record, action: RecordedAction) -> None:
        """Note the changes that a record tells of, under each target."""
        self._flags.change(action.id)
        changes = folds.changes_of(record)
        if not changes:
            return
        if action.is_tool:
            self._post(record, every(Topic.CHANGES))
        posted: set[int] = set()
        for change in changes:
            target = change.target
            if target.resource in OF_PATHS and not target.root:
                self._targets[target] = None
            self._standing.resources[target.resource] = None
            if (key := of_target(target)) not in posted:
                posted.add(key)
                self._post(record, key)
            if not self._things.changed(record, action.id, change):
                self._breach(record, f"the value that {target.said} is based on is missing")
            if target.resource == MEMORY and ids.is_id(target.root):
                self._post(record, numbered(Topic.MEMORY, target.root))
            if folds.is_doubtful(change.after):
                self.postings.post(every(Topic.DOUBTS), action.seq)
        for other in dict.fromkeys(other for change in changes for other in change.shared_with):
            self._share(record, action, other)

    def _share(self, record: Record, action: RecordedAction, other: str) -> None:
        known = self.actions.get(other)
        if known is None or known is action:
            return
        known.shared.extend(folds.shared_in(other, record))
        if self.postings.since.get(key := numbered(Topic.ACTION, other), [0])[-1] != record.seq:
            self._post(record, key)
        self._flags.change(other)

    def _post(self, record: Record, key: int) -> None:
        self.postings.post(key, record.envelope.seq)

    def _breach(self, record: Record, what: str) -> None:
        self.breaches.append(Breach(record.seq, what))


_APPLY: dict[type, Callable[[History, Record, Any], Any]] = {
    e.WorkspaceBegan: History._workspace_began,
    e.RunBegan: History._run_began,
    e.RunEnded: History._run_moved,
    e.RunInterrupted: History._run_moved,
    e.RunResumed: History._run_moved,
    e.RunHandedOver: History._run_moved,
    e.RunTaken: History._run_moved,
    e.RunReturned: History._run_moved,
    e.StepBegan: History._step_moved,
    e.StepEnded: History._step_moved,
    e.ActionBegan: History._action_began,
    e.ActionNoted: History._action_began,
    e.DriftSeen: History._action_began,
    e.RollbackBegan: History._action_began,
    e.ActionDetached: History._went_on,
    e.ActionEnded: History._went_on,
    e.ActionSettled: History._went_on,
    e.ActionTold: History._went_on,
    e.ActionDelivered: History._went_on,
    e.ChangesSeen: History._went_on,
    e.RollbackProgressed: History._went_on,
    e.RollbackEnded: History._went_on,
    e.ActionRefused: History._nothing,
    e.ApprovalAsked: History._approval_asked,
    e.ApprovalAnswered: History._approval_moved,
    e.ApprovalUsed: History._approval_moved,
    e.ConfigAccepted: History._config_accepted,
    e.PlanApproved: History._plan_approved,
    e.ContentForgotten: History._content_forgotten,
    e.CompactionBegan: History._compaction_began,
    e.CompactionEnded: History._compaction_ended,
    e.CheckpointTaken: History._checkpoint_taken,
    WorkspaceSeated: History._seated,
    **dict.fromkeys(get_args(i.IntentEvent), History._intent),
}
