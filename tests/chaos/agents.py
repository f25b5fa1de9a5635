"""Agents that book rooms: sound ones, and three that are broken in ways that nobody sees without a fault."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import takeback
from takeback import ABSENT, Call, Workspace
from tests.chaos.office import office

_numbers = itertools.count()


def cancel(call: Call) -> None:
    office.cancel(call.key)


def cancel_without_the_note(call: Call) -> None:
    office.cancel(call.key, keep_note=True)


def find(call: Call) -> Any:
    room = office.find(call.key)
    return {"room": room} if room else ABSENT


@takeback.action(undo=cancel, check=find, retries=2)
def book(room: str) -> Any:
    return office.book(room, takeback.current_call().key)


@takeback.action(undo=cancel_without_the_note, check=find)
def book_forgetfully(room: str) -> Any:
    return office.book(room, takeback.current_call().key)


@takeback.action(undo=cancel, check=find, retries=2)
def book_anew(room: str) -> Any:
    return office.book(room, f"request-{next(_numbers)}")


@takeback.action(undo=cancel, check=find)
def book_numbered(room: str, request: int) -> Any:
    return office.book(room, takeback.current_call().key)


@takeback.action(undo=cancel, check=find, volatile=("request",))
def book_volatile(room: str, request: int) -> Any:
    return office.book(room, takeback.current_call().key)


@takeback.action(undo=cancel, check=find)
async def book_async(room: str) -> Any:
    await asyncio.sleep(0)
    return office.book(room, takeback.current_call().key)


@takeback.action(undo=cancel)
def book_blindly(room: str) -> Any:
    return office.book(room, takeback.current_call().key)


@takeback.action(effect="none")
def ask_model(question: str) -> str:
    return f"the answer to {question}"


def sound(tb: Workspace) -> None:
    with tb.run("sound", key="K") as run:
        with run.step("one"):
            (tb.root / "plan").write_text("red")
            run.call(book, "red")
        with run.step("two"):
            run.call(book, "blue")
        run.call(ask_model, "what now")
        with run.buffered(dict) as out:
            out.feed('{"room": "green"}')
        run.memory["rooms"] = 3
        run.call(book, out.value["room"])


async def awaiting(tb: Workspace) -> None:
    async with tb.run("awaiting", key="K") as run:
        await run.call(book_async, "red")
        await run.call(book_async, "blue")


def blind(tb: Workspace) -> None:
    with tb.run("blind") as run:
        run.call(book_blindly, "red")


def forgetful(tb: Workspace) -> None:
    with tb.run("forgetful") as run:
        run.call(book, "red")
        run.call(book_forgetfully, "blue")
        run.call(book, "green")


def outside(tb: Workspace) -> None:
    with tb.run("outside") as run:
        run.call(book, "red")
        office.book("blue", "by hand")
        run.call(book, "green")


def anew(tb: Workspace) -> None:
    with tb.run("anew") as run:
        run.call(book_anew, "red")


def numbered(tb: Workspace) -> None:
    with tb.run("numbered", key="K", on_failure="pause") as run:
        with run.step("one"):
            run.call(book_numbered, "red", next(_numbers))
        with run.step("two"):
            run.call(book, "blue")


def volatile(tb: Workspace) -> None:
    with tb.run("volatile", key="K", on_failure="pause") as run:
        with run.step("one"):
            run.call(book_volatile, "red", next(_numbers))
        with run.step("two"):
            run.call(book, "blue")
