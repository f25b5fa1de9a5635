"""Names of things in a workspace.

An id is a letter for the kind and the workspace sequence number of the event that began the thing: `a7` is the
action whose first event is event 7. So an id needs no counter, is unique, and leads directly to its event.
"""

from __future__ import annotations

import re
from functools import lru_cache

from takeback.errors import UsageError

RUN, STEP, ACTION, CHECKPOINT, APPROVAL, INTENT = "r", "s", "a", "c", "p", "i"
KINDS = {
    RUN: "run",
    STEP: "step",
    ACTION: "action",
    CHECKPOINT: "checkpoint",
    APPROVAL: "approval",
    INTENT: "intent",
}

WORKSPACE = "w"
"""The stream of events outside any run: the human's checkpoints, undos and edits."""

_ID = re.compile(r"([rsacpi])([1-9][0-9]{0,17})")


def make(kind: str, seq: int) -> str:
    """Return the id of the thing of this kind that began with event `seq`."""
    assert kind in KINDS and seq > 0
    return f"{kind}{seq}"


def parse(text: str) -> tuple[str, int]:
    """Split an id into its kind and sequence number."""
    found = _split(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not an id",
            hint="ids look like a7 (an action), r5 (a run) or c3 (a checkpoint); `takeback log` lists them",
        )
    return found


@lru_cache(maxsize=1024)
def _split(text: str) -> tuple[str, int] | None:
    match = _ID.fullmatch(text)
    return (match[1], int(match[2])) if match else None


def is_id(text: str) -> bool:
    return _split(text) is not None


def seq_of(id: str) -> int:
    return parse(id)[1]
