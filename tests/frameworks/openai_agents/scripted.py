"""A model of OpenAI Agents that follows the plan of the last message, with other call ids in each process."""

from __future__ import annotations

import json
import uuid
from typing import Any

from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from tests.frameworks import shop

ROUNDS_MAX = 50
NAMES = {function.__name__ for function in shop.TOOLS}


def text_of(item: Any) -> str:
    """The text of a message, whichever way it is written."""
    content = item.get("content", "")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def answer(call: ModelCall) -> list[Any]:
    """The next round of the plan; "done" after the last one."""
    items: Any = [{"role": "user", "content": call.input}] if isinstance(call.input, str) else call.input
    last = max(n for n, item in enumerate(items) if item.get("role") == "user")
    plan = shop.PLANS[text_of(items[last])]
    # The calls of a round are made together, so a round is complete when each of its calls has an output.
    called = sum(item.get("type") == "function_call" and item["name"] in NAMES for item in items[last:])
    for wanted in plan:
        if called <= 0:
            return [
                function_call(name, json.dumps(args), call_id=shop.call_id(name)) for name, args in wanted
            ]
        called -= len(wanted)
    return [assistant_message("done", item_id=f"msg-{uuid.uuid4()}")]


def scripted(through: str = "") -> ScriptedModel:
    """The model. One that works `through` another agent asks that agent first, and says "done" then."""

    def passed_on(call: ModelCall) -> list[Any]:
        items: Any = call.input
        last = max(n for n, item in enumerate(items) if item.get("role") == "user")
        if any(item.get("type") == "function_call_output" for item in items[last:]):
            return [assistant_message("done", item_id=f"msg-{uuid.uuid4()}")]
        words = {} if through.startswith("transfer") else {"input": text_of(items[last])}
        return [function_call(through, json.dumps(words), call_id=f"call-{uuid.uuid4()}")]

    return ScriptedModel([ModelStep.respond(passed_on if through else answer)] * ROUNDS_MAX)
