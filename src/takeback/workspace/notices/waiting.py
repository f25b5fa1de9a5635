"""What waits for a human in a workspace, each thing with its reason and the command that answers it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core.codec import one_line
from takeback.core.entities import Approval
from takeback.core.history import History
from takeback.core.intents import IntentDied, IntentState, Queued
from takeback.core.lifecycle import Life
from takeback.core.values import SUBJECTS, view
from takeback.engine.describe.wording import call_text, waits_for_a_decision
from takeback.ports.outbox import Outbox

if TYPE_CHECKING:
    from takeback.workspace.parts import WorkspaceParts

APPROVAL, HANDOVER, DEAD, INTERRUPTED = RECORDED = (
    "approval",
    "handover",
    "dead letter",
    "interrupted run",
)
"""The kinds that the journal tells of."""
STALE = "stale workflow"
"""The kind that the monitor finds in workflow files."""

ABOUT_MAX = 160
WHY_MAX = 200
DEAD_MAX = 1000
"""So many dead letters are told of one by one."""
SHOWN_MAX = 10


class Notice(msgspec.Struct, frozen=True):
    """One thing that waits for a human."""

    kind: str
    id: str
    since: str
    """What tells this waiting from an earlier one of the same thing, such as its time."""
    about: str
    why: str = ""
    answers: tuple[str, ...] = ()
    """Commands that answer it, or show how."""
    more: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """The name under which it is known that this was told."""
        return f"{self.kind}\n{self.id}\n{self.since}"

    @property
    def data(self) -> dict[str, Any]:
        said = {"kind": self.kind, "id": self.id, "about": self.about, "why": self.why}
        return said | {"answers": list(self.answers)} | self.more

    @property
    def lines(self) -> list[str]:
        why = f": {self.why}" if self.why else ""
        return [f"{self.kind} {self.id}, {self.about}{why}", *(f"    {answer}" for answer in self.answers)]


def text_of(root: Path, found: Sequence[Notice]) -> str:
    """Return a message for people about all of these."""
    many = f"{len(found)} things wait for you" if len(found) > 1 else "something waits for you"
    lines = [line for notice in found[:SHOWN_MAX] for line in notice.lines]
    if len(found) > SHOWN_MAX:
        lines.append(f"and {len(found) - SHOWN_MAX} more: {command(root, 'status')}")
    return "\n".join([f"{root}: {many}", *lines])


def command(root: Path, *words: str) -> str:
    """Return a command line that does this in the workspace, from wherever it is typed."""
    return shlex.join(["takeback", "-C", os.fspath(root), *words])


def waiting(parts: WorkspaceParts) -> list[Notice]:
    """Return what the journal says is waiting, in order of kind and time."""
    root, history = parts.root, parts.history
    return [
        *(_asked(root, history, approval) for approval in parts.runs.approvals()),
        *_stopped(root, history),
        *_dead(root, parts.outbox),
    ]


def _asked(root: Path, history: History, approval: Approval) -> Notice:
    asked, run = approval.asked, history.runs[approval.run]
    given = asked.arguments.get("kwargs") if isinstance(asked.arguments, dict) else None
    subject = next((str(given[name]) for name in SUBJECTS if given.get(name)), "") if given else ""
    what = str(view(subject)) if subject else call_text(asked.name, asked.arguments)
    who = run.began.actor or run.began.name
    answers = command(root, "approve", approval.id), command(root, "deny", approval.id)
    about = one_line(f"{who} asks for: {what}", ABOUT_MAX)
    return Notice(APPROVAL, approval.id, str(approval.asked_us), about, one_line(asked.why, WHY_MAX), answers)


def _stopped(root: Path, history: History) -> Iterator[Notice]:
    for run in history.waiting_runs():
        if not waits_for_a_decision(history, run) or run.taken_by:
            continue
        since, about = str(run.ended_us), one_line(run.began.name, ABOUT_MAX)
        why = one_line(str(view(run.why)), WHY_MAX)
        if run.life is Life.HANDED_OVER:
            yield Notice(HANDOVER, run.id, since, about, why, (command(root, "handover", "take", run.id),))
        else:
            answers = command(root, "resume", run.id), command(root, "undo", run.id)
            yield Notice(INTERRUPTED, run.id, since, about, why or "nobody continues it", answers)


def _dead(root: Path, outbox: Outbox) -> Iterator[Notice]:
    for queued in outbox.page([IntentState.DEAD], limit=DEAD_MAX):
        answers = command(root, "dead", "retry", queued.id), command(root, "dead", "drop", queued.id)
        about = one_line(queued.deferred.about or queued.deferred.name, ABOUT_MAX)
        why = one_line(_last_error(outbox, queued), WHY_MAX)
        yield Notice(DEAD, queued.id, str(queued.changed_us), about, why, answers, {"run": queued.run})


def _last_error(outbox: Outbox, queued: Queued) -> str:
    tried = outbox.attempts(queued.id)
    return tried[-1].event.why if tried and isinstance(tried[-1].event, IntentDied) else ""
