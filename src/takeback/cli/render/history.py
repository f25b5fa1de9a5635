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
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.selection import actions_of, inside
from takeback.core.values import SUBJECTS, view
from takeback.workspace.describe import MINOR_OF_GIT, NOT_ALLOWED, call_text, in_doubt, named, verb

NOUNS = {
    "files": ("file", "files"),
    "folders": ("folder", "folders"),
    "outside": ("file outside", "files outside"),
    "git": ("thing in git", "things in git"),
    "sqlite": ("database", "databases"),
    "postgres": ("database", "databases"),
    "memory": ("value", "values"),
    "calls": ("call", "calls"),
    "outbox": ("intent", "intents"),
}


_FOLLOWS = re.compile(MINOR_OF_GIT)

COMPACTED = "compacted"
"""The note on what gc has removed from the history."""
_ENDINGS = {
    Life.OPEN: "unfinished",
    Life.BACKGROUND: "still running",
    Life.FAILED: "failed",
    Life.STOPPED: "stopped",
    Life.INTERRUPTED: "interrupted",
    Life.SETTLED: "interrupted",
    Life.HANDED_OVER: "handed over",
}
"""How an action or a run ended, if that is worth noting."""


def counted(changes: Iterable[Change]) -> str:
    """Return `9 files, 1 ref`. Folders count only if there are no files."""
    every = telling(changes)
    plain = [change for change in every if not is_folder(change)] or every
    counts = Counter(
        "folders" if is_folder(c) else c.target.resource for c in {c.target: c for c in plain}.values()
    )
    return ", ".join(plural(n, *NOUNS.get(name, (name, name))) for name, n in sorted(counts.items()))


def telling(changes: Iterable[Change]) -> list[Change]:
    """Return the changes that matter to a person: without git's side effects, unless there are no others."""
    every = list(changes)
    return [c for c in every if c.target.resource != "git" or not _FOLLOWS.search(c.target.name)] or every


def is_folder(change: Change) -> bool:
    return change.target.resource in ("files", "outside") and (change.after or change.before).id.startswith(
        "d:"
    )


def who(action: RecordedAction) -> str:
    if action.kind == "outside":
        return "(outside)"
    asked = not action.as_tool.name or (action.is_own and not action.as_tool.parent)
    return action.actor or ("you" if asked else "agent")


def who_short(action: RecordedAction) -> str:
    """Return the actor without the id of a subagent: a table has little room."""
    return ":".join(who(action).split(":")[:2])


def what(history: History, action: RecordedAction) -> str:
    """Return the name of an action, with how it ended if that is worth noting."""
    if action.kind == "outside" and action.compacted_us:
        return _noted("changes outside any action", [COMPACTED])
    if action.kind == "outside":
        plain = [change for change in action.changes if not is_folder(change)] or action.changes
        names = sorted(str(change.target) for change in telling(plain))
        return f"changed {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    ending = "not allowed" if action.why.endswith(NOT_ALLOWED) else _ENDINGS.get(action.life, "")
    notes = [ending, "in doubt" if in_doubt(history, action) else ""]
    if history.never_happened(action.id):
        notes.append("did not happen")
    if action.is_unknown:
        notes.append("effect unknown")
    if action.life is Life.DONE and any(i.did not in SETTLING or not i.verified for i in action.items):
        notes.append("incomplete")
    every = [action.id] if action.is_rollback else inside(history, [action.id])
    notes.append(taken_back(history, every, "redone" if action.is_rollback else "taken back"))
    if action.compacted_us:
        notes.append(COMPACTED)
    return _noted(one_line(_named(history, action), 60), notes)


def _named(history: History, action: RecordedAction) -> str:
    began = action.began
    if isinstance(began, RollbackBegan) and not began.stage:
        return f"{began.kind.value} {named(history, began.of)}"
    if isinstance(began, ActionBegan) and began.key:
        subject = _subject(history, action, began)
        return f"{action.name}({subject})" if subject else call_text(action.name, began.arguments, 50)
    return action.name


