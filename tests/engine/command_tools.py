"""Tools that are given commands, and would run them."""

from __future__ import annotations

import takeback

ran: list[str] = []
"""What was really called, in order."""


@takeback.action(effect="restorable")
def shell(command: str) -> str:
    ran.append(command)
    return "done"


def unship(call: takeback.Call) -> None:
    ran.append(f"unshipped {call.args}")


@takeback.action(undo=unship)
def ship(command: str) -> str:
    ran.append(command)
    return "shipped"
