"""Actions, steps, runs, approvals and checkpoints as the journal describes them so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change, Entry, Target
from takeback.core.lifecycle import Life

_IN_FILES = (e.Effect.RESTORABLE, e.Effect.UNKNOWN)
OWN = "takeback:"
"""The prefix of an action's tool name when Takeback itself is the tool."""

_NO_TOOL = e.ActionBegan("", e.Effect.NONE)


class Breach(msgspec.Struct, frozen=True):
    """An event that the life of its subject does not allow."""

    seq: int
    what: str


class ManyEntries(Sequence[Entry]):
    """Very many changes of an action that is open: the latest are at hand, and the others are read when asked for."""

    def __init__(self, earlier: Callable[[int], Iterator[Entry]], until: int) -> None:
        """Read by `earlier` what records up to `until` tell, each time that somebody asks."""
        self._earlier = earlier
        self._state: tuple[int, list[Entry]] = (until, [])

    def __iter__(self) -> Iterator[Entry]:
        until, later = self._state
        yield from self._earlier(until)
        yield from later

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        return list(self)[at]

    def extend(self, entries: Iterable[Entry]) -> None:
        self._state[1].extend(entries)

    def shed(self) -> None:
        """Keep nothing at hand."""
        until, later = self._state
        self._state = (later[-1].seq if later else until, [])  # at once: another thread may be reading


class RecordedAction(msgspec.Struct):
    """A tool call, a rollback, or drift: anything that has changes of its own."""

    id: str
    kind: str
    name: str
    stream: str
    actor: str
    began_us: int
    began: e.ActionBegan | e.RollbackBegan | e.DriftSeen
    life: Life = Life.OPEN
    ended_us: int = 0
    ended: int = 0
    """The record that ended it."""
    made: list[Entry] | ManyEntries = []
    items: tuple[e.Item, ...] = ()
    exit_code: int | None = None
    why: str = ""
    result: Any = None
    full: str = ""
    """The name of the blob with the whole result, if the record does not contain it."""
    delivered: bool = False
    """True if its result has reached its caller for good."""
    happened: bool = True
    unsure: bool = False
    processes: tuple[e.Process, ...] = ()
    """Processes that were still running when the command had ended."""
    beside: bool = False
    """Whether it happened outside any action while an agent's session was open: it may be that agent's."""
    shared: list[Entry] | ManyEntries = []
    """Changes in the records of others that it may have made."""
    never: set[Target] = set()
    """Targets of changes that are known by now never to have happened."""
    named_by: list[str] = []
    """The rollbacks that were asked to take it back, or to bring it back, by their beginnings."""
    settlers: dict[tuple[Target, int], list[str]] = {}
    """The rollbacks that have dealt with its change of a target in a record; a rollback's own change is number 0."""
    unsettled: set[tuple[Target, int]] = set()
    """Changes that an undo has reported as unknown."""
    kept: set[Target] = set()
    """Of a rollback: targets that it left as they were."""
    progress: dict[Target, e.Item] = {}
    """Of an unfinished rollback: the items that it has completed and must not repeat."""
    compacted_us: int = 0
    """When what it changed was removed from the history; 0 if it was not."""
    intended: e.Effect | None = None
    """Of a call in a shadow, which was not made: the effect that it would have had."""

    def __repr__(self) -> str:
        return f"<Action {self.id} {self.name[:60]!r} {self.life}, {len(self.made)} changes>"

    @property
    def is_rollback(self) -> bool:
        return isinstance(self.began, e.RollbackBegan) and not self._is_accepted

    @property
    def is_tool(self) -> bool:
        """True if it did something that can be taken back: a tool call, a command, or a view that was accepted."""
        return isinstance(self.began, e.ActionBegan) or self._is_accepted

    @property
    def _is_accepted(self) -> bool:
        """True for a view that was accepted. Until that is complete, it is finished like a rollback."""
        is_one = isinstance(self.began, e.RollbackBegan) and self.began.kind is e.RollbackKind.ACCEPT
        return is_one and self.life is not Life.OPEN

    @property
    def as_tool(self) -> e.ActionBegan:
        """The event that began it as a tool call; an empty one for a rollback or drift."""
        return self.began if isinstance(self.began, e.ActionBegan) else _NO_TOOL

    @property
    def process(self) -> e.Process | None:
        """The process that began it, if recorded."""
        return None if isinstance(self.began, e.DriftSeen) else self.began.process

    @property
    def swaps(self) -> tuple[Change, ...]:
        """The writes that it plans, if it is a rollback."""
        return self.began.swaps if isinstance(self.began, e.RollbackBegan) else ()

    @property
    def is_own(self) -> bool:
        """True if Takeback itself wrote into the project because a human asked. Only `undo ID` takes that back."""
        return self.as_tool.tool.startswith(OWN)

    @property
    def writes_files(self) -> bool:
        """True if it may have changed files, which only a look at the workspace finds."""
        return self.as_tool.effect in _IN_FILES

    @property
    def is_unknown(self) -> bool:
        """True if its effects are unknown, apart from the changes found by looking."""
        return self.as_tool.effect is e.Effect.UNKNOWN

    @property
    def leaves_something(self) -> bool:
        """True if it did more than can be taken back; False for calls, which have their own item in the report."""
        return self.as_tool.effect is e.Effect.IRREVERSIBLE and not self.as_tool.call_key

    @property
    def seq(self) -> int:
        return ids.seq_of(self.id)

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(entry.change for entry in self.made)


