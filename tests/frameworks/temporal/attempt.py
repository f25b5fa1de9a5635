"""Makes one attempt of an activity as a worker does: `attempt NAME WORD`, and prints what became of it.

There is no server: Temporal's own environment for activities provides the context, and the interceptor of the plugin
is called as a worker calls it. The workspace is WORK, and SHOP has the other systems. `attempt back` takes all back.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

import takeback
from takeback.frameworks.temporal import TakebackPlugin
from tests.frameworks import shop

WORKFLOW, RUN = "trip", "run-1"


@dataclass
class Order:
    """What an activity gets and returns: Temporal makes JSON of it."""

    room: str
    text: str = ""


def find(call: takeback.Call) -> Any:
    found = [row["room"] for row in shop.rows("bookings") if row["key"] == call.key]
    return {"room": found[0], "text": "found"} if found else takeback.ABSENT


@activity.defn
@takeback.action(undo=shop.cancel, check=find)
async def book(order: Order) -> Order:
    return Order(order.room, shop.book(order.room))


@activity.defn
@takeback.action(undo=shop.cancel)
def reserve(order: Order) -> Order:
    """A booking that nothing can find again, in a thread of a pool."""
    shop.add("bookings", key=takeback.current_call().key, room=order.room)
    shop.die("in reserve")
    if os.environ.get("FAIL"):
        raise RuntimeError("the other system is down")
    return Order(order.room, "reserved")


@activity.defn
@takeback.action(effect="irreversible")
async def pay(order: Order) -> Order:
    return Order(order.room, shop.pay(7))


@activity.defn
@takeback.action(undo=shop.cancel)
async def strange(order: Order) -> Any:
    """A booking whose result no converter knows."""
    shop.book(order.room)
    return object()


@activity.defn
@takeback.action(undo=shop.cancel)
async def slow(order: Order) -> Order:
    """A booking that is at work until another attempt was refused."""
    shop.add("bookings", key=takeback.current_call().key, room=order.room)
    await REFUSED.wait()
    return order


REFUSED = asyncio.Event()


async def at_once(plugin: TakebackPlugin, order: Order) -> str:
    """Make an attempt while an earlier one is at work: its worker had lost its time, and not its tool."""
    first = asyncio.ensure_future(attempted(plugin, slow, order))
    while not shop.rows("bookings"):
        assert not first.done(), first
        await asyncio.sleep(0.01)
    try:
        await asyncio.wait_for(attempted(plugin, slow, order), 30)
    except ApplicationError as error:
        return str(error.type)
    finally:
        REFUSED.set()
        await first
    return ""


class Making(ActivityInboundInterceptor):
    """Calls the function, as the end of a worker's chain does: one that is not async in a thread with its context."""

    def __init__(self) -> None:
        pass

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        if asyncio.iscoroutinefunction(input.fn):
            return await input.fn(*input.args)
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(None, context.run, input.fn, *input.args)


async def attempted(plugin: TakebackPlugin, function: Any, order: Order) -> Any:
    [interceptor] = [one for one in plugin.interceptors or () if isinstance(one, Interceptor)]
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info,
        activity_id=f"{function.__name__}-{order.room}",
        activity_type=function.__name__,
        workflow_id=WORKFLOW,
        workflow_run_id=RUN,
    )

    async def execute() -> Any:
        chain = interceptor.intercept_activity(Making())
        result = await chain.execute_activity(ExecuteActivityInput(function, [order], None, {}))
        shop.die(f"after {function.__name__}")
        return result

    return await environment.run(execute)


async def configured(plugin: TakebackPlugin) -> list[str]:
    """The interceptors of a worker with this plugin. Its client connects when it is first used, which it never is."""
    client = await Client.connect("127.0.0.1:9", lazy=True)
    config: Any = {"client": client, "task_queue": "q", "activities": [book]}
    return [type(one).__name__ for one in plugin.configure_worker(config)["interceptors"]]


def main(command: str, word: str = "") -> None:
    plugin = TakebackPlugin(os.environ["WORK"])
    told: dict[str, Any] = {}
    if command == "back":
        told["verdict"] = str(plugin.take_back(WORKFLOW, RUN).verdict)
    elif command == "configured":
        told["interceptors"] = asyncio.run(configured(plugin))
    elif command == "at once":
        told["refused"] = asyncio.run(at_once(plugin, Order(word)))
    else:
        function = {"book": book, "reserve": reserve, "pay": pay, "strange": strange}[command]
        try:
            result = asyncio.run(attempted(plugin, function, Order(word)))
            told["result"] = [type(result).__name__, getattr(result, "room", ""), getattr(result, "text", "")]
        except ApplicationError as error:
            told |= {"error": error.type, "final": error.non_retryable, "why": error.message}
        except RuntimeError as error:
            told["error"] = str(error)
    os.write(1, (json.dumps(told) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
