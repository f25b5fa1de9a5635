"""Who did something, what it was, and what became of it: the words that the log, `show` and `status` share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import ActionBegan, RollbackBegan
from takeback.core.history import History
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.selection import actions_of, inside
from takeback.engine.describe.wording import NOT_ALLOWED, call_text, named, subject_of, taken_back
from takeback.engine.runs.recorded_calls import in_doubt

COMPACTED = "compacted"
"""The note on what gc has removed from the history."""
ENDINGS = {
    Life.OPEN: "unfinished",
    Life.BACKGROUND: "still running",
    Life.FAILED: "failed",
    Life.STOPPED: "stopped",
    Life.INTERRUPTED: "interrupted",
    Life.SETTLED: "interrupted",
    Life.HANDED_OVER: "handed over",
}
"""How an action or a run ended, if that is worth noting."""
OUTSIDE = "(outside)"
"""The actor of changes that no action made, for programs."""
INSIDE_READ_MAX = 256
"""So many actions inside of one are looked at to say what became of it."""
_SUBJECT_MAX = 2000


class Tone(StrEnum):
    """How a note is meant, so that each surface can give it a colour."""

    BAD = "bad"
    BACK = "back"
    CARE = "care"
    PLAIN = "plain"


class StateNote(NamedTuple):
    """One fact about the state of something, in words."""

    text: str
    tone: Tone


_TONES = {
    "failed": Tone.BAD,
    "in doubt": Tone.BAD,
    "incomplete": Tone.BAD,
    "interrupted": Tone.BAD,
    "handed over": Tone.BAD,
    "cannot be taken back": Tone.BAD,
    "taken back": Tone.BACK,
    "redone": Tone.BACK,
    "kept": Tone.BACK,
    "did not happen": Tone.BACK,
    "open": Tone.PLAIN,
    COMPACTED: Tone.PLAIN,
}


def noted(words: Iterable[str]) -> tuple[StateNote, ...]:
    """Return these words as notes, each with its tone."""
    return tuple(
        StateNote(word, _TONES.get(word.removeprefix("partly "), Tone.CARE)) for word in words if word
    )


# Who


def actor_of(action: RecordedAction) -> str:
    """Return the actor; changes outside any action have one of their own."""
    if action.kind == "outside":
        return OUTSIDE
    asked = not action.as_tool.name or (action.is_own and not action.as_tool.parent)
    return action.actor or ("you" if asked else "agent")


def actor_short(action: RecordedAction) -> str:
    """Return the actor without the id of a subagent: a table has little room."""
    return ":".join(actor_of(action).split(":")[:2])


# What


def name_of(history: History, action: RecordedAction) -> str:
    """Return an action as `Bash(make test)`, `book("room 4")` or `undo a7`."""
    began = action.began
    if isinstance(began, RollbackBegan) and not began.stage:
        return f"{began.kind.value} {named(history, began.of)}"
    if isinstance(began, ActionBegan) and began.key:
        subject = one_line(subject_of(history, action, began)[1], 50)
        return f"{action.name}({subject})" if subject else call_text(action.name, began.arguments, 50)
    return action.name


def line_of(history: History, action: RecordedAction) -> str:
    """Return an action as a person would type it: `Bash make test`, whole."""
    began = action.began
    if isinstance(began, ActionBegan) and began.key and (subject := subject_of(history, action, began)[1]):
        return f"{action.name} {one_line(subject, _SUBJECT_MAX)}"
    return one_line(name_of(history, action), _SUBJECT_MAX)


def kind_of_run(run: RecordedRun) -> str:
    """Return the word for a run: an agent's session, a framework's thread, a shadow, or a program's run."""
    if not run.began.detached:
        return "run"
    return "shadow" if run.began.shadow else "thread" if run.began.thread else "session"


# What became of it


def notes_of(history: History, action: RecordedAction) -> list[str]:
    """Return how an action ended, and whether it was taken back; nothing where it simply happened."""
    ending = "not allowed" if action.why.endswith(NOT_ALLOWED) else ENDINGS.get(action.life, "")
    notes = [ending, "in doubt" if in_doubt(history, action) else ""]
    if history.never_happened(action.id):
        notes.append("did not happen")
    if action.is_unknown:
        notes.append("effect unknown")
    if action.life is Life.DONE and any(i.did not in SETTLING or not i.verified for i in action.items):
        notes.append("incomplete")
    every = [action.id] if action.is_rollback else within(history, action)
    notes.append(taken_back(history, every, "redone" if action.is_rollback else "taken back"))
    notes.append(COMPACTED if action.compacted_us else "")
    return list(filter(None, notes))


def within(history: History, action: RecordedAction) -> list[str]:
    """Return an action with all actions inside of it; alone, if there are too many of them to read."""
    every = inside(history, [action.id])
    return every if len(every) <= INSIDE_READ_MAX else [action.id]


def notes_of_run(history: History, run: RecordedRun) -> list[str]:
    """Return the state of a run: how it ended, and whether what it did was taken back."""
    is_open = run.began.detached and run.life is Life.OPEN
    ending = "open" if is_open else ENDINGS.get(run.life, "")
    gone = taken_back(history, run.actions, "taken back")
    return list(filter(None, (ending, gone, compacted(history, run.actions))))


def notes_of_step(history: History, step: RecordedStep) -> list[str]:
    """Return the state of a step. One without a body is a prompt to an agent: how it ended says nothing."""
    ending = ENDINGS.get(step.life, "") if step.body else ""
    gone = step_undone(history, step)
    return list(filter(None, (ending, gone, compacted(history, history.actions_in(step.id)))))


def step_undone(history: History, step: RecordedStep) -> str:
    """Return `taken back`, `partly taken back`, or ""."""
    if step.body:
        return undone(history, step.body)
    return taken_back(history, actions_of(history, step.id), "taken back")


def compacted(history: History, actions: Iterable[str]) -> str:
    """Return the note on what gc has removed, if that is true of one of these actions."""
    return COMPACTED if any(history.actions[id].compacted_us for id in actions) else ""


def undone(history: History, action: str) -> str:
    """Return the same for one action, even if it had changed nothing."""
    word = taken_back(history, [action], "taken back") if action in history.actions else ""
    return word or ("taken back" if history.is_undone(action) else "")


def is_taken_back(history: History, action: RecordedAction) -> bool:
    """Return True if all changes of the action were taken back."""
    known = bool(action.changes) or bool(action.compacted_us)
    return known and taken_back(history, [action.id], "taken back") == "taken back"