class RecordedStep(msgspec.Struct):
    id: str
    name: str
    parent: str
    ref: str = ""
    began_us: int = 0
    life: Life = Life.OPEN
    ended: int = 0
    """The record that ended it."""
    body: str = ""
    """The action for what happens in the step outside its calls."""
    uses: tuple[str, ...] = ()
    """The steps whose results it uses."""


class RecordedRun(msgspec.Struct):
    id: str
    began: e.RunBegan
    began_us: int
    ended_us: int = 0
    ended: int = 0
    """The record that ended it, interrupted it or handed it over."""
    life: Life = Life.OPEN
    why: str = ""
    steps: dict[str, RecordedStep] = {}
    actions: Sequence[str] = ()
    taken_by: str = ""
    """The human who looks after it while it is handed over."""
    committed_at: int = 0
    """The number of the record of its last commit; a thread goes on afterwards."""

    @property
    def is_listed(self) -> bool:
        """True if it is more than the one action of a command.

        It is a session with actions, or has several actions, steps or a key, or a program began it.
        """
        if self.began.detached:
            return bool(self.actions)
        return bool(self.steps or self.began.key or self.began.folder) or len(self.actions) > 1

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.began.name[:60]!r} {self.life}, {len(self.actions)} actions>"


class Approval(msgspec.Struct):
    """A request to a human, and the answer."""

    id: str
    run: str
    asked_us: int
    asked: e.ApprovalAsked
    life: Life = Life.OPEN
    actor: str = ""
    why: str = ""


class Checkpoint(msgspec.Struct):
    id: str
    stream: str
    at_us: int
    taken: e.CheckpointTaken
    compacted_us: int = 0
    """When its marks were removed from the history; 0 if they were not."""

    def __repr__(self) -> str:
        return f"<Checkpoint {self.id} {self.taken.message[:60]!r}>"


def called(event: e.ActionBegan | e.RollbackBegan | e.DriftSeen) -> tuple[str, str]:
    """Return the kind and the name of the action that an event begins."""
    if isinstance(event, e.ActionBegan):
        return "action", event.name
    if isinstance(event, e.RollbackBegan) and event.kind is e.RollbackKind.ACCEPT:
        return event.kind.value, f"stage accept {event.stage}"
    if isinstance(event, e.RollbackBegan):
        return event.kind.value, " ".join([event.kind.value, *event.of])
    return "outside", ""