def _subject(history: History, action: RecordedAction, began: ActionBegan) -> str:
    """Return the command or the file of an agent's call, by which a person knows it."""
    run = history.runs.get(action.stream)
    given = began.arguments.get("kwargs") if isinstance(began.arguments, dict) else None
    if not run or not run.began.detached or not isinstance(given, dict):
        return ""
    found = next((text for name in SUBJECTS if isinstance(text := given.get(name), str) and text), "")
    root = history.began.root if history.began else ""
    return one_line(str(view(found)).removeprefix(f"{root}/"), 50)


def what_step(history: History, step: RecordedStep) -> str:
    """Return the name of a step. A step of a program has a body; one without is a prompt to an agent."""
    notes = [step_undone(history, step), _compacted(history, history.actions_in(step.id))]
    if not step.body:
        return _noted(f"prompt {one_line(step.name, 53) or 'unknown'}", notes)
    return _noted(f"step {one_line(step.name, 55)}", [_ENDINGS.get(step.life, ""), *notes])


def step_undone(history: History, step: RecordedStep) -> str:
    """Return `taken back`, `partly taken back`, or ""."""
    if step.body:
        return undone(history, step.body)
    return taken_back(history, actions_of(history, step.id), "taken back")


def what_run(history: History, run: RecordedRun) -> str:
    word, ending = "run", _ENDINGS.get(run.life, "")
    if run.began.detached:
        word = "shadow" if run.began.shadow else "thread" if run.began.thread else "session"
        ending = "open" if run.life is Life.OPEN else ending
    notes = [ending, taken_back(history, run.actions, "taken back"), _compacted(history, run.actions)]
    return _noted(f"{word} {one_line(run.began.name, 56)}", notes)


def _compacted(history: History, actions: Iterable[str]) -> str:
    return COMPACTED if any(history.actions[id].compacted_us for id in actions) else ""


def _noted(name: str, notes: list[str]) -> str:
    return "  ".join([name, ", ".join(filter(None, notes))]).strip()


def taken_back(history: History, actions: Iterable[str], word: str) -> str:
    """Return this word if all changes were taken back, `partly` with it, `kept` if an undo kept them, or ""."""
    every = list(actions)
    # Of what was compacted it is known whether it was taken back, and no more.
    gone = [id for id in every if history.actions[id].compacted_us]
    back = sum(_is_back(history, id) for id in gone)
    left = sum(len(history.live(id)) for id in every) + len(gone) - back
    settled = sum(len(history.entries(id)) for id in every) + len(gone) - left
    if not settled:
        return ""
    kept = sum(len(history.kept(id)) for id in every)
    if kept == settled:
        word = "kept"
    return f"partly {word}" if left or 0 < kept < settled else word


def _is_back(history: History, action: str) -> bool:
    is_rollback = history.actions[action].is_rollback
    return history.is_redone(action) if is_rollback else history.is_undone(action)


def undone(history: History, action: str) -> str:
    """Return the same for one action, even if it had changed nothing."""
    word = taken_back(history, [action], "taken back") if action in history.actions else ""
    return word or ("taken back" if history.is_undone(action) else "")


def is_taken_back(history: History, action: RecordedAction) -> bool:
    """Return True if all changes of the action were taken back."""
    known = bool(action.changes) or bool(action.compacted_us)
    return known and taken_back(history, [action.id], "taken back") == "taken back"


def action_data(history: History, action: RecordedAction) -> dict[str, Any]:
    began = action.began
    data: dict[str, Any] = {
        "id": action.id,
        "kind": action.kind,
        "name": action.name,
        "run": action.stream if action.stream in history.runs else None,
        "actor": who(action),
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
            {"id": s.id, "name": s.name, "state": s.life.value, "ref": s.ref} for s in run.steps.values()
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
