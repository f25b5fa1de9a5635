"""Scenes that only agents of pydantic-ai have, each played by `special SCENE` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, Tool, ToolReturn
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset
from pydantic_core import core_schema

import takeback
from takeback.frameworks.calling import UNKEPT
from takeback.frameworks.pydantic_ai import Takeback
from takeback.frameworks.pydantic_ai.capability import recorded, returned
from tests.frameworks import shop
from tests.frameworks.pydantic_ai.agent import answer


def at_work() -> Takeback:
    return Takeback(os.environ["WORK"])


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def calling(name: str, **args: Any) -> Any:
    """A model that makes one call, and is then done."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if isinstance(messages[-1], ModelResponse) or returns(messages[-1:]):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(name, args, f"call-{len(messages)}")])

    return FunctionModel(model)


class Pattern:
    """A type that JSON lacks."""

    def __init__(self, text: str) -> None:
        self.compiled = re.compile(text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        given = core_schema.typed_dict_schema(
            {"text": core_schema.typed_dict_field(core_schema.str_schema())}
        )
        return core_schema.no_info_after_validator_function(lambda value: cls(**value), given)


async def a_retry_that_the_model_was_told_is_not_tried_again() -> None:
    tries: list[str] = []
    is_down = True

    def post(text: str) -> str:
        tries.append(text)
        if len(tries) == 1:
            raise ModelRetry("closed for now, " + "and " * 200)
        return "posted"

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = len(returns(messages))
        if asked == 2 and is_down:
            raise RuntimeError("the model is down")
        if asked < 2:
            return ModelResponse(parts=[ToolCallPart("post", {"text": "a"}, shop.call_id("post"))])
        return ModelResponse(parts=[TextPart("done")])

    for _ in range(2):
        undoing = at_work()
        agent = Agent(FunctionModel(model), tools=[Tool(post, max_retries=3)], capabilities=[undoing])
        try:
            assert (await agent.run("go", conversation=undoing.conversation("1"))).output == "done"
        except RuntimeError:
            is_down = False
    assert tries == ["a", "a"], tries


async def a_bad_answer_does_not_come_again_for_ever() -> None:
    texts = iter(["one", "two", "3"])

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not returns(messages):
            return ModelResponse(parts=[ToolCallPart("book", {"room": "attic"}, f"call-{next(ids)}")])
        return ModelResponse(parts=[TextPart(next(texts))])

    ids = iter(range(9))
    undoing = at_work()
    tools: Any = [Tool(shop.book, takes_ctx=False)]
    agent = Agent(FunctionModel(model), tools=tools, capabilities=[undoing], retries=1)

    @agent.output_validator
    def validate(text: str) -> str:
        if not text.isdigit():
            raise ModelRetry("a number, please")
        return text

    now = undoing.conversation("1")
    try:
        await agent.run("go", conversation=now)
    except UnexpectedModelBehavior:
        pass
    else:
        raise AssertionError("two bad answers are one too many")
    result = await agent.run("go", conversation=undoing.conversation("1"))
    assert result.output == "3" and next(ids) == 1, "the call came with its answer, and that only once"
    assert [row["room"] for row in shop.rows("bookings")] == ["attic"]


async def a_declaration_is_found_in_nested_toolsets() -> None:
    undoing = at_work()
    toolset: Any = FunctionToolset([Tool(shop.pay, takes_ctx=False)])
    nested = toolset.prefixed("bank").filtered(lambda ctx, tool: True)
    agent: Any = Agent(
        calling("bank_pay", amount=7),
        toolsets=[nested],
        output_type=[str, DeferredToolRequests],
        capabilities=[undoing],
    )
    result = await agent.run("go", conversation=undoing.conversation("1"))
    assert [call.tool_name for call in result.output.approvals] == ["bank_pay"]
    (waiting,) = undoing.workspace.approvals()
    assert result.output.metadata[result.output.approvals[0].tool_call_id]["id"] == waiting.id


async def a_refusal_is_recorded_and_told() -> None:
    undoing = at_work()
    tools: Any = [Tool(shop.pay, takes_ctx=False)]
    agent: Any = Agent(
        FunctionModel(answer), tools=tools, output_type=[str, DeferredToolRequests], capabilities=[undoing]
    )
    await agent.run("pay", conversation=undoing.conversation("1"))
    assert len(undoing.workspace.approvals()) == 1
    now = undoing.conversation("1")
    requests = now.deferred_tool_requests
    assert requests
    results = requests.build_results(approvals={requests.approvals[0].tool_call_id: False})
    result = await agent.run(conversation=now, deferred_tool_results=results)
    assert result.output == "done" and undoing.workspace.approvals() == []
    assert [part.outcome for part in returns(result.all_messages())] == ["denied"]
    assert undoing.conversation("1").deferred_tool_requests is None


async def what_a_rule_forbids_is_told_to_the_model() -> None:
    Path(os.environ["WORK"], "takeback.toml").write_text('[rules.effects]\nirreversible = "deny"\n')
    undoing = at_work()
    agent: Any = Agent(
        calling("pay", amount=7), tools=[Tool(shop.pay, takes_ctx=False)], capabilities=[undoing]
    )
    result = await agent.run("go", conversation=undoing.conversation("1"))
    (told,) = returns(result.all_messages())
    assert told.outcome == "failed" and "refused" in str(told.content)
    assert shop.rows("payments") == []


async def going_back_into_a_turn_takes_back_its_later_calls() -> None:
    undoing = at_work()
    tools: Any = [Tool(function, takes_ctx=False) for function in shop.TOOLS]
    agent: Any = Agent(FunctionModel(answer), tools=tools, capabilities=[undoing])
    await agent.run("prepare", conversation=undoing.conversation("1"))
    assert len(undoing.conversation("1").messages) == 6
    report = undoing.go_back("1", keep=3)
    assert report.verdict == "clean" and shop.rows("bookings") == []
    assert os.listdir(os.environ["WORK"]) == ["a.txt"]
    assert len(undoing.conversation("1").messages) == 3
    refusal = ""
    try:
        undoing.go_back("1", keep=4)
    except takeback.UsageError as error:
        refusal = str(error)
    assert "has 3 messages, so 4 cannot be kept" in refusal
    assert undoing.go_back("1", keep=0).verdict == "clean" and os.listdir(os.environ["WORK"]) == []


async def an_argument_that_json_lacks_is_recorded_as_it_was_given() -> None:
    undoing = at_work()

    def measure(pattern: Pattern) -> str:
        """Measure something."""
        return pattern.compiled.pattern

    agent: Any = Agent(
        calling("measure", pattern={"text": "a+"}),
        tools=[Tool(measure, takes_ctx=False)],
        capabilities=[undoing],
    )
    result = await agent.run("go", conversation=undoing.conversation("1"))
    assert [part.content for part in returns(result.all_messages())] == ["a+"]
    (action,) = undoing.workspace.thread(key="pydantic-ai/1").actions()
    assert action.arguments == {"pattern": {"text": "a+"}}


async def what_a_tool_returned_comes_back_as_it_was() -> None:
    rich = ToolReturn({"n": 1}, content="more", metadata={"seen": True})
    kept = recorded(rich)
    assert returned(kept, found=False) == rich
    assert returned(recorded([1, None, "x"]), found=False) == [1, None, "x"]
    assert returned("found", found=True) == "found"
    assert recorded(object()) == UNKEPT


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
