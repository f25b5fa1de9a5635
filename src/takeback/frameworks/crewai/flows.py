"""The state of CrewAI's Flows in the memory of a thread: it goes back together with what the flow did."""

from __future__ import annotations

import json
from typing import Any

from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.flow.persistence.base import FlowPersistence
from pydantic import BaseModel, PrivateAttr

import takeback
from takeback.errors import UsageError

_STATES, _PENDING = "crewai-flows", "crewai-feedback"


class TakebackPersistence(FlowPersistence):
    """Stores the state of flows in a thread: `Flow(persistence=TakebackPersistence(thread))`, or with `@persist`."""

    persistence_type: str = "TakebackPersistence"
    _thread: takeback.Thread = PrivateAttr()

    def __init__(self, thread: takeback.Thread, **more: Any) -> None:
        super().__init__(**more)
        self._thread = thread

    def init_db(self) -> None:
        """Do nothing: the thread has a place for it."""

    def save_state(self, flow_uuid: str, method_name: str, state_data: dict[str, Any] | BaseModel) -> None:
        """Store the state after a method."""
        self._put(_STATES, flow_uuid, _plain(state_data, method_name))

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """Return the newest state of a flow; None if there is none."""
        state: dict[str, Any] | None = self._get(_STATES, flow_uuid)
        return state

    def save_pending_feedback(
        self, flow_uuid: str, context: PendingFeedbackContext, state_data: dict[str, Any] | BaseModel
    ) -> None:
        """Store the state of a flow that waits for feedback, and what is needed to go on."""
        self.save_state(flow_uuid, context.method_name, state_data)
        self._put(_PENDING, flow_uuid, _plain(context.to_dict(), context.method_name))

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], PendingFeedbackContext] | None:
        """Return the state of a flow that waits for feedback; None if it does not."""
        context, state = self._get(_PENDING, flow_uuid), self._get(_STATES, flow_uuid)
        return (state, PendingFeedbackContext.from_dict(context)) if context and state is not None else None

    def clear_pending_feedback(self, flow_uuid: str) -> None:
        """Record that the flow does not wait any more."""
        if self._get(_PENDING, flow_uuid) is not None:
            del self._thread.memory[_PENDING][flow_uuid]

    def _put(self, place: str, flow_uuid: str, value: Any) -> None:
        memory = self._thread.memory
        if place in memory:
            memory[place][flow_uuid] = value
        else:
            memory[place] = {flow_uuid: value}

    def _get(self, place: str, flow_uuid: str) -> Any:
        found = self._thread.memory.get(place, {})
        return found[flow_uuid].plain() if flow_uuid in found else None


def _plain(state: dict[str, Any] | BaseModel, method: str) -> Any:
    try:
        value = state.model_dump(mode="json") if isinstance(state, BaseModel) else state
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the state of the flow after {method} cannot be stored: {error}",
            hint="use values that JSON has in the state of a flow",
        ) from error
