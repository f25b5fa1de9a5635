"""History as text for people, and as data for machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from takeback.cli.text import iso, plural
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import ActionBegan, RollbackBegan
from takeback.core.history import History
from takeback.workspace.describe import (
    COMPACTED,
    MINOR_OF_GIT,
    actor_of,
    is_taken_back,
    kind_of_run,
    name_of,
    notes_of,
    notes_of_run,
    notes_of_step,
    taken_back,
    verb,
)

NOUNS = {
    "git": ("thing in git", "things in git"),
    "sqlite": ("database", "databases"),
    "postgres": ("database", "databases"),
    "calls": ("call", "calls"),
    "outbox": ("intent", "intents"),
    "files": ("file", "files"),
    "folders": ("folder", "folders"),
    "outside": ("file outside", "files outside"),
    "memory": ("value", "values"),
}
"""What is counted, in the order of all lists: what matters first."""
_ORDER = list(NOUNS)

_FOLLOWS = re.compile(MINOR_OF_GIT)


def counted(changes: Iterable[Change]) -> str:
    """Return `9 files, 1 ref`. Folders count only if there are no files."""
    every = telling(changes)
    plain = [change for change in every if not is_folder(change)] or every
    counts = Counter(
        "folders" if is_folder(c) else c.target.resource for c in {c.target: c for c in plain}.values()
    )
    known = sorted(counts, key=lambda name: (_ORDER.index(name) if name in NOUNS else len(NOUNS), name))
    return ", ".join(plural(counts[name], *NOUNS.get(name, (name, name))) for name in known)


def telling(changes: Iterable[Change]) -> list[Change]:
    """Return the changes that matter to a person: without git's side effects, unless there are no others."""
    every = list(changes)
    return [c for c in every if c.target.resource != "git" or not _FOLLOWS.search(c.target.name)] or every


def is_folder(change: Change) -> bool:
    return change.target.resource in ("files", "outside") and (change.after or change.before).id.startswith(
        "d:"
    )


def what(history: History, action: RecordedAction) -> str:
    """Return the name of an action, with how it ended if that is worth noting."""
    if action.kind == "outside" and action.compacted_us:
        return _noted("changes outside any action", [COMPACTED])
    if action.kind == "outside":
        plain = [change for change in action.changes if not is_folder(change)] or action.changes
        names = sorted(str(change.target) for change in telling(plain))
        return f"changed {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    return _noted(one_line(name_of(history, action), 60), notes_of(history, action))


def what_step(history: History, step: RecordedStep) -> str:
    """Return the name of a step. A step of a program has a body; one without is a prompt to an agent."""
    name = (
        f"step {one_line(step.name, 55)}" if step.body else f"prompt {one_line(step.name, 53) or 'unknown'}"
    )
    return _noted(name, notes_of_step(history, step))


def what_run(history: History, run: RecordedRun) -> str:
    return _noted(f"{kind_of_run(run)} {one_line(run.began.name, 56)}", notes_of_run(history, run))


def _noted(name: str, notes: list[str]) -> str:
    return "  ".join([name, ", ".join(notes)]).strip()


def action_data(history: History, action: RecordedAction) -> dict[str, Any]:
    began = action.began
    data: dict[str, Any] = {
        "id": action.id,
        "kind": action.kind,
        "name": action.name,
        "run": action.stream if action.stream in history.runs else None,
        "actor": actor_of(action),
        "at": iso(action.began_us),
        "ended": iso(action.ended_us) if action.ended_us else None,
        "state": action.life.value,
        "taken_back": is_taken_back(history, action),
        "partly_taken_back": taken_back(history, [action.id], "").startswith("partly"),
        "kept": taken_back(history, [action.id], "") == "kept",
        "changes": len({change.target for change in action.changes}),
        "compacted": iso(action.compacted_us) if action.compacted_us else None,
    }
    if isinstance(began, ActionBegan):
        data |= {"effect": began.effect.value, "ref": began.ref, "exit_code": action.exit_code}
        data |= {"step": began.step or None, "call": began.key or None}
        data |= {"outside": list(began.outside), "uncaptured": list(began.uncaptured)}
    if isinstance(began, RollbackBegan):
        data |= {"of": list(began.of)}
    return data


def checkpoint_data(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "kind": "checkpoint",
        "name": checkpoint.taken.message,
        "actor": checkpoint.taken.actor or "you",
        "at": iso(checkpoint.at_us),
        "marks": msgspec.to_builtins(checkpoint.taken.marks) if not checkpoint.compacted_us else [],
        "compacted": iso(checkpoint.compacted_us) if checkpoint.compacted_us else None,
    }


def run_data(run: RecordedRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "kind": "run",
        "name": run.began.name,
        "key": run.began.key,
        "actor": run.began.actor,
        "at": iso(run.began_us),
        "ended": iso(run.ended_us) if run.ended_us else None,
        "state": run.life.value,
        "why": run.why,
        "taken_by": run.taken_by or None,
        "attempt": run.began.generation,
        "ref": run.began.ref,
        "steps": [
            {"id": s.id, "name": s.name, "state": s.life.value, "ref": s.ref, "at": iso(s.began_us)}
            for s in run.steps.values()
        ],
        "actions": list(run.actions),
    }


def change_data(change: Change) -> dict[str, Any]:
    return {
        "resource": change.target.resource,
        "target": str(change.target),
        "did": verb(change),
        "before": change.before.id,
        "after": change.after.id,
    }


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows with columns as wide as they need to be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        " " + "   ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
