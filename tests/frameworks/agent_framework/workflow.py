"""A workflow of two agents with checkpoints, as `workflow COMMAND`: run it, resume it after a kill, or go back.

The first agent does what "prepare" asks for, the second one "both".
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from agent_framework import (
    AgentExecutor,
    AgentExecutorRequest,
    AgentExecutorResponse,
    AgentSession,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    executor,
)

from takeback.frameworks.agent_framework import TakebackCheckpointStorage, TakebackMiddleware
from tests.frameworks.agent_framework.agent import made


@executor(id="onwards")
async def onwards(response: AgentExecutorResponse, ctx: WorkflowContext[AgentExecutorRequest]) -> None:
    await ctx.send_message(AgentExecutorRequest(messages=[Message("user", ["both"])], should_respond=True))


def built(undoing: TakebackMiddleware, storage: TakebackCheckpointStorage) -> Workflow:
    first, second = (
        AgentExecutor(made(undoing), id=name, session=AgentSession(session_id=f"order-7/{name}"))
        for name in ("first", "second")
    )
    builder = WorkflowBuilder(name="order", start_executor=first, checkpoint_storage=storage)
    return builder.add_edge(first, onwards).add_edge(onwards, second).build()


async def commanded(command: str) -> Any:
    undoing = TakebackMiddleware(os.environ["WORK"])
    storage = TakebackCheckpointStorage(undoing)
    workflow = built(undoing, storage)
    if command == "run":
        await workflow.run("prepare")
    elif command == "resume":
        latest = await storage.get_latest(workflow_name="order")
        assert latest
        await workflow.run(checkpoint_id=latest.checkpoint_id)
    elif command == "back":
        # To the end of the first agent's turn, when the second had not begun.
        found = await storage.list_checkpoints(workflow_name="order")
        chosen = next(one for one in found if one.iteration_count == 1)
        reports = await storage.go_back(chosen.checkpoint_id)
        assert [str(report.verdict) for report in reports] == ["clean"], reports
        assert (await storage.list_checkpoint_ids(workflow_name="order"))[-1] == chosen.checkpoint_id
    return [
        [one.iteration_count, one.checkpoint_id]
        for one in await storage.list_checkpoints(workflow_name="order")
    ]


if __name__ == "__main__":
    os.write(1, json.dumps(asyncio.run(commanded(sys.argv[1]))).encode())
