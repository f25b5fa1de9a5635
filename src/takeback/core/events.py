"""The events of the journal.

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

EVENTS_VERSION = 10

Mark = event_base.Mark
"""The state of a resource at one moment."""


ANSWER = "(answer)"
"""The tool of an action that is the answer of a model, kept for a resumed thread."""


class Effect(StrEnum):
    """How an action can be taken back, from least to most care. Never guessed as safe."""

    NONE = "none"
    RESTORABLE = "restorable"
    TRANSACTIONAL = "transactional"
    COMPENSABLE = "compensable"
    DEFERRED = "deferred"
    UNKNOWN = "unknown"
    """Not declared, or the command cannot be judged. What it changed where we look is captured and taken back."""
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
    ACCEPT = "accept"
    """Not a rollback, but carried out as one: the changes of a view are put into the workspace. Since version 10."""


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
    """The process that runs an action, so that a later start can find out whether it still lives."""

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
    """The folder in which the command was started."""
    detached: bool = False
    """True for a session: the end of a process does not end it, unless `process` names that process."""
    process: Process | None = None
    thread: bool = False
    """True for a thread: a detached run whose calls have their own processes, and which goes on after a commit.

    Since version 8.
    """
    shadow: str = ""
    """The view in which it worked, if it was a shadow: what it did elsewhere was only intended. Since version 10."""


class RunEnded(_Base, frozen=True, tag="run-ended"):
    outcome: Outcome
    why: str = ""


class RunInterrupted(_Base, frozen=True, tag="run-interrupted"):
    """The process of the run died, as a later start found out."""

    why: str = ""


class RunResumed(_Base, frozen=True, tag="run-resumed"):
    """The run goes on: after an interruption, or as a thread also after its end."""

    actor: str = ""


class RunHandedOver(_Base, frozen=True, tag="run-handed-over"):
    """The run waits for a human: because it asked for one, or because something is in doubt or failed for good."""

    why: str


class RunTaken(_Base, frozen=True, tag="run-taken"):
    """A human looks after a run that was handed over."""

    actor: str = ""


class RunReturned(_Base, frozen=True, tag="run-returned"):
    """The human returned the run; it can be resumed."""

    actor: str = ""
    note: str = ""


class StepBegan(_Base, frozen=True, tag="step-began"):
    name: str
    parent: str = ""
    ref: str = ""
    """Its id elsewhere, such as that of the agent's prompt."""
    uses: tuple[str, ...] = ()
    """The steps whose results it uses: it does not outlive them. Since version 10."""


class StepEnded(_Base, frozen=True, tag="step-ended"):
    step: str
    outcome: Outcome
    why: str = ""


class Handlers(_Base, frozen=True, tag=False):
    """The functions that take a call back or check it, by names that any process can import."""

    undo: str = ""
    check: str = ""


class ActionBegan(_Base, frozen=True, tag="action-began"):
    """Durable before the tool runs, so that after a crash there is a record to settle."""

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
    """What the log may show. If that is not all, `full` names the blob with all of it."""
    full: str = ""
    process: Process | None = None
    handlers: Handlers | None = None
    call_key: str = ""
    """The idempotency key that the other system gets."""
    tool: str = ""
    """The function, as rules name it: `package.module:function`."""
    intent: str = ""
    """The digest of what the caller's key was used for."""
    outside: tuple[str, ...] = ()
    """Captured places outside the workspace that the action names, each with everything below it.

    An entry that ends in `*/` stands for every name in its folder with that prefix; a plain path never ends in `/`.
    """
    uncaptured: tuple[str, ...] = ()
    """What the action names outside that is not captured, as text for people."""
    brand: int = 0
    """A number that all processes started by it inherit, and by which they are found; 0 if there is none."""
    paths: tuple[str, ...] = ()
    """The paths in the workspace that it names as those that it writes, each with all below it. Since version 8."""


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
    """The processes found then. If there are none, the agent reported the background work and reports its end."""


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
    """It may have ended long before, so all its changes are in doubt, including those seen earlier."""


