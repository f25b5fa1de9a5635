"""What can be written into the journal.

Events are facts: frozen, named by a tag that never changes its meaning, and complete in themselves. A field may
be added with a default; anything else is a new tag. `EVENTS_VERSION` rises with every such addition, and a
reader refuses a higher one instead of misreading it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from takeback.core import event_base, ids, intents, seats
from takeback.core.change import Change, Target
from takeback.core.event_base import Base as _Base

EVENTS_VERSION = 6

Mark = event_base.Mark
"""Where a resource stood at one moment."""


class Effect(StrEnum):
    """How an action can be taken back, in the order of care. Never guessed as safe."""

    NONE = "none"
    RESTORABLE = "restorable"
    TRANSACTIONAL = "transactional"
    COMPENSABLE = "compensable"
    DEFERRED = "deferred"
    UNKNOWN = "unknown"
    """Nobody declared it, or its words do not tell. What it changed where we look is captured and taken back."""
    IRREVERSIBLE = "irreversible"


class Outcome(StrEnum):
    """How a run, a step or an action ended."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class RollbackKind(StrEnum):
    UNDO = "undo"
    REDO = "redo"
    RESTORE = "restore"


class Did(StrEnum):
    """What a rollback did about one target."""

    RESTORED = "restored"
    REMOVED = "removed"
    COMPENSATED = "compensated"
    CANCELLED = "cancelled"
    ALREADY = "already"
    KEPT = "kept"
    MERGED = "merged"
    CONFLICT = "conflict"
    FAILED = "failed"
    UNVERIFIABLE = "unverifiable"


class Process(_Base, frozen=True, tag=False):
    """Who runs an action, so that a later start can tell whether it still lives."""

    pid: int
    started: str
    boot: str
    host: str


class WorkspaceBegan(_Base, frozen=True, tag="workspace-began"):
    root: str
    version: str


class RunBegan(_Base, frozen=True, tag="run-began"):
    name: str
    key: str = ""
    actor: str = ""
    session: str = ""
    parent: str = ""
    ref: str = ""
    generation: int = 1
    command: tuple[str, ...] = ()
    autopilot: bool = False
    folder: str = ""
    """Where the command was given."""
    detached: bool = False
    """It is not the work of one process, so the end of none ends it, unless `process` names one."""
    process: Process | None = None


class RunEnded(_Base, frozen=True, tag="run-ended"):
    outcome: Outcome
    why: str = ""


class RunInterrupted(_Base, frozen=True, tag="run-interrupted"):
    """The process of the run died; found at a later start."""

    why: str = ""


class RunResumed(_Base, frozen=True, tag="run-resumed"):
    actor: str = ""


class RunHandedOver(_Base, frozen=True, tag="run-handed-over"):
    """The run waits for a human: because it asked for one, or because something is in doubt or failed for good."""

    why: str


class RunTaken(_Base, frozen=True, tag="run-taken"):
    """A human looks after a run that was handed over."""

    actor: str = ""


class RunReturned(_Base, frozen=True, tag="run-returned"):
    """The human gives the run back; it can be resumed."""

    actor: str = ""
    note: str = ""


class StepBegan(_Base, frozen=True, tag="step-began"):
    name: str
    parent: str = ""
    ref: str = ""
    """What it is known by elsewhere, as the prompt of an agent that it answers."""


class StepEnded(_Base, frozen=True, tag="step-ended"):
    step: str
    outcome: Outcome
    why: str = ""


class Handlers(_Base, frozen=True, tag=False):
    """How a call can be taken back: names of functions that any process can import."""

    undo: str = ""
    check: str = ""


class ActionBegan(_Base, frozen=True, tag="action-began"):
    """Durable before the tool runs, so that whatever the tool did has a record to be settled against."""

    name: str
    effect: Effect
    actor: str = ""
    session: str = ""
    step: str = ""
    parent: str = ""
    ref: str = ""
    key: str = ""
    marks: tuple[Mark, ...] = ()
    arguments: Any = None
    """What may be seen by everybody who sees the log; `full` names the content that holds all of it, if more."""
    full: str = ""
    process: Process | None = None
    handlers: Handlers | None = None
    call_key: str = ""
    """What a provider is given to know the same intent by."""
    tool: str = ""
    """The function, as the rules know it: `package.module:function`."""
    intent: str = ""
    """For a key that was given: the digest of what it was given for."""
    outside: tuple[str, ...] = ()
    """Places outside the workspace that it names and that are captured, each with everything below it.

    One that ends in `*/` is every name in its folder that begins so; no path ends in a slash.
    """
    uncaptured: tuple[str, ...] = ()
    """What it names there and that is not captured, in words."""
    brand: int = 0
    """What everything that it starts inherits from `process`, and by which it is found; 0 where it has none."""


class ActionDetached(_Base, frozen=True, tag="action-detached"):
    """The command of the action has ended, but processes that it started live on."""

    action: str
    changes: tuple[Change, ...] = ()
    marks: tuple[Mark, ...] = ()
    exit_code: int | None = None
    why: str = ""
    result: Any = None
    full: str = ""
    processes: tuple[Process, ...] = ()
    """Those that were found then. Where there are none its agent has said so, and says when it is over."""


class ActionEnded(_Base, frozen=True, tag="action-ended"):
    action: str
    outcome: Outcome
    changes: tuple[Change, ...] = ()
    marks: tuple[Mark, ...] = ()
    why: str = ""
    exit_code: int | None = None
    result: Any = None
    full: str = ""
    unsure: bool = False
    """It may have been over long before: whose its changes are is in doubt, also those that were seen earlier."""


