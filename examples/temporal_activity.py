"""An activity of Temporal: its worker is killed in the middle, and the next attempt does not book again.

    python examples/temporal_activity.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[temporal]'`. There is no server:
Temporal's own environment for tests makes the attempts. In a program of yours the worker does, with
`Worker(…, activities=[book], plugins=[TakebackPlugin("./project")])`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

import takeback
from takeback.frameworks.temporal import TakebackPlugin

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")


def bookings() -> dict[str, str]:
    place = Path(os.environ["BOOKINGS"])  # another system, outside the workspace
    return json.loads(place.read_text()) if place.exists() else {}


def put(booked: dict[str, str]) -> None:
    Path(os.environ["BOOKINGS"]).write_text(json.dumps(booked))


def cancel(call: takeback.Call) -> None:
    put({key: room for key, room in bookings().items() if key != call.key})


def find(call: takeback.Call) -> Any:
    room = bookings().get(call.key)
    return f"booked the {room}" if room else takeback.ABSENT


@activity.defn
@takeback.action(undo=cancel, check=find)
async def book(room: str) -> str:
    """Book a room."""
    put(bookings() | {takeback.current_call().key: room})
    if os.environ.get("FRAGILE"):
        print(f"  the machine goes down after the {room} was booked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"booked the {room}"


class LastInChain(ActivityInboundInterceptor):
    """Calls the function of an activity, as a worker does."""

    def __init__(self) -> None:
        pass

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        return await input.fn(*input.args)


async def attempt(plugin: TakebackPlugin, room: str) -> Any:
    """Make an attempt of the same activity of the same workflow."""
    [interceptor] = [one for one in plugin.interceptors or () if isinstance(one, Interceptor)]
    chain = interceptor.intercept_activity(LastInChain())
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, activity_type="book")
    return await environment.run(chain.execute_activity, ExecuteActivityInput(book, [room], None, {}))


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--attempt", str(folder)]
    print("A worker makes the first attempt:", flush=True)
    subprocess.run(program, env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another worker makes the second one:", flush=True)
    subprocess.run(program, check=True)
    print(f"  booked: {sorted(bookings().values())}")
    info = ActivityEnvironment.default_info()
    report = TakebackPlugin(work).take_back(str(info.workflow_id), str(info.workflow_run_id))
    print(f"  {report}")
    print(f"  booked: {sorted(bookings().values())}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attempt"]:
        returned = asyncio.run(attempt(TakebackPlugin(Path(sys.argv[2]) / "work"), "attic"))
        print(f"  the activity returned: {returned}")
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
