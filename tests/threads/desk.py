"""A framework in miniature: tools that are begun by name, their handlers, and programs that are killed in them."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import takeback
from takeback import ABSENT, Action, Call, Thread
from takeback.workspace.opening import open_workspace
from tests.runs.service import ask


def cancel(call: Call) -> None:
    ask("cancel", key=call.key, item=call.kwargs["item"])


def find(call: Call) -> Any:
    return ask("find", key=call.key, item=call.kwargs["item"]) or ABSENT


async def cancel_async(call: Call) -> None:
    await asyncio.sleep(0)
    cancel(call)


async def find_async(call: Call) -> Any:
    await asyncio.sleep(0)
    return find(call)


def cancel_with(call: Call) -> None:
    """The item is not in the arguments: it comes with the handler."""
    ask("cancel", key=call.key, item=call.data["item"])


def find_with(call: Call) -> Any:
    return ask("find", key=call.key, item=call.data["item"]) or ABSENT


@takeback.action(undo=cancel, check=find, volatile=("request_id",))
def book(item: str, request_id: str = "") -> Any:
    return ask("book", item=item, key=takeback.current_call().key)


class Tool:
    """A framework's tool, around a function."""

    def __init__(self, **inside: Any) -> None:
        vars(self).update(inside)


class Model:
    """An object as frameworks pass it: not JSON, but with a form that is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def model_dump(self, *, mode: str = "python") -> dict[str, Any]:
        assert mode == "json"
        return {"text": self.text}


@functools.wraps(book)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return book(*args, **kwargs)


def begun(thread: Thread, name: str, args: dict[str, Any], **options: Any) -> Action:
    """Begin an action that no rule keeps from beginning."""
    found = thread.begin(name, args, **options)
    assert isinstance(found, Action), found
    return found


def booked(thread: Thread, item: str, **options: Any) -> Any:
    """Call the tool as an adapter does: only if it is open, and otherwise return what is recorded."""
    action = begun(thread, "book", {"item": item}, declared=takeback.declared(book), **options)
    if action.outcome == "cut-short":
        options.pop("again", None)
        action = begun(
            thread, "book", {"item": item}, declared=takeback.declared(book), again=True, **options
        )
    if action.outcome == "open":
        with action:
            action.keep(book(item))
    return action.result


def opened(folder: Path) -> Any:
    return open_workspace(folder / "work", home=folder / "state", watching=False)


def converse(folder: Path, call_id: str = "c1") -> None:
    """One turn with one call to another system, and one file written."""
    with opened(folder) as tb, tb.thread(key="T") as thread, thread.turn("m1"):
        write(thread, folder / "work" / "made", "w1")
        booked(thread, "room", call_id=call_id)


def write(thread: Thread, path: Path, call_id: str = "", text: str = "by the agent") -> Action:
    action = begun(thread, "write", {"path": str(path)}, call_id=call_id, effect="restorable", again=True)
    if action.outcome == "open":
        with action:
            path.write_text(text)
            action.keep({"written": len(text)})
    return action


def ask_for_money(folder: Path) -> None:
    with opened(folder) as tb, tb.thread(key="T") as thread, thread.turn("m1"):
        asked = thread.begin("pay", {"item": "rent"}, call_id="p1", effect="irreversible", check=find)
        assert isinstance(asked, takeback.Ask)


def pay(folder: Path, call_id: str) -> None:
    with opened(folder) as tb, tb.thread(key="T") as thread, thread.turn("m1"):
        paying = thread.begin("pay", {"item": "rent"}, call_id=call_id, effect="irreversible", check=find)
        assert isinstance(paying, Action)
        if paying.outcome == "open":
            with paying:
                paying.keep(ask("book", item="rent", key=takeback.current_call().key))


def approve(folder: Path) -> None:
    with opened(folder) as tb:
        (question,) = tb.approvals()
        tb.approve(question.id)