class ActionNoted(_Base, frozen=True, tag="action-noted"):
    """An action without any effect, told as a whole when it is over: there is nothing to settle if it was not."""

    name: str
    outcome: Outcome
    step: str = ""
    parent: str = ""
    key: str = ""
    arguments: Any = None
    result: Any = None
    full: str = ""
    why: str = ""
    tool: str = ""
    intent: str = ""


class ActionRefused(_Base, frozen=True, tag="action-refused"):
    """Policy, or a human, said no; the action did not begin."""

    name: str
    effect: Effect
    why: str
    rule: str = ""
    arguments: Any = None


class ApprovalAsked(_Base, frozen=True, tag="approval-asked"):
    """An action waits for a human's word. `payload` is the digest of exactly what is to be done."""

    name: str
    effect: Effect
    payload: str
    expires_us: int
    arguments: Any = None
    why: str = ""
    key: str = ""
    """The action that it was asked for, where another process may come back for the answer."""


class ApprovalAnswered(_Base, frozen=True, tag="approval-answered"):
    approval: str
    granted: bool
    actor: str = ""
    why: str = ""


class ApprovalUsed(_Base, frozen=True, tag="approval-used"):
    """An approval holds once."""

    approval: str


class ActionSettled(_Base, frozen=True, tag="action-settled"):
    """An action in doubt was judged by looking at the world."""

    action: str
    happened: bool
    changes: tuple[Change, ...] = ()
    marks: tuple[Mark, ...] = ()
    why: str = ""
    result: Any = None
    full: str = ""


class ActionTold(_Base, frozen=True, tag="action-told"):
    """A later word on an action of which nobody could tell whether it happened: a human's, or its check's."""

    action: str
    happened: bool
    changes: tuple[Change, ...] = ()
    actor: str = ""
    result: Any = None
    full: str = ""


class CheckpointTaken(_Base, frozen=True, tag="checkpoint-taken"):
    message: str = ""
    actor: str = ""
    marks: tuple[Mark, ...] = ()


class DriftSeen(_Base, frozen=True, tag="drift-seen"):
    """Changes that no recorded action made: a human's, or another program's."""

    changes: tuple[Change, ...]
    marks: tuple[Mark, ...] = ()


class ChangesSeen(_Base, frozen=True, tag="changes-seen"):
    """Changes found while this action was still open, because another one needed a mark."""

    action: str
    changes: tuple[Change, ...]
    marks: tuple[Mark, ...] = ()


class ConfigAccepted(_Base, frozen=True, tag="config-accepted"):
    """A human has accepted a settings file: as an action wrote it, or what in it has to be accepted by a human."""

    version: str
    actor: str = ""
    path: str = "takeback.toml"
    """Which file. Since version 4; before that there was but one."""
    settings: tuple[str, ...] = ()
    """What in it had to be accepted, each as it was shown. Since version 6."""


class Item(_Base, frozen=True, tag=False):
    """One target in a rollback's record: what was done, and which actions' changes that settles."""

    target: Target
    did: Did
    verified: bool = False
    why: str = ""
    settles: tuple[str, ...] = ()
    seqs: tuple[int, ...] = ()
    """The records with the changes that are settled: an action may have changed a target more than once."""


class RollbackBegan(_Base, frozen=True, tag="rollback-began"):
    """The plan is durable before the first write, so that a later start can finish it."""

    kind: RollbackKind
    of: tuple[str, ...]
    swaps: tuple[Change, ...] = ()
    items: tuple[Item, ...] = ()
    actor: str = ""
    marks: tuple[Mark, ...] = ()
    process: Process | None = None
    on_conflict: str = "stop"
    """What was chosen for conflicts: where a target has parts, whoever finishes the plan needs it."""


class RollbackProgressed(_Base, frozen=True, tag="rollback-progressed"):
    """One item is done. Of what cannot be looked at again for nothing, so that a later start does not repeat it."""

    rollback: str
    item: Item


class RollbackEnded(_Base, frozen=True, tag="rollback-ended"):
    rollback: str
    items: tuple[Item, ...]
    changes: tuple[Change, ...] = ()
    marks: tuple[Mark, ...] = ()


Event = (
    WorkspaceBegan
    | RunBegan
    | RunEnded
    | RunInterrupted
    | RunResumed
    | RunHandedOver
    | RunTaken
    | RunReturned
    | StepBegan
    | StepEnded
    | ActionBegan
    | ActionDetached
    | ActionEnded
    | ActionSettled
    | ActionNoted
    | ActionTold
    | ActionRefused
    | ApprovalAsked
    | ApprovalAnswered
    | ApprovalUsed
    | CheckpointTaken
    | DriftSeen
    | ChangesSeen
    | ConfigAccepted
    | RollbackBegan
    | RollbackProgressed
    | RollbackEnded
    | seats.WorkspaceSeated
    | intents.IntentEvent
)

ID_KIND: dict[type, str] = {
    RunBegan: ids.RUN,
    StepBegan: ids.STEP,
    ActionBegan: ids.ACTION,
    ActionNoted: ids.ACTION,
    DriftSeen: ids.ACTION,
    RollbackBegan: ids.ACTION,
    CheckpointTaken: ids.CHECKPOINT,
    ApprovalAsked: ids.APPROVAL,
    intents.IntentDeferred: ids.INTENT,
}
"""Events that begin something with an id of its own, and the letter of that id."""
