"""A model whose answers are recorded, so that a resumed turn sees the same calls with the same ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from agents import ItemHelpers, Model, ModelProvider, ModelResponse, Usage
from agents.items import TResponseStreamEvent
from openai.types.responses import Response, ResponseCompletedEvent
from pydantic import BaseModel, TypeAdapter

from takeback.frameworks.openai_agents.conversation import Conversation

_RESPONSE: TypeAdapter[Any] = TypeAdapter(ModelResponse)
_EVENT: TypeAdapter[Any] = TypeAdapter(TResponseStreamEvent)
_OUTPUTS = "_output"


class RecordedModel(Model):
    """A model that is asked only what has no recorded answer in its conversation.

    A record is a list: the events of a stream, or one whole response. Either is read back as the other.
    """

    def __init__(
        self, conversation: Conversation, agent: str, model: str | Model | None, provider: ModelProvider
    ) -> None:
        self.conversation = conversation
        self._agent = agent
        self._given = model
        self._provider = provider

    @property
    def model(self) -> Any:
        """The model itself."""
        if not isinstance(self._given, Model):
            self._given = self._provider.get_model(self._given)
        return self._given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    async def close(self) -> None:
        await self.model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.model._cleanup_on_run_end(owner)

    def get_retry_advice(self, request: Any) -> Any:
        return self.model.get_retry_advice(request)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the recorded answer to exactly this, or the model's."""

        async def make() -> list[Any]:
            response = await self.model.get_response(*args, **kwargs)
            _fill_in(response.output)
            return [{"response": _RESPONSE.dump_python(response, mode="json", exclude_unset=True)}]

        thread, asked = self.conversation.thread, await self._asked(*args, **kwargs)
        with thread.turn(await self.conversation.position()).here():
            return _response_in(await thread.aanswer(asked, make))

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Yield the recorded events of the answer to exactly this, or those of the model."""

        async def make() -> AsyncGenerator[Any]:
            async with aclosing(self.model.stream_response(*args, **kwargs)) as events:
                async for event in events:
                    if isinstance(event, ResponseCompletedEvent):
                        _fill_in(event.response.output)
                    yield {"event": event.model_dump(mode="json", exclude_unset=True, warnings=False)}

        thread, asked = self.conversation.thread, await self._asked(*args, **kwargs)
        turn = thread.turn(await self.conversation.position())
        async with aclosing(_in_turn(turn, thread.astream(asked, make))) as pieces:
            async for piece in pieces:
                for event in _events_in(piece):
                    yield event

    async def _asked(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002  the framework's name
        model_settings: Any,
        tools: Sequence[Any],
        output_schema: Any,
        handoffs: Sequence[Any],
        tracing: Any,
        **more: Any,
    ) -> Any:
        """Return what the model is asked: roles, texts, calls and results, and the names of tools."""
        items = [_plain(item) for item in ItemHelpers.input_to_new_input_list(input)]
        await self.conversation.refuse(
            {str(item.get("call_id")) for item in items if str(item.get("type")).endswith(_OUTPUTS)}
        )
        return {
            "agent": self._agent,
            "system": system_instructions,
            "input": items,
            "tools": [tool.name for tool in tools],
            "handoffs": [handoff.tool_name for handoff in handoffs],
            "output": output_schema.name() if output_schema else "",
            "previous": more.get("previous_response_id"),
            "conversation": more.get("conversation_id"),
            "prompt": _plain(more.get("prompt")),
        }


async def _in_turn(turn: Any, pieces: AsyncIterator[Any]) -> AsyncGenerator[Any]:
    """Yield what a stream yields, each piece made inside the turn.

    The block of the turn cannot be around a yield: the context of a generator is that of its reader.
    """
    while True:
        with turn.here():
            piece = await anext(pieces, None)
        if piece is None:
            return
        yield piece


def _plain(item: Any) -> Any:
    return item.model_dump(mode="json", exclude_unset=True) if isinstance(item, BaseModel) else item


def _fill_in(output: list[Any]) -> None:
    """Write the arguments of a call without any as an empty object: otherwise the runner would ask a human."""
    for item in output:
        if getattr(item, "type", "") == "function_call" and not item.arguments.strip():
            item.arguments = "{}"


def _response_in(pieces: list[Any]) -> ModelResponse:
    """Return the response in a record."""
    if "response" in pieces[-1]:
        response: ModelResponse = _RESPONSE.validate_python(pieces[-1]["response"])
        return response
    events = (_EVENT.validate_python(piece["event"]) for piece in reversed(pieces))
    whole = next(event.response for event in events if isinstance(event, ResponseCompletedEvent))
    used = Usage(requests=1)
    if whole.usage:
        used = Usage(
            requests=1,
            input_tokens=whole.usage.input_tokens,
            output_tokens=whole.usage.output_tokens,
            total_tokens=whole.usage.total_tokens,
        )
    return ModelResponse(output=whole.output, usage=used, response_id=whole.id)


def _events_in(piece: Any) -> list[Any]:
    """Return the events in a piece of a record. A whole response is one event: that it is complete."""
    if "event" in piece:
        return [_EVENT.validate_python(piece["event"])]
    response = _response_in([piece])
    whole = Response(
        id=response.response_id or "recorded",
        created_at=0,
        model="recorded",
        object="response",
        output=response.output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )
    return [ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")]
