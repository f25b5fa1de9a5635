"""Recording actions: marks before and after, and whose the changes in between are.

At every mark the changes since the last one are given to whoever was open in that interval: to nobody (drift, the
human's), to one action, or to several, which then share them. Of a lineage only the innermost action counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from takeback import faults
from takeback.core import events as e
from takeback.core.change import Change
from takeback.core.history import Action
from takeback.core.lifecycle import Life
from takeback.engine import processes
from takeback.engine.ledger import Ledger
from takeback.engine.life import SignsOfLife
from takeback.errors import UsageError
from takeback.ports import Resource

BEGAN = faults.crash_point("action-began")
ENDING = faults.crash_point("action-ending")
ENDED = faults.crash_point("action-ended")
SAVED = faults.crash_point("checkpoint-taken")


class Lock(Protocol):
    def held(self) -> AbstractContextManager[None]: ...


class Tracker:
    """Knows the world as it was last recorded, and records what happens to it."""

    def __init__(
        self, ledger: Ledger, resources: Sequence[Resource], lock: Lock, life: SignsOfLife, name: str
    ) -> None:
        self.ledger = ledger
        self.resources = {resource.name: resource for resource in resources}
        self.lock = lock
        self.life = life
        self.name = name

    # Marks

    def marks(self) -> tuple[e.Mark, ...]:
        """Look at the world, with every resource."""
        recorded = self.ledger.history.marks
        found = []
        for name, resource in self.resources.items():
            if name in recorded:
                resource.settled(recorded[name])
            found.append(resource.mark())
        return tuple(found)

    def since_last(self, marks: Sequence[e.Mark]) -> list[Change]:
        """What changed between the last recorded marks and these."""
        last = self.ledger.history.marks
        return [
            change
            for mark in marks
            if mark.resource in last and last[mark.resource].state != mark.state
            for change in self.resources[mark.resource].changes(last[mark.resource], mark)
        ]

    def observe(self) -> tuple[e.Mark, ...]:
        """Look at the world and record what changed since the last look, as whoever's it is."""
        marks, drift = self._look()
        if drift:
            self.ledger.append(drift)
        return marks

    def _look(self) -> tuple[tuple[e.Mark, ...], list[e.Event]]:
        """The marks of this moment, and what is still to be recorded of the way here: nobody's changes."""
        marks = self.marks()
        changes = self.since_last(marks)
        owners = self.owners() if changes else []
        if owners:
            self._seen_during(owners, changes, marks)
        elif changes:
            return marks, [e.DriftSeen(tuple(changes), marks)]
        return marks, []

    def _seen_during(self, owners: list[Action], changes: list[Change], marks: tuple[e.Mark, ...]) -> None:
        first, *others = owners
        # Beside processes that outlived their command, or their guard, a human may be working too.
        in_doubt = all(owner.life is Life.BACKGROUND for owner in owners)
        marked = shared(changes, others, in_doubt=in_doubt)
        if not in_doubt and not any(map(self.is_guarded, owners)):
            marked = self.proved(first, marked)
        self.ledger.append([e.ChangesSeen(first.id, marked, marks)], first.stream)

    def proved(self, action: Action, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Only what changed while the action's owner showed signs of life is provably the action's."""
        last_ns = self.life.last_ns(action.id)
        marked = []
        for change in changes:
            changed_ns = self.resources[change.target.resource].changed_at(change.target)
            certain = 0 < changed_ns <= last_ns
            marked.append(change if certain else msgspec.structs.replace(change, in_doubt=True))
        return tuple(marked)

    def owners(self) -> list[Action]:
        """Who may be writing now: open actions, the innermost of each lineage, and what lives on of others."""
        history = self.ledger.history
        running = [action for action in history.open_actions() if action.is_tool]
        running += [a for a in history.open_actions(Life.BACKGROUND) if self.living(a.id)]
        parents = {getattr(action.began, "parent", "") for action in running}
        return [action for action in running if action.id not in parents]

    # Checkpoints and actions

    def save(self, message: str, actor: str) -> str:
        """Take a checkpoint and return its id."""
        with self.lock.held():
            self.ledger.refresh()
            marks, drift = self._look()
            record = self.ledger.append([*drift, e.CheckpointTaken(message, actor, marks)])[-1]
            self.ledger.journal.sync()
            faults.reach(SAVED)
            return record.id

    def begin(
        self,
        name: str,
        *,
        actor: str = "",
        parent: str = "",
        ref: str = "",
        arguments: Any = None,
        effect: e.Effect = e.Effect.RESTORABLE,
    ) -> str:
        """Record that an action is about to begin. It is durable when this returns."""
        with self.lock.held():
            self.ledger.refresh()
            marks = self.observe()
            began = e.ActionBegan(
                name,
                effect,
                actor=actor,
                parent=parent if parent in self.ledger.history.actions else "",
                ref=ref,
                marks=marks,
                arguments=arguments,
                process=processes.this_process(),
            )
            run = e.RunBegan(name, actor=actor, parent=parent)
            record = self.ledger.append([run, began], "")[1]
        faults.reach(BEGAN)
        return record.id

    def end(
        self,
        action_id: str,
        outcome: e.Outcome,
        *,
        exit_code: int | None = None,
        why: str = "",
        lives_on: bool = False,
    ) -> Action:
        """Record what the action changed. Ending it twice changes nothing.

        `lives_on` says that processes which it started are still there.
        """
        with self.lock.held():
            history = self.ledger.refresh()
            action = history.actions.get(action_id)
            if action is None or not action.is_tool:
                raise UsageError(f"there is no action {action_id}")
            if action.life is not Life.OPEN:
                return action
            faults.reach(ENDING)
            owners = self.owners()
            if action not in owners:
                # Another one is open inside it, and what happened since is that one's.
                self.observe()
            marks = self.marks()
            changes = shared(self.since_last(marks), [other for other in owners if other is not action])
            if lives_on:
                self.ledger.append([e.ActionDetached(action_id, changes, marks, exit_code)], action.stream)
            else:
                ended = e.ActionEnded(action_id, outcome, changes, marks, why, exit_code)
                self.ledger.append([ended, e.RunEnded(outcome)], action.stream)
        faults.reach(ENDED)
        return action

    def is_guarded(self, action: Action) -> bool:
        """Whether the process that records the action still lives."""
        return processes.is_alive(getattr(action.began, "process", None), self.life.last_ns(action.id))

    def living(self, action_id: str) -> list[int]:
        """Processes that the action started and that still live."""
        return processes.descendants(self.token(action_id))

    def token(self, action_id: str) -> str:
        """The value by which an action's processes are known, unlike that of any other workspace."""
        return f"{self.name}:{action_id}"


def shared(
    changes: Sequence[Change], others: Sequence[Action], *, in_doubt: bool = False
) -> tuple[Change, ...]:
    """These changes, marked as one of several actions', or as nobody's for certain."""
    names = tuple(other.id for other in others)
    if not names and not in_doubt:
        return tuple(changes)
    return tuple(msgspec.structs.replace(c, shared_with=names, in_doubt=in_doubt) for c in changes)
