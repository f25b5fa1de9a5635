"""Protects an agent of OpenAI Agents, and all that it hands off to or calls as tools."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from os import PathLike
from typing import Any, TypeVar

from agents import Agent, AgentHooks, Handoff, ModelProvider, MultiProvider

from takeback.errors import UsageError
from takeback.frameworks.calling import Threads
from takeback.frameworks.openai_agents.conversation import Conversation
from takeback.frameworks.openai_agents.model import RecordedModel
from takeback.frameworks.openai_agents.session import FRAMEWORK, TakebackSession
from takeback.frameworks.openai_agents.tools import protected_tool
from takeback.workspace.workspace import Workspace

AnyAgent = TypeVar("AnyAgent", bound=Agent[Any])


def protect(
    agent: AnyAgent,
    where: TakebackSession | Workspace | str | PathLike[str],
    *,
    thread: str = "",
    model_provider: ModelProvider | None = None,
) -> AnyAgent:
    """Return a copy of an agent whose tool calls can be taken back, and happen once.

        session = TakebackSession("1", "./project")
        await Runner.run(protect(agent, session), "go", session=session)

    Agents that it hands off to, and agents that are its tools, are protected too. Without a TakebackSession, `where`
    is a workspace or its folder, and `thread` identifies the conversation: the same input is then the same turn.
    `model_provider` finds models that the agents only name.
    """
    if isinstance(where, TakebackSession):
        if thread not in ("", where.session_id):
            raise UsageError(
                f"the session {where.session_id} is another conversation than {thread}; nothing was protected",
                hint="leave out `thread`",
            )
        conversation = Conversation(where._threads, where.session_id, where)
    elif thread:
        conversation = Conversation(Threads(where, FRAMEWORK), thread, None)
    else:
        raise UsageError(
            "which conversation the agent is in is not known; nothing was protected",
            hint='protect(agent, TakebackSession("ID", folder)), or protect(agent, folder, thread="ID")',
        )
    return _Protection(conversation, model_provider or MultiProvider()).of(agent)


class _Protection:
    """What was protected for one conversation. Agents may hand off to each other in circles."""

    def __init__(self, conversation: Conversation, provider: ModelProvider) -> None:
        self._conversation = conversation
        self._provider = provider
        self._made: dict[int, tuple[Any, Any]] = {}

    def of(self, agent: AnyAgent) -> AnyAgent:
        """Return the protected agent, made once."""
        if id(agent) in self._made:
            found: AnyAgent = self._made[id(agent)][1]
            return found
        if isinstance(agent.model, RecordedModel):
            raise UsageError(
                f"the agent {agent.name} is protected already; nothing was protected",
                hint="protect the original agent for each conversation",
            )
        made = dataclasses.replace(agent)
        self._made[id(agent)] = (agent, made)  # the original stays alive, so that its id is not used again
        kind: Any = type(agent)
        made.__class__ = _protected_kind(kind)
        made.model = RecordedModel(self._conversation, agent.name, agent.model, self._provider)
        made.hooks = _EndOfTurn(self._conversation, agent.hooks)
        made.tools = [protected_tool(self._conversation, tool, self.of) for tool in agent.tools]
        made.handoffs = [self._handoff(one) for one in agent.handoffs]
        return made

    def _handoff(self, to: Any) -> Any:
        if not isinstance(to, Handoff):
            return self.of(to)
        made = dataclasses.replace(to)

        async def invoke(context: Any, given: str) -> Any:
            return self.of(await to.on_invoke_handoff(context, given))

        made.on_invoke_handoff = invoke
        target = to._agent_ref() if to._agent_ref else None
        if isinstance(target, Agent):
            made._agent_ref = weakref.ref(self.of(target))
        return made


@functools.cache
def _protected_kind(kind: type[Any]) -> type[Any]:
    """Return the class of protected agents: the tools of MCP servers are made when an agent runs."""

    async def get_mcp_tools(agent: Any, run_context: Any) -> list[Any]:
        found = await kind.get_mcp_tools(agent, run_context)
        if found and not isinstance(agent.model, RecordedModel):
            raise UsageError(
                f"the agent {agent.name} is a copy of a protected one, with another model; no tool was called",
                hint="change the original agent, and protect it then",
            )
        return [protected_tool(agent.model.conversation, tool, _itself) for tool in found]

    return type(kind.__name__, (kind,), {"get_mcp_tools": get_mcp_tools, "__module__": kind.__module__})


def _itself(agent: Any) -> Any:
    return agent


class _EndOfTurn(AgentHooks[Any]):
    """The hooks of a protected agent: its own, and the commit at the end of a turn."""

    def __init__(self, conversation: Conversation, own: Any) -> None:
        self._conversation = conversation
        self._own = own or AgentHooks()

    async def on_start(self, *given: Any) -> None:
        await self._own.on_start(*given)

    async def on_end(self, *given: Any) -> None:
        await self._own.on_end(*given)
        await self._conversation.commit()

    async def on_handoff(self, *given: Any, **more: Any) -> None:
        await self._own.on_handoff(*given, **more)

    async def on_tool_start(self, *given: Any) -> None:
        await self._own.on_tool_start(*given)

    async def on_tool_end(self, *given: Any) -> None:
        await self._own.on_tool_end(*given)

    async def on_llm_start(self, *given: Any) -> None:
        await self._own.on_llm_start(*given)

    async def on_llm_end(self, *given: Any) -> None:
        await self._own.on_llm_end(*given)
