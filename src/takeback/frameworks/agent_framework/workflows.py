"""Checkpoints of agent-framework's workflows: stored beside the history, and gone back to together with the world."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from agent_framework import WorkflowCheckpoint
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value
from agent_framework.exceptions import WorkflowCheckpointException

import takeback
from takeback.frameworks.agent_framework.middleware import (
    STATE,
    TakebackMiddleware,
    gone_back,
)
from takeback.frameworks.session_items import SessionItems, names_of
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

_CHECKPOINTS = "agent-framework-checkpoints/"


class TakebackCheckpointStorage:
    """Keeps the checkpoints of workflows. What `save` was given is durable when it returns.

        WorkflowBuilder(start_executor=first, checkpoint_storage=TakebackCheckpointStorage(undoing))

    Types of your own in a checkpoint are loaded only if `allowed_types` names them, as "module:qualname".
    """

    def __init__(
        self,
        workspace: Workspace | TakebackMiddleware | str | os.PathLike[str],
        *,
        allowed_types: Sequence[str] = (),
    ) -> None:
        self._allowed = frozenset(allowed_types)
        if isinstance(workspace, TakebackMiddleware):
            self.workspace = workspace.workspace
        elif isinstance(workspace, Workspace):
            self.workspace = workspace
        else:
            self.workspace = open_workspace(workspace)
            weakref.finalize(self, self.workspace.close)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a copy of a checkpoint, and return its id. Raise if it could not be loaded again."""
        try:
            encoded = encode_checkpoint_value(checkpoint.to_dict())
            self._decoded(encoded)
        except Exception as error:
            raise WorkflowCheckpointException(f"the checkpoint was not stored: {error}") from error
        about = {"workflow": checkpoint.workflow_name, "at": checkpoint.timestamp, "checkpoint": encoded}

        def store() -> None:
            items = self._items(checkpoint.checkpoint_id)
            items.add([about])

        await asyncio.to_thread(store)
        return str(checkpoint.checkpoint_id)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint. Raise WorkflowCheckpointException if there is none with this id."""
        return self._decoded((await asyncio.to_thread(self._about, checkpoint_id))["checkpoint"])

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow, in the order of time."""
        return [self._decoded(about["checkpoint"]) for about in await self._all(workflow_name)]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of the checkpoints of a workflow, in the order of time."""
        return [
            checkpoint.checkpoint_id
            for checkpoint in await self.list_checkpoints(workflow_name=workflow_name)
        ]

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the newest checkpoint of a workflow; None if there is none."""
        found = await self._all(workflow_name)
        return self._decoded(found[-1]["checkpoint"]) if found else None

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint. Return whether there was one."""
        items = self._items(checkpoint_id)
        if not await asyncio.to_thread(items.position):
            return False
        await asyncio.to_thread(items.clear)
        return True

    async def go_back(self, checkpoint_id: str) -> list[takeback.RollbackReport]:
        """Go back to a checkpoint: take back what the agents' tools did since, and remove later checkpoints.

        Return the reports, one for each session of an agent that had done something since. The world goes first: if
        not all of it can be taken back, RollbackIncomplete is raised, and the checkpoints stay.
        """
        about = await asyncio.to_thread(self._about, checkpoint_id)
        checkpoint = self._decoded(about["checkpoint"])
        every = await self.list_checkpoints(workflow_name=about["workflow"])
        ids = [one.checkpoint_id for one in every]
        later = every[ids.index(checkpoint_id) + 1 :]
        kept = dict(_sessions_in(checkpoint.state))
        # A run that was cut short is in no checkpoint, but its session is, unless it never ended a run.
        known = {id: kept.get(id, 0) for one in [checkpoint, *later] for id, _ in _sessions_in(one.state)}
        reports = []
        for session, runs in reversed(known.items()):
            reports.append(await asyncio.to_thread(gone_back, self.workspace, session, runs))
        for one in reversed(later):
            await self.delete(one.checkpoint_id)
        return [report for report in reports if report.verdict != "nothing"]

    def _items(self, checkpoint_id: str) -> SessionItems:
        return SessionItems(self.workspace, f"{_CHECKPOINTS}{checkpoint_id}")

    def _about(self, checkpoint_id: str) -> Any:
        found = self._items(checkpoint_id).items(1)
        if not found:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return found[0]

    async def _all(self, workflow: str) -> list[Any]:
        def read() -> list[Any]:
            found = [
                self._about(name.removeprefix(_CHECKPOINTS))
                for name in names_of(self.workspace, _CHECKPOINTS)
            ]
            own = [about for about in found if about["workflow"] == workflow]
            return sorted(own, key=lambda about: datetime.fromisoformat(about["at"]))

        return await asyncio.to_thread(read)

    def _decoded(self, encoded: Any) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(decode_checkpoint_value(encoded, allowed_types=self._allowed))


def _sessions_in(state: Any) -> Iterator[tuple[str, int]]:
    """Yield the sessions of agents in the state of a workflow, with how many runs each had had."""
    if isinstance(state, dict):
        if isinstance(state.get("agent_session"), dict):
            session = state["agent_session"]
            runs = (session.get("state") or {}).get(STATE, {}).get("runs", 0)
            yield str(session["session_id"]), int(runs)
        for value in state.values():
            yield from _sessions_in(value)
    elif isinstance(state, list):
        for value in state:
            yield from _sessions_in(value)