class ActionNoted(_Base, frozen=True, tag="action-noted"):
    """An action without any effect, recorded only when it is over: after a crash there is nothing to settle."""

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
    intended: Effect | None = None
    """In a shadow: the effect that it would have had. It was not made. Since version 10."""


class ActionRefused(_Base, frozen=True, tag="action-refused"):
    """Policy or a human refused the action; it did not begin."""

    name: str
    effect: Effect
    why: str
    rule: str = ""
    arguments: Any = None


class ApprovalAsked(_Base, frozen=True, tag="approval-asked"):
    """An action waits for a human's approval. `payload` is the digest of exactly what is to be done."""

    name: str
    effect: Effect
    payload: str
    expires_us: int
    arguments: Any = None
    why: str = ""
    key: str = ""
    """The key of the action it was asked for, if another process may come back for the answer."""


class ApprovalAnswered(_Base, frozen=True, tag="approval-answered"):
    approval: str
    granted: bool
    actor: str = ""
    why: str = ""


class ApprovalUsed(_Base, frozen=True, tag="approval-used"):
    """The approval was used; it is valid only once."""

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
    """A later answer, from a human or the call's check, to whether an action in doubt happened."""

    action: str
    happened: bool
    changes: tuple[Change, ...] = ()
    actor: str = ""
    result: Any = None
    full: str = ""


class ActionDelivered(_Base, frozen=True, tag="action-delivered"):
    """The result of a call reached its caller and is stored there, so a resumed caller knows it. Since version 8."""

    action: str


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
    """A human accepted a settings file that an action wrote, or settings in it that need a human's acceptance."""

    version: str
    actor: str = ""
    path: str = "takeback.toml"
    """The file. Since version 4; before that there was only one."""
    settings: tuple[str, ...] = ()
    """The settings that had to be accepted, each as it was shown. Since version 6."""


class PlanApproved(_Base, frozen=True, tag="plan-approved"):
    """A human approved a plan as a whole: exactly these steps, with these tools, under this key. Since version 10."""

    digest: str
    name: str
    actor: str = ""


class ContentForgotten(_Base, frozen=True, tag="content-forgotten"):
    """A human had content removed from every stored version, durable before any of it is. Since version 7.

    What was recorded before this event does not keep the content any more; what is recorded later keeps it again.
    """

    paths: tuple[str, ...]
    """The paths that were named, as text."""
    contents: tuple[str, ...]
    """The names of the content, in hex: of files, of databases, and of arguments and results of calls."""
    shared: tuple[str, ...] = ()
    """Other paths that had some of this content, as text."""
    actor: str = ""

    @property
    def names(self) -> frozenset[bytes]:
        return frozenset(map(bytes.fromhex, self.contents))


class CompactionBegan(_Base, frozen=True, tag="compaction-began"):
    """Old records lose their details from here on, durable before the first one does. Since version 9."""

    through: int
    """The last record that was old enough."""
    ranges: tuple[tuple[int, int], ...]
    """The records that are compacted: the first and the last of each range, in order."""
    digests: tuple[str, ...]
    """For each 256 of them, in order, the digest of what is left of them."""
    planned_us: int
    """When this was decided. Each compacted record has it, too."""
    actor: str = ""


class CompactionEnded(_Base, frozen=True, tag="compaction-ended"):
    """All of these records are compacted. Since version 9."""

    compaction: int
    """The number of the record with which it began."""


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
    """The choice for conflicts, needed to finish the plan after a crash if a target has parts."""
    stage: str = ""
    """The view that is accepted. Since version 10."""


class RollbackProgressed(_Base, frozen=True, tag="rollback-progressed"):
    """One item is done. Recorded where looking again has a cost, so that a later start does not repeat it."""

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
    | ActionDelivered
    | ActionRefused
    | ApprovalAsked
    | ApprovalAnswered
    | ApprovalUsed
    | CheckpointTaken
    | DriftSeen
    | ChangesSeen
    | ConfigAccepted
    | PlanApproved
    | ContentForgotten
    | CompactionBegan
    | CompactionEnded
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
