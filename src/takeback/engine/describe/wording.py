"""Events as text for people, with secrets redacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core import intents as i
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.memory import keys_of
from takeback.core.record import Record
from takeback.core.values import SUBJECTS, view

NOT_ALLOWED = "it was not allowed"
"""The end of the reason of an action that its human refused, so that it never ran."""
TEXT_MAX = 100
NAMES_MAX = 4
LOOKED_AT = 4
"""So many actions of a run are looked at for each that is named, to know whether all are."""


class EventText(msgspec.Struct, frozen=True):
    """The subject of an event, and its text."""

    id: str
    what: str
    minor: bool = False


def told(history: History, record: Record) -> EventText:
    """Return an event as text. `history` is the state right after it."""
    say = _SAY.get(type(record.event))
    if say is None:
        return EventText(record.id, type(record.event).__name__, minor=True)
    return say(history, record, record.event)


def short(value: Any, most: int = TEXT_MAX) -> str:
    """Return a value on one line, with secrets redacted, cut if it is long."""
    text = msgspec.json.encode(view(value)).decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"


def call_text(name: str, arguments: Any, most: int = TEXT_MAX) -> str:
    """Return a call as text: `book("room", when=3)`."""
    if not isinstance(arguments, dict) or arguments.keys() != {"args", "kwargs"}:
        text = "" if arguments is None else short(arguments, most)
    else:
        given = [short(item, most) for item in arguments["args"]]
        given += [f"{key}={short(item, most)}" for key, item in view(arguments["kwargs"]).items()]
        text = ", ".join(given)
    return f"{name}({text if len(text) <= most else text[: most - 1] + '…'})"


def known_as(history: History, action: RecordedAction, most: int = 60) -> str:
    """Return that by which a person knows an action.

    `git push origin main` of a shell, `Edit src/app.py` of another tool, `add_record("mail")` of a function.
    """
    began = action.began
    if isinstance(began, e.RollbackBegan) and began.kind is e.RollbackKind.ACCEPT:
        return one_line(f"the acceptance of {began.stage}", most)
    if isinstance(began, e.RollbackBegan):
        return one_line(f"{began.kind.value} of {named(history, began.of)}", most)
    if not isinstance(began, e.ActionBegan) or not began.key:
        return one_line(action.name, most)
    name, subject = subject_of(history, action, began)
    if not subject:
        return one_line(call_text(action.name, began.arguments), most)
    return one_line(subject if name == "command" else f"{action.name} {subject}", most)


def subject_of(history: History, action: RecordedAction, began: e.ActionBegan) -> tuple[str, str]:
    """Return the command or the file of a coding agent's call, by which a person knows it, after its argument's name.

    A patch names its files; both are empty for the call of a function.
    """
    run = history.runs.get(action.stream)
    given = began.arguments.get("kwargs") if isinstance(began.arguments, dict) else None
    if run is None or not run.began.detached or not isinstance(given, dict):
        return "", ""
    name = next((name for name in SUBJECTS if isinstance(given.get(name), str) and given[name]), "")
    root = history.began.root if history.began else ""
    found = str(view(given[name])) if name else ", ".join(began.paths)
    return name, found.removeprefix(f"{root}/")


def item_said(history: History, item: e.Item) -> str:
    """Return the target of a recorded item by what a person knows it by."""
    made_by = [history.actions[id] for id in item.settles if id in history.actions]
    if item.target.resource == "calls" and len(made_by) == 1 and made_by[0].is_tool:
        return known_as(history, made_by[0])
    return item.target.said


def body_of(history: History, action: RecordedAction) -> str:
    """Return the step or the run whose body this action is; empty if it is an action of its own."""
    run, began = history.runs.get(action.stream), action.began
    if run is None or not isinstance(began, e.ActionBegan) or began.key:
        return ""
    if began.step:
        return began.step if began.step in run.steps and run.steps[began.step].body == action.id else ""
    return run.id if began.process is not None and began.name == run.began.name else ""


def is_call(history: History, action: RecordedAction) -> bool:
    """Return whether this is a tool action and not the body of a run or step."""
    return action.is_tool and not body_of(history, action)


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


def waits_for_a_decision(history: History, run: RecordedRun) -> bool:
    """Return True if a human should continue this run or take it back."""
    if run.life is Life.HANDED_OVER:
        return True
    if run.life is not Life.INTERRUPTED:
        return False
    gone = taken_back(history, run.actions, "taken back") == "taken back"
    return not gone and bool(run.began.key or any(history.live(id) for id in run.actions))


def changed(changes: Iterable[Change]) -> str:
    """Return the changed targets as text: `plan.md, notes.tmp; memory goal`."""
    every = list(changes)
    groups: dict[str, Counter[str]] = {}
    for change in every:
        name = "/".join(keys_of(change.target.name)) if change.target.resource == "memory" else ""
        groups.setdefault(change.target.resource, Counter())[name or change.target.said] += 1
    parts = []
    for resource, names in groups.items():
        shown = ", ".join(list(names)[:NAMES_MAX])
        more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
        parts.append(f"{'' if resource == 'files' else resource + ' '}{shown}{more}")
    return "; ".join(parts)


def _because(why: str) -> str:
    return f": {view(why)}" if why else ""


def _by(actor: str) -> str:
    return f" by {actor}" if actor else ""


def _run_began(_history: History, record: Record, event: e.RunBegan) -> EventText:
    more = f", attempt {event.generation}" if event.generation > 1 else ""
    more += ", on autopilot" if event.autopilot else ""
    more += f", as a shadow in the view {event.shadow}" if event.shadow else ""
    return EventText(record.id, f"the run {event.name!r} began{more}{_by(event.actor)}")


_OUTCOME = {e.Outcome.DONE: "done", e.Outcome.FAILED: "failed", e.Outcome.STOPPED: "was stopped"}


def _run_ended(_history: History, record: Record, event: e.RunEnded) -> EventText:
    what = "was committed" if event.outcome is e.Outcome.DONE else _OUTCOME[event.outcome]
    return EventText(record.stream, f"the run {what}{_because(event.why)}")


def _run_interrupted(_history: History, record: Record, event: e.RunInterrupted) -> EventText:
    return EventText(record.stream, f"the run was interrupted{_because(event.why)}")


def _run_resumed(_history: History, record: Record, event: e.RunResumed) -> EventText:
    return EventText(record.stream, f"the run was resumed{_by(event.actor)}")


def _run_handed_over(_history: History, record: Record, event: e.RunHandedOver) -> EventText:
    return EventText(record.stream, f"the run was handed over to a human{_because(event.why)}")


def _run_taken(_history: History, record: Record, event: e.RunTaken) -> EventText:
    return EventText(record.stream, f"{event.actor or 'a human'} took the run")


def _run_returned(_history: History, record: Record, event: e.RunReturned) -> EventText:
    return EventText(record.stream, f"{event.actor or 'a human'} returned the run{_because(event.note)}")


def _step_began(_history: History, record: Record, event: e.StepBegan) -> EventText:
    return EventText(record.id, f"step {event.name} began")


def _step_ended(history: History, record: Record, event: e.StepEnded) -> EventText:
    name = history.runs[record.stream].steps[event.step].name
    return EventText(event.step, f"step {name} {_OUTCOME[event.outcome]}{_because(event.why)}")


def _action_began(history: History, record: Record, event: e.ActionBegan) -> EventText:
    action = history.actions[record.id]
    if body := body_of(history, action):
        return EventText(record.id, f"changes in {body} are being watched", minor=True)
    return EventText(record.id, f"{call_text(event.name, event.arguments)} began")


def _action_ended(history: History, _record: Record, event: e.ActionEnded | e.ActionDetached) -> EventText:
    action = history.actions[event.action]
    body = body_of(history, action)
    files = [change for change in event.changes if change.target.resource != "calls"]
    more = f"{'' if body else ', '}changed {changed(files)}" if files else ""
    if body:
        return EventText(action.id, f"in {body}: {more or 'nothing else changed'}", minor=not more)
    done = "goes on in the background" if isinstance(event, e.ActionDetached) else _OUTCOME[event.outcome]
    return EventText(action.id, f"{action.name} {done}{_because(getattr(event, 'why', ''))}{more}")


def _action_noted(_history: History, record: Record, event: e.ActionNoted) -> EventText:
    called = call_text(event.name, event.arguments)
    done = _OUTCOME[event.outcome] if event.intended is None else f"was only intended ({event.intended})"
    return EventText(record.id, f"{called} {done}{_because(event.why)}")


def _action_settled(history: History, _record: Record, event: e.ActionSettled) -> EventText:
    action = history.actions[event.action]
    name = f"what happened in {body}" if (body := body_of(history, action)) else action.name
    return EventText(action.id, f"{name} was cut short{_because(event.why)}")


def _action_told(history: History, _record: Record, event: e.ActionTold) -> EventText:
    who = "its check" if event.actor == "check" else event.actor or "a human"
    name = history.actions[event.action].name
    return EventText(
        event.action, f"{who} says that {name} {'happened' if event.happened else 'never happened'}"
    )


def _action_delivered(history: History, _record: Record, event: e.ActionDelivered) -> EventText:
    return EventText(event.action, f"the result of {history.actions[event.action].name} was delivered")


def _action_refused(_history: History, record: Record, event: e.ActionRefused) -> EventText:
    return EventText(
        record.stream, f"{call_text(event.name, event.arguments)} was refused{_because(event.why)}"
    )


def _content_forgotten(_history: History, record: Record, event: e.ContentForgotten) -> EventText:
    names = list(event.paths)
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    what = f"the stored content of {', '.join(names[:NAMES_MAX])}{more} was forgotten{_by(event.actor)}"
    return EventText(record.id, what)


def _approval_asked(_history: History, record: Record, event: e.ApprovalAsked) -> EventText:
    called = call_text(event.name, event.arguments)
    return EventText(record.id, f"{called} waits for a human's approval{_because(event.why)}")


def _approval_answered(history: History, _record: Record, event: e.ApprovalAnswered) -> EventText:
    name = history.approvals[event.approval].asked.name
    answer = "allowed" if event.granted else "denied"
    return EventText(event.approval, f"{name} was {answer}{_by(event.actor)}{_because(event.why)}")


def _approval_used(_history: History, _record: Record, event: e.ApprovalUsed) -> EventText:
    return EventText(event.approval, "the approval was used", minor=True)


def _checkpoint_taken(_history: History, record: Record, event: e.CheckpointTaken) -> EventText:
    return EventText(record.id, f"a checkpoint was taken{_because(event.message)}")


def _changes_seen(history: History, _record: Record, event: e.ChangesSeen) -> EventText:
    where = body_of(history, history.actions[event.action]) or event.action
    return EventText(event.action, f"in {where}: changed {changed(event.changes)}")


def _rollback_began(history: History, record: Record, event: e.RollbackBegan) -> EventText:
    return EventText(record.id, f"{event.kind.value} of {named(history, event.of)} began{_by(event.actor)}")


def _rollback_progressed(_history: History, _record: Record, event: e.RollbackProgressed) -> EventText:
    item = event.item
    return EventText(event.rollback, f"{item.target.said}: {item.did.value}{_because(item.why)}", minor=True)


def _rollback_ended(history: History, _record: Record, event: e.RollbackEnded) -> EventText:
    counts = Counter(item.did.value for item in event.items)
    did = ", ".join(f"{count} {did}" for did, count in counts.items()) or "nothing had changed"
    return EventText(event.rollback, f"{history.actions[event.rollback].kind} is over: {did}")


def _intent_deferred(_history: History, record: Record, event: i.IntentDeferred) -> EventText:
    return EventText(record.id, f"{event.about} will be sent when {event.step or record.stream} commits")


def _intents_released(_history: History, record: Record, event: i.IntentsReleased) -> EventText:
    count = len(event.intents)
    return EventText(record.stream, f"{count} intent{' was' if count == 1 else 's were'} released")


def _intent_moved(history: History, _record: Record, event: Any) -> EventText:
    intent = history.intents.every.get(event.intent)
    about = intent.about if intent else event.intent
    doubt = ", but may have been delivered" if getattr(event, "unsure", False) else ""
    return EventText(
        event.intent, f"{about} {_MOVED[type(event)]}{_because(getattr(event, 'why', ''))}{doubt}"
    )


_MOVED: dict[type, str] = {
    i.IntentAttempted: "was not delivered, and will be tried again",
    i.IntentDelivered: "was delivered",
    i.IntentDied: "failed for good",
    i.IntentCancelled: "was cancelled",
    i.IntentRevived: "will be tried again",
    i.IntentDropped: "was dropped",
}


def named(history: History, of: tuple[str, ...]) -> str:
    """Return the names of what a rollback takes back. A run that it takes back completely is named as a run."""
    shown = fewest_ids(history, of)
    more = f" and {len(shown) - NAMES_MAX} more" if len(shown) > NAMES_MAX else ""
    return ", ".join(shown[:NAMES_MAX]) + more


def fewest_ids(history: History, of: Iterable[str]) -> list[str]:
    """Return these ids in order; the id of a run stands for all its actions, if all of them are there."""
    left = set(of)
    by_stream = Counter(history.actions[id].stream for id in left if id in history.actions)
    for stream, count in by_stream.items():
        run = history.runs.get(stream)
        if run is None or len(run.actions) > LOOKED_AT * count:
            continue  # to look at each action of a long session would take as long as the session
        tools = {id for id in run.actions if history.actions[id].is_tool}
        if len(tools) > 1 and tools <= left:
            left = left - tools | {stream}
    return sorted(left, key=lambda id: ids.seq_of(id) if ids.is_id(id) else 0)  # a restore names a moment


_SAY: dict[type, Callable[[History, Record, Any], EventText]] = {
    e.RunBegan: _run_began,
    e.RunEnded: _run_ended,
    e.RunInterrupted: _run_interrupted,
    e.RunResumed: _run_resumed,
    e.RunHandedOver: _run_handed_over,
    e.RunTaken: _run_taken,
    e.RunReturned: _run_returned,
    e.StepBegan: _step_began,
    e.StepEnded: _step_ended,
    e.ActionBegan: _action_began,
    e.ActionEnded: _action_ended,
    e.ActionDetached: _action_ended,
    e.ActionNoted: _action_noted,
    e.ActionSettled: _action_settled,
    e.ActionTold: _action_told,
    e.ActionDelivered: _action_delivered,
    e.ActionRefused: _action_refused,
    e.ApprovalAsked: _approval_asked,
    e.ApprovalAnswered: _approval_answered,
    e.ApprovalUsed: _approval_used,
    e.CheckpointTaken: _checkpoint_taken,
    e.ContentForgotten: _content_forgotten,
    e.ChangesSeen: _changes_seen,
    e.RollbackBegan: _rollback_began,
    e.RollbackProgressed: _rollback_progressed,
    e.RollbackEnded: _rollback_ended,
    i.IntentDeferred: _intent_deferred,
    i.IntentsReleased: _intents_released,
    **dict.fromkeys(_MOVED, _intent_moved),
}
