"""A session of OpenAI Agents whose items are beside the history of the workspace, and go back with the world."""

from __future__ import annotations

import asyncio
import json
from os import PathLike
from typing import Any, NamedTuple

from agents import SessionSettings
from agents.items import TResponseInputItem
from agents.memory import SessionABC

import takeback
from takeback.frameworks.calling import Threads
from takeback.frameworks.session_items import SessionItems
from takeback.workspace.workspace import Workspace

FRAMEWORK = "openai-agents"


class SessionTurn(NamedTuple):
    """One turn of a session: what began it, and all that followed."""

    start: str
    """The position before it."""
    end: str
    """The position after what is stored of it."""
    input: list[Any]
    """The items that began it, such as the message of the user."""
    id: str
    is_done: bool
    """True if it ended with an answer. One that a tool ended counts as not done, and can be resumed all the same."""


class TakebackSession(SessionABC):
    """A conversation: its items are durable when a method returns, and can be taken back together with the world.

        session = TakebackSession("1", "./project")
        result = await Runner.run(protect(agent, session), "go", session=session)
        await session.go_back((await session.turns())[-1].start)

    `where` is the folder of a workspace, or a workspace that is open.
    """

    def __init__(
        self,
        session_id: str,
        where: Workspace | str | PathLike[str],
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._threads = Threads(where, FRAMEWORK)
        self._items = SessionItems(self._threads.workspace, f"{FRAMEWORK}/{session_id}")
        self._turn: str | None = None
        self.attempt = 0
        """How often turns were resumed or taken back here."""
        self._resumed: list[Any] | None = None
        """What began the turn that is resumed, until the runner adds it again."""

    @property
    def thread(self) -> takeback.Thread:
        """The thread that has the calls of this conversation."""
        return self._threads.of(self.session_id)

    # What the runner calls

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order, or only the newest ones."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if self._resumed is None:
            return await asyncio.to_thread(self._items.items, limit)
        # The runner adds what began the turn itself.
        found = (await asyncio.to_thread(self._items.items))[: -len(self._resumed)]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items."""
        await asyncio.to_thread(self._add, json.loads(json.dumps(items, default=_dumped)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it. The world stays as it is: see `go_back`."""
        self._turn = self._resumed = None
        popped: TResponseInputItem | None = await asyncio.to_thread(self._items.pop)
        return popped

    async def clear_session(self) -> None:
        """Remove all items. The world stays as it is: see `go_back`."""
        self._turn = self._resumed = None
        await asyncio.to_thread(self._items.clear)

    def _add(self, items: list[Any]) -> None:
        if not items:
            return
        resumed, self._resumed = self._resumed, None
        if resumed == items:
            return  # what began the turn is stored, and its position identifies the calls of the turn
        if resumed is not None:
            self._items.go_back(self._turns()[-1].start)
        position = self._items.add(items)
        if _begins(items):
            self._turn = position

    # Turns

    async def turns(self) -> list[SessionTurn]:
        """Return the turns in order. A turn begins with a message that is not the model's."""
        return await asyncio.to_thread(self._turns)

    async def resume(self) -> list[TResponseInputItem]:
        """Begin the last turn anew if it did not end, and return what began it; otherwise return nothing.

        For after a crash: pass what it returns to the runner. The answers and calls of the turn that are recorded
        are not made again. The world stays as it is.
        """
        return await asyncio.to_thread(self._resume)

    async def go_back(self, position: str) -> takeback.RollbackReport:
        """Go back to the start or the end of a turn: take back what tools did since, and forget what was said since.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the conversation
        stays as it is. After a crash in between, call it again.
        """
        return await asyncio.to_thread(self._go_back, position)

    async def turn_id(self) -> str:
        """Return what identifies the turn that runs now, in any process; empty if there is none."""
        if self._turn is None:
            self._turn = await asyncio.to_thread(lambda: next((turn.id for turn in self._turns()[::-1]), ""))
        return self._turn

    def _turns(self) -> list[SessionTurn]:
        found: list[SessionTurn] = []
        before = ""
        for position, items in self._items.batches():
            if _begins(items):
                found.append(SessionTurn(before, position, items, position, is_done=False))
            elif found:
                found[-1] = found[-1]._replace(end=position, is_done=_is_answer(items[-1]))
            before = position
        return found

    def _resume(self) -> list[Any]:
        last = next(iter(self._turns()[::-1]), None)
        if last is None or last.is_done:
            return []
        self._items.go_back(last.id)
        self._turn, self._resumed = last.id, last.input
        self.attempt += 1
        return list(last.input)

    def _go_back(self, position: str) -> takeback.RollbackReport:
        known = {place for turn in self._turns() for place in (turn.start, turn.end)}
        if position and position not in known:
            raise takeback.UsageError(
                f"session {self.session_id} has no turn that starts or ends at {position}; nothing was taken back",
                hint="`await session.turns()` lists the turns, each with its start and its end",
            )
        thread = self.thread
        # A call names its turn first. Positions are in the order of time.
        first = next((action for action in thread.actions() if action.ref.partition(" ")[0] > position), None)
        report = thread.go_back(first)
        self._items.go_back(position)
        self._turn = self._resumed = None
        return report


def _begins(items: list[Any]) -> bool:
    return isinstance(items[0], dict) and items[0].get("role", "assistant") != "assistant"


def _is_answer(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    raise TypeError(f"{type(value).__name__} cannot be stored in a session; nothing was added")
