"""What the agent of these tests does: it writes files, and has effects at a receiver that honours keys."""

from __future__ import annotations

import http.client
import json
import os
import signal
import urllib.parse
from pathlib import Path
from typing import Any

import takeback
from takeback.testing import crash
from tests.outbox import sink

SINK, FOLDER = "TAKEBACK_TEST_SINK", "TAKEBACK_TEST_SINK_FOLDER"
STORE, NAME, BLOBS = "TAKEBACK_TEST_SHOP", "TAKEBACK_TEST_NAME", "TAKEBACK_TEST_BUCKET"
STEPS = ("prepare", "book", "count", "tell")


@takeback.action(effect="restorable")
def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def cancel(call: takeback.Call) -> None:
    raise AssertionError("nothing of these runs is taken back")


def find(call: takeback.Call) -> Any:
    """Whether the receiver has it."""
    there = [effect for effect in sink.effects(Path(os.environ[FOLDER])) if effect["key"] == call.key]
    return {"id": call.key} if there else takeback.ABSENT


@takeback.action(undo=cancel, check=find)
def book(room: str) -> dict[str, str]:
    key = takeback.current_call().key
    where = urllib.parse.urlsplit(os.environ[SINK])
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    connection.request("POST", where.path, json.dumps({"booked": room}), {"Idempotency-Key": key})
    assert connection.getresponse().status == 201
    connection.close()
    return {"id": key}


def opened(root: str = ".") -> takeback.Workspace:
    return takeback.open(
        root, store=os.environ[STORE], workspace=os.environ[NAME], blobs=os.environ.get(BLOBS, "")
    )


def work(root: str = ".") -> None:
    """A run with everything in it: files, another system, a database, memory, and what is sent after it."""
    os.chdir(root)
    with opened() as tb, tb.run("booking", key="booking-1") as run:
        with run.step("prepare"):
            run.call(write, "plan.txt", "book two rooms")
            run.memory["customer"] = "ada"
        with run.step("book") as step:
            run.call(write, "first.txt", "room one")
            first = run.call(book, "one")
            if not step.done:  # else all of them are in memory by now
                run.memory["rooms"] = [first["id"] != ""]
            run.call(write, "second.txt", "room two")
            run.call(book, "two")
            run.memory["rooms"] = [True, True]
        with run.step("count") as step:
            if not step.done:
                with run.database("rooms.db") as db:
                    db.execute("CREATE TABLE IF NOT EXISTS rooms (name TEXT PRIMARY KEY)")
                    db.execute("INSERT INTO rooms VALUES ('one'), ('two')")
        with run.step("tell"):
            run.call(write, "told.txt", "ada")
            run.defer("http", "POST", os.environ[SINK], json={"told": "ada"}, key="tell-ada")
        run.memory["done"] = True


def deliver(root: str = ".") -> None:
    """A worker comes by, on whichever machine."""
    with opened(root) as tb:
        tb.courier().run(once=True)


def work_until(point: str, nth: str, root: str) -> None:
    """The same, in a process that stops at a named place until somebody lets it go on."""
    with crash.at(point, lambda: os.kill(os.getpid(), signal.SIGSTOP), nth=int(nth)):
        work(root)
