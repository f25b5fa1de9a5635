"""A plugin for Temporal's workers: each activity is an action, and one that was made is not made again.

Temporal runs an activity at least once: a worker that dies after the effect leaves it to another attempt. The id of
an activity is the same in each attempt, so it identifies the call.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_type_hints

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError
from temporalio.plugin import SimplePlugin
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

import takeback
from takeback.errors import RunBusy, UsageError
from takeback.frameworks.calling import UNKEPT, Threads, Told
from takeback.workspace.workspace import Workspace

FRAMEWORK = "temporal"
ASKED_AGAIN = timedelta(seconds=30)
"""After what time Temporal tries an activity again that waits for approval, or that another worker is making."""


class ActivityPlugin(SimplePlugin):
    """Makes the activities of a worker actions that happen once, wait for approval and can be taken back.

        Worker(client, task_queue="q", activities=[book], workflows=[Trip], plugins=[TakebackPlugin("./project")])

    The effect of an activity is what `@takeback.action` declares of its function, and unknown without a declaration.
    """

    def __init__(self, workspace: Workspace | str | os.PathLike[str]) -> None:
        self._threads = Threads(workspace, FRAMEWORK)
        super().__init__("takeback", interceptors=[_ActionInterceptor(self._threads)])

    def take_back(self, workflow_id: str, run_id: str) -> takeback.RollbackReport:
        """Take back what the activities of a workflow's run did, latest first.

        Call it when the workflow has ended: from an activity it would take back itself.
        """
        thread = self._threads.of(f"{workflow_id}/{run_id}")
        first = next(iter(thread.actions()), None)
        if first is None:
            raise UsageError(
                f"workflow {workflow_id} has no activities in run {run_id} that stand; nothing was taken back",
                hint="the id of the run is in the handle of the workflow, and in Temporal's list of workflows",
            )
        return thread.rollback(to=first)


TakebackPlugin = ActivityPlugin  # its public name


class _ActionInterceptor(Interceptor):
    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        return _ActionActivities(next, self._threads)


class _ActionActivities(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, threads: Threads) -> None:
        super().__init__(inner)
        self._threads = threads

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        """Make an activity, unless an earlier attempt made it."""
        info = activity.info()
        thread = await asyncio.to_thread(self._threads.of, _thread_of(info))
        try:
            begun = await self._threads.abegin(
                thread,
                info.activity_type,
                _arguments(input),
                call_id=info.activity_id,
                declared=takeback.declared(input.fn),
            )
        except RunBusy as busy:
            raise _later(str(busy), "TakebackBusy") from busy
        if isinstance(begun, Told):
            return _told(begun, input.fn)
        async with begun:
            result = await self.next.execute_activity(input)
            try:
                begun.keep(_recorded(result))
            except Exception:  # noqa: BLE001  of whatever converter: the worker raises it when it sends the result
                begun.keep(UNKEPT)
        try:
            await thread.acommit()
        except RunBusy:
            pass  # another activity of the workflow is at work: the last one commits
        return result


def _thread_of(info: activity.Info) -> str:
    if info.workflow_id and info.workflow_run_id:
        return f"{info.workflow_id}/{info.workflow_run_id}"
    return f"activity {info.activity_id}/{info.activity_run_id or ''}"


def _arguments(given: ExecuteActivityInput) -> dict[str, Any]:
    """Return the arguments by name, as JSON values where Temporal itself sends them as JSON."""
    bound = inspect.signature(given.fn).bind(*given.args).arguments
    return {name: _plain(value) for name, value in bound.items()}


def _plain(value: Any) -> Any:
    [payload] = activity.payload_converter().to_payloads([value])
    if payload.metadata.get("encoding") in (b"json/plain", b"json/protobuf"):
        return json.loads(payload.data)
    return _dumped(payload)


def _recorded(result: Any) -> Any:
    return {"payload": _dumped(activity.payload_converter().to_payloads([result])[0])}


def _dumped(payload: Payload) -> dict[str, Any]:
    texts = {name: value.decode() for name, value in payload.metadata.items()}
    return {"metadata": texts, "data": payload.data.hex()}


def _told(told: Told, function: Callable[..., Any]) -> Any:
    if told.ask is not None:
        raise _later(told.why, "TakebackApproval")
    if not told.is_done:
        raise ApplicationError(told.why, type="TakebackRefused", non_retryable=True)
    converter = activity.payload_converter()
    if told.found:  # the activity's own value, as its check found it
        [payload] = converter.to_payloads([told.value])
    else:
        kept = told.value["payload"]
        metadata = {name: text.encode() for name, text in kept["metadata"].items()}
        payload = Payload(metadata=metadata, data=bytes.fromhex(kept["data"]))
    hint = get_type_hints(inspect.unwrap(function)).get("return")
    return converter.from_payloads([payload], [hint] if hint else None)[0]


def _later(why: str, kind: str) -> ApplicationError:
    return ApplicationError(why, type=kind, next_retry_delay=ASKED_AGAIN)
