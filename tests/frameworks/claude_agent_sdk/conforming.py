"""Runs the SDK's own conformance suite against the session store: `conforming STORE FOLDER`."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk.testing import run_session_store_conformance

import takeback
from takeback.frameworks.claude_agent_sdk import TakebackSessionStore


def main(store: str, folder: str) -> None:
    numbers = itertools.count()

    def fresh() -> Any:
        root = Path(folder) / str(next(numbers))
        root.mkdir()
        return TakebackSessionStore(takeback.open(root, store=store) if store else root)

    asyncio.run(run_session_store_conformance(fresh))
    asyncio.run(again(fresh()))
    sys.stdout.write(f"{next(numbers)} stores conform\n")


async def again(store: Any) -> None:
    """An entry that comes twice is stored once, whichever object stores it; without a uuid it is stored each time."""
    key = {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "x", "uuid": "a"}, {"type": "x"}])
    await TakebackSessionStore(store.workspace).append(key, [{"type": "x", "uuid": "a"}, {"type": "y"}])
    await store.append(key, [{"type": "x", "uuid": "a"}, {"type": "x", "uuid": "b"}])
    kinds = [(entry["type"], entry.get("uuid")) for entry in await store.load(key)]
    assert kinds == [("x", "a"), ("x", None), ("y", None), ("x", "b")], kinds


if __name__ == "__main__":
    main(*sys.argv[1:])
