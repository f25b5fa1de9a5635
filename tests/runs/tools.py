"""What the agent of these tests can do: calls to the booking service, with handlers that any process finds."""

from __future__ import annotations

from typing import Any

import takeback
from takeback import ABSENT, Call
from tests.runs.service import ask


def cancel(call: Call) -> None:
    ask("cancel", key=call.key, item=call.args[0])


def find(call: Call) -> Any:
    return ask("find", key=call.key, item=call.args[0]) or ABSENT


def _book(item: str) -> Any:
    return ask("book", item=item, key=takeback.current_call().key)


@takeback.action(undo=cancel, check=find)
def book(item: str) -> Any:
    """Compensable, and anybody can look whether it happened."""
    return _book(item)


@takeback.action(undo=cancel, check=find, retries=2)
def book_patiently(item: str) -> Any:
    return _book(item)


@takeback.action(undo=cancel)
def book_blindly(item: str) -> Any:
    """Compensable, but nobody can look."""
    return _book(item)


@takeback.action(undo=cancel, check=find)
async def book_async(item: str) -> Any:
    import asyncio

    return await asyncio.to_thread(_book, item)


@takeback.action(undo=cancel, check=find, volatile=("request_id",))
def book_as(item: str, request_id: str) -> Any:
    return _book(item)


@takeback.action(effect="irreversible", check=find)
def wire(item: str) -> Any:
    """Money that does not come back."""
    return _book(item)


@takeback.action(effect="irreversible")
def wire_blindly(item: str) -> Any:
    return _book(item)


@takeback.action(effect="none")
def add(a: int, b: int) -> int:
    ask("world", item="add")
    return a + b
