"""The driver for the recipe with smolagents: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from smolagents import ChatMessage, CodeAgent, MessageRole, Model, Tool, ToolCallingAgent, tool
from smolagents.memory import ActionStep
from smolagents.utils import AgentError

import takeback
from tests.frameworks import shop
from tests.frameworks.driver import Account
from tests.frameworks.smolagents import recipe as page

recipe: Any = page


class Scripted(Model):
    """A model that follows the plan of the last task, one set of calls at a time."""

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        words = [task_of(message) for message in messages]
        last = max(n for n, word in enumerate(words) if word)
        done = sum(message.role == MessageRole.TOOL_RESPONSE for message in messages[last:])
        if done == 2:
            shop.die("after book")
        plan = shop.PLANS[words[last]]
        calls = plan[done] if done < len(plan) else [("final_answer", {"answer": "done"})]
        if os.environ.get("CODE"):
            lines = [
                f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"
                for name, args in calls
            ]
            text = "\n".join(lines)
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go\n<code>\n{text}\n</code>")
        made: Any = [
            {"id": str(uuid.uuid4()), "type": "function", "function": {"name": name, "arguments": args}}
            for name, args in calls
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=made)


def task_of(message: Any) -> str:
    """The task that a message brings; empty if it brings none."""
    content = (
        message.content if isinstance(message.content, str) else (message.content or [{}])[0].get("text", "")
    )
    lines = content.strip().splitlines() if message.role == MessageRole.USER else []
    return lines[-1].strip() if lines and lines[-1].strip() in shop.PLANS else ""


def tool_of(function: Any) -> Tool:
    """A tool as the page says: the decorator of smolagents over the function, which must describe its arguments."""
    names = [name for name in function.__annotations__ if name != "return"]
    function.__doc__ = "\n".join(
        [function.__doc__.splitlines()[0], "", "Args:", *(f"    {n}: {n}" for n in names)]
    )
    made: Tool = tool(function)
    return made


def agent_of(thread: takeback.Thread) -> Any:
    kind: Any = CodeAgent if os.environ.get("CODE") else ToolCallingAgent
    agent = kind(tools=[tool_of(function) for function in shop.TOOLS], model=Scripted(), verbosity_level=0)
    return agent if os.environ.get("BARE") else recipe.protect(agent, thread)


def commanded(command: str, word: str, agent: Any, thread: takeback.Thread, account: Account) -> None:
    if command == "stream":
        with thread.turn("turn-1") as agent.turn:
            thread.memory["tasks"] = [word]
            for _ in agent.run(word, stream=True):
                pass
        thread.commit()
    elif command == "say":
        recipe.say(agent, thread, word)
    elif command == "resume":
        recipe.resume(agent, thread)
    elif command == "answer":
        try:
            recipe.resume(agent, thread)
        except recipe.Waiting as waiting:
            waiting.ask.grant(by="ann") if word == "yes" else waiting.ask.refuse("no", by="ann")
        recipe.resume(agent, thread)
    elif command == "cancel":
        asyncio.run(cancelled(agent, thread, word))
    elif command == "back":
        told = list(thread.memory["tasks"])
        account.verdict = str(thread.rollback(to=f"turn-{told.index(word) + 2}").verdict)


async def cancelled(agent: Any, thread: takeback.Thread, word: str) -> None:
    """Begin a turn, and interrupt it in the middle of its tool."""
    turn = asyncio.create_task(asyncio.to_thread(recipe.say, agent, thread, word))
    while not Path(os.environ["WORK"], "e.txt").exists():
        assert not turn.done(), turn
        await asyncio.sleep(0.01)
    agent.interrupt()
    shop.place("cancelled").touch()
    await asyncio.wait([turn])
    assert isinstance(turn.exception(), AgentError), turn


def told(agent: Any, thread: takeback.Thread, account: Account) -> None:
    """Tell what an agent remembers that another process brings where the conversation is."""
    try:
        recipe.resume(agent, thread)
    except recipe.Waiting as waiting:
        account.asked = waiting.ask.name
    account.said = []
    words = iter(thread.memory.get("tasks", []))
    for step in agent.memory.steps:
        if not isinstance(step, ActionStep):
            account.said.append(next(words))
            continue
        kind = "error" if step.error else "ok"
        calls = [call.name for call in step.tool_calls or ()]
        if os.environ.get("CODE"):
            calls = [line.partition("(")[0] for line in (step.code_action or "").splitlines()]
        if not calls and step.model_output_message:
            calls = [call.function.name for call in step.model_output_message.tool_calls or ()]
        account.results += [[name, kind] for name in calls if name != "final_answer"]
        account.said += ["done"] * ("final_answer" in calls)


def main(command: str, word: str = "") -> None:
    account = Account()
    with takeback.open(os.environ["WORK"]) as tb, tb.thread(key="talk", approvals="host") as thread:
        try:
            commanded(command, word, agent_of(thread), thread, account)
        except recipe.Waiting as waiting:
            account.asked = waiting.ask.name
        if command != "cancel" and not os.environ.get("BARE"):
            told(agent_of(thread), thread, account)
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
