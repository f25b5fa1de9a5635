"""What the journal tells of: actions, steps, runs, approvals and checkpoints, as far as they have come."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change, Entry
from takeback.core.lifecycle import Life

_IN_FILES = (e.Effect.RESTORABLE, e.Effect.UNKNOWN)
OWN = "takeback:"
"""How the tool of an action begins that is Takeback itself."""

_NO_TOOL = e.ActionBegan("", e.Effect.NONE)


class Breach(msgspec.Struct, frozen=True):
    """An event that the life of its subject does not allow."""

    seq: int
    what: str


class RecordedAction(msgspec.Struct):
    """A tool call, a rollback, or what happened outside: whatever has changes of its own."""

    id: str
    kind: str
    name: str
    stream: str
    actor: str
    began_us: int
    began: e.ActionBegan | e.RollbackBegan | e.DriftSeen
    life: Life = Life.OPEN
    ended_us: int = 0
    made: list[Entry] = []
    items: tuple[e.Item, ...] = ()
    exit_code: int | None = None
    why: str = ""
    result: Any = None
    full: str = ""
    """The name of the content that holds the whole result, where the record does not."""
    happened: bool = True
    unsure: bool = False
    processes: tuple[e.Process, ...] = ()
    """What it left behind when its command had ended, as far as processes were found."""

    def __repr__(self) -> str:
        return f"<Action {self.id} {self.name[:60]!r} {self.life}, {len(self.made)} changes>"

    @property
    def is_rollback(self) -> bool:
        return isinstance(self.began, e.RollbackBegan)

    @property
    def is_tool(self) -> bool:
        return isinstance(self.began, e.ActionBegan)

    @property
    def as_tool(self) -> e.ActionBegan:
        """How it began as a tool call. An empty event if it is a rollback, or happened outside."""
        return self.began if isinstance(self.began, e.ActionBegan) else _NO_TOOL

    @property
    def process(self) -> e.Process | None:
        """The process that began it, if one did and said so."""
        return None if isinstance(self.began, e.DriftSeen) else self.began.process

    @property
    def swaps(self) -> tuple[Change, ...]:
        """What it is going to write, if it is a rollback."""
        return self.began.swaps if isinstance(self.began, e.RollbackBegan) else ()

    @property
    def is_own(self) -> bool:
        """Whether Takeback itself wrote into the project, as a human had asked. Only its id takes that back."""
        return self.as_tool.tool.startswith(OWN)

    @property
    def writes_files(self) -> bool:
        """Whether what it did is in files, where only a look finds it."""
        return self.as_tool.effect in _IN_FILES

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows what it did besides what was found by looking."""
        return self.as_tool.effect is e.Effect.UNKNOWN

    @property
    def leaves_something(self) -> bool:
        """Whether it did more than what can be taken back. A call says so itself, as an item of the report."""
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
    body: str = ""
    """The action that stands for what happens in the step outside its calls."""


class RecordedRun(msgspec.Struct):
    id: str
    began: e.RunBegan
    began_us: int
    ended_us: int = 0
    life: Life = Life.OPEN
    why: str = ""
    steps: dict[str, RecordedStep] = {}
    actions: list[str] = []
    taken_by: str = ""
    """Who looks after it, while it is handed over."""
    keys: dict[str, list[str]] = {}
    """Its calls by their key, in order: more than one where a call was taken back and made again."""

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.began.name[:60]!r} {self.life}, {len(self.actions)} actions>"


class Approval(msgspec.Struct):
    """A question to a human, and the answer."""

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

    def __repr__(self) -> str:
        return f"<Checkpoint {self.id} {self.taken.message[:60]!r}>"


def called(event: e.ActionBegan | e.RollbackBegan | e.DriftSeen) -> tuple[str, str]:
    """What kind of action an event begins, and its name."""
    if isinstance(event, e.ActionBegan):
        return "action", event.name
    if isinstance(event, e.RollbackBegan):
        return event.kind.value, " ".join([event.kind.value, *event.of])
    return "outside", ""
