"""The driver for CrewAI: a Flow whose method kicks off a crew. See tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from typing import Any

from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow, start
from crewai.flow.persistence import persist
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from pydantic import BaseModel, Field

import takeback
from takeback.frameworks.crewai import (
    HumanAnswer,
    TakebackPersistence,
    WaitingForApproval,
    protect_model,
    protect_tools,
)
from tests.frameworks import shop
from tests.frameworks.driver import Account

FLOW = "talk-1"


class Scripted(BaseLLM):
    """A model that follows the plan of the task, one set of calls at a time."""

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *_: Any, **more: Any) -> Any:
        done = sum(message["role"] == "assistant" for message in messages)
        if any(message["role"] == "tool" and message["name"] == "book" for message in messages):
            shop.die("after book")
        plan = shop.PLANS[more["from_task"].description]
        calls = [
            {"id": shop.call_id(name), "type": "function", "function": {"name": name, "arguments": args}}
            for name, args in (plan[done] if done < len(plan) else [])
        ]
        return calls or "done"


class TalkState(BaseModel):
    """What a conversation remembers."""

    id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    word: str = ""
    said: list[str] = []
    results: list[list[str]] = []


def talk(crew: Crew, thread: takeback.Thread) -> Flow[TalkState]:
    """Return a flow that has the crew answer, in one turn of the conversation."""

    @persist(TakebackPersistence(thread))
    class Talk(Flow[TalkState]):
        _skip_auto_memory = True  # it would read a vector database in each process

        @start()
        def answer(self) -> None:
            said: Any = crew.kickoff()
            if crew.stream:
                for _ in said:
                    pass
                said = said.result
            output = said.tasks_output[0]
            self.state.said += [self.state.word, output.raw]
            for message in output.messages:
                if message["role"] == "tool":
                    kind = "error" if str(message["content"]).startswith("Error") else "ok"
                    self.state.results.append([str(message["name"]), kind])

    return Talk(suppress_flow_events=True)


def crew_for(word: str, thread: takeback.Thread, approve: Any, *, stream: bool = False) -> Crew:
    tools, model = [tool(function) for function in shop.TOOLS], Scripted(model="scripted")
    if not os.environ.get("BARE"):
        tools, model = protect_tools(tools, thread, approve=approve), protect_model(model, thread)
    agent = Agent(role="clerk", goal="serve", backstory="none", tools=tools, llm=model)
    task = Task(description=word, expected_output="done", agent=agent)
    return Crew(agents=[agent], tasks=[task], stream=stream)


def commanded(command: str, word: str, thread: takeback.Thread, account: Account) -> None:
    said = (TakebackPersistence(thread).load_state(FLOW) or {"said": []})["said"][::2]
    if command == "back":
        account.verdict = str(thread.rollback(to=f"message-{said.index(word) + 2}").verdict)
        return
    approve: Any = None
    if command == "answer":
        answered, word = HumanAnswer(word == "yes", by="ann"), "pay"
        approve = lambda _: answered  # noqa: E731
    crew = crew_for(word, thread, approve, stream=command == "stream")
    flow = talk(crew, thread)
    given = {"id": FLOW, "word": word}
    with thread.turn(f"message-{len(said) + 1}"):
        if command == "cancel":
            asyncio.run(cancelled(flow, given))
        else:
            flow.kickoff(inputs=given)
    thread.commit()


async def cancelled(flow: Flow[TalkState], given: dict[str, Any]) -> None:
    """Begin a turn, and cancel it in the middle of its tool."""
    await shop.cancel_when_begun(asyncio.ensure_future(flow.kickoff_async(inputs=given)))


def main(command: str, word: str = "") -> None:
    account = Account()
    with takeback.open(os.environ["WORK"]) as tb, tb.thread(key="talk", approvals="host") as thread:
        try:
            commanded(command, word, thread, account)
        except WaitingForApproval as waiting:
            account.asked = waiting.ask.name
        state = TakebackPersistence(thread).load_state(FLOW) or {}
        account.said, account.results = state.get("said", []), state.get("results", [])
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
