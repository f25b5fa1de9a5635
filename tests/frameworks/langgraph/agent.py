"""The driver for LangChain's agents with TakebackSaver: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.types import Command

from takeback.frameworks.langchain import Takeback
from takeback.frameworks.langgraph import TakebackSaver
from tests.frameworks import shop
from tests.frameworks.driver import Account

CONFIG: Any = {"configurable": {"thread_id": "1"}}


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
        plan = shop.PLANS[str(messages[last].content)]
        calls = [
            {"name": name, "args": args, "id": shop.call_id(name), "type": "tool_call"}
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


def asked(state: Any) -> str:
    """What the human said last."""
    found = [message for message in state.values.get("messages", ()) if isinstance(message, HumanMessage)]
    return str(found[-1].content) if found else ""


async def cancelled(agent: Any, word: str) -> None:
    """Begin a turn, and cancel it in the middle of its tool."""
    turn = asyncio.ensure_future(agent.ainvoke({"messages": [HumanMessage(word)]}, CONFIG, durability="sync"))
    await shop.cancel_when_begun(turn)


def commanded(command: str, word: str, agent: Any, saver: TakebackSaver, account: Account) -> Any:
    durability: Any = os.environ.get("DURABILITY", "sync")

    def go(given: Any) -> Any:
        if os.environ.get("ASYNC"):
            return asyncio.run(agent.ainvoke(given, CONFIG, durability=durability))
        return agent.invoke(given, CONFIG, durability=durability)

    if command == "say":
        return go({"messages": [HumanMessage(word)]})
    if command == "stream":
        given = {"messages": [HumanMessage(word)]}
        for _ in agent.stream(given, CONFIG, stream_mode="messages", durability=durability):
            pass
    elif command == "resume":
        # What was not stored before the end has to be said again.
        return go({"messages": [HumanMessage(word)]} if durability == "exit" else None)
    elif command == "answer":
        return go(Command(resume={"approved": word == "yes", "by": "ann"}))
    elif command == "cancel":
        asyncio.run(cancelled(agent, word))
    elif command == "back":
        # To the end of the turn that this word began.
        history = agent.get_state_history(CONFIG)
        chosen = next(state for state in history if not state.next and asked(state) == word)
        account.verdict = str(saver.go_back("1", chosen.config["configurable"]["checkpoint_id"]).verdict)
    else:
        raise SystemExit(command)
    return {}


def main(command: str, word: str = "") -> None:
    account = Account()
    with TakebackSaver.from_conn_string(os.environ["WORK"]) as saver:
        layers = [] if os.environ.get("BARE") else [Killing(), Takeback(saver)]
        tools = [tool(function) for function in shop.TOOLS]
        agent: Any = create_agent(Scripted(), tools, middleware=layers, checkpointer=saver)
        try:
            found = commanded(command, word, agent, saver, account)
        except RuntimeError as error:
            found, account.error = {}, str(error)
        if "__interrupt__" in found:
            account.asked = found["__interrupt__"][0].value["approve"]
        for message in agent.get_state(CONFIG).values.get("messages", ()):
            if isinstance(message, ToolMessage):
                account.results.append([str(message.name), "error" if message.status == "error" else "ok"])
            elif message.content:
                account.said.append(str(message.content))
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
