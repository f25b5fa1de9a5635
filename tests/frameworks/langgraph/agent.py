"""An agent with a scripted model: `agent COMMAND [WORD]` in the folders that SHOP and WORK name.

The model gives its calls other ids in each process, as real models do.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.types import Command

from takeback.frameworks.langchain import Takeback
from takeback.frameworks.langgraph import TakebackSaver
from tests.frameworks.langgraph import shop

CONFIG: Any = {"configurable": {"thread_id": "1"}}
PLANS: dict[str, list[list[tuple[str, dict[str, Any]]]]] = {
    "prepare": [[("write", {"name": "a.txt", "text": "a"})], [("book", {"room": "attic"})]],
    "both": [[("write", {"name": "b.txt", "text": "b"}), ("book", {"room": "ballroom"})]],
    "pay": [[("pay", {"amount": 7})]],
    "fail": [[("write", {"name": "c.txt", "text": "c"})], [("spoil", {"name": "d.txt"})]],
}


class Scripted(BaseChatModel):
    """A model that follows the plan of the last message, one set of calls at a time."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        last = max(n for n, message in enumerate(messages) if isinstance(message, HumanMessage))
        done = sum(isinstance(message, AIMessage) for message in messages[last:])
        plan = PLANS[str(messages[last].content)]
        calls = [
            {"name": name, "args": args, "id": f"call-{uuid.uuid4()}", "type": "tool_call"}
            for name, args in (plan[done] if done < len(plan) else [])
        ]
        answer = AIMessage("" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Killing(AgentMiddleware):
    """Kills the process when Takeback has recorded a call, and the framework has not."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = handler(request)
        if request.tool_call["name"] == "book":
            shop.die("after book")
        return result

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = await handler(request)
        if request.tool_call["name"] == "book":
            shop.die("after book")
        return result


def said(state: Any) -> list[str]:
    return [str(message.content) for message in state.values.get("messages", ()) if message.content]


def asked(state: Any) -> str:
    """What the human said last."""
    found = [message for message in state.values.get("messages", ()) if isinstance(message, HumanMessage)]
    return str(found[-1].content) if found else ""


def main(command: str, word: str = "") -> None:
    durability: Any = os.environ.get("DURABILITY", "sync")
    with TakebackSaver.from_conn_string(os.environ["WORK"]) as saver:
        agent = create_agent(
            Scripted(), shop.TOOLS, middleware=[Killing(), Takeback(saver)], checkpointer=saver
        )

        def go(given: Any) -> Any:
            if os.environ.get("ASYNC"):
                return asyncio.run(agent.ainvoke(given, CONFIG, durability=durability))
            return agent.invoke(given, CONFIG, durability=durability)

        if command == "say":
            found = go({"messages": [HumanMessage(word)]})
        elif command == "resume":
            # What was not stored before the end has to be said again.
            found = go({"messages": [HumanMessage(word)]} if durability == "exit" else None)
        elif command == "answer":
            found = go(Command(resume={"approved": word == "yes", "by": "ann"}))
        elif command == "back":
            # To the end of the turn that this word began.
            history = agent.get_state_history(CONFIG)
            chosen = next(state for state in history if not state.next and asked(state) == word)
            report = saver.go_back("1", chosen.config["configurable"]["checkpoint_id"])
            sys.stdout.write(f"{report.verdict}\n")
            found = {}
        else:
            raise SystemExit(command)
        if "__interrupt__" in found:
            sys.stdout.write(f"asked {found['__interrupt__'][0].value['approve']}\n")
        state = agent.get_state(CONFIG)
        results = [
            message for message in state.values.get("messages", ()) if isinstance(message, ToolMessage)
        ]
        sys.stdout.write("; ".join(said(state)) + "\n")
        sys.stdout.write(" ".join(f"{message.name}:{message.status}" for message in results) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
