"""A model client of AutoGen that follows the plan of the last message, with other call ids in each process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, CreateResult, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from tests.frameworks import shop

USED = RequestUsage(prompt_tokens=1, completion_tokens=1)


class Scripted(ReplayChatCompletionClient):
    """The replaying client of AutoGen, with the next answer made from what is asked."""

    def __init__(self) -> None:
        info: Any = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown"}
        super().__init__([], model_info=info | {"structured_output": True})

    def _answered(self, messages: Sequence[Any]) -> None:
        last = max(n for n, message in enumerate(messages) if isinstance(message, UserMessage))
        done = sum(isinstance(message, AssistantMessage) for message in messages[last:])
        plan = shop.PLANS[str(messages[last].content)]
        answer = CreateResult(finish_reason="stop", content="done", usage=USED, cached=False)
        if done < len(plan):
            calls = [FunctionCall(shop.call_id(name), json.dumps(args), name) for name, args in plan[done]]
            answer = CreateResult(finish_reason="function_calls", content=calls, usage=USED, cached=False)
        self.chat_completions.append(answer)
        self._cached_bool_value = False

    async def create(self, messages: Sequence[Any], **options: Any) -> CreateResult:
        self._answered(messages)
        return await super().create(messages, **options)

    async def create_stream(self, messages: Sequence[Any], **options: Any) -> AsyncGenerator[Any, None]:
        self._answered(messages)
        async for piece in super().create_stream(messages, **options):
            yield piece
