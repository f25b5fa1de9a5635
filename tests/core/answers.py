"""Every question that a history answers, with the answer: two histories of one journal must have the same."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import ids, selection
from takeback.core.change import OF_PATHS, Target
from takeback.core.entities import ManyEntries
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.postings import Flag, IdsInRun
from takeback.core.rollback import passed_over
from takeback.core.trust import untrusted_since
from takeback.errors import UsageError


def plain(value: Any) -> Any:
    """Return a value that compares by everything in it: two versions are equal by their ids alone."""
    if isinstance(value, msgspec.Struct):
        return type(value).__name__, {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {repr(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, set):
        return sorted(repr(plain(item)) for item in value)
    if isinstance(value, list | tuple | IdsInRun | ManyEntries):
        return [plain(item) for item in value]
    return value


def _attempt(ask: Any) -> Any:
    try:
        return plain(ask())
    except UsageError as error:
        return str(error)


def answers(history: History) -> dict[str, Any]:
    """Return the answers to all questions, about everything that the history knows."""
    found: dict[str, Any] = {
        "seq": history.seq,
        "began": plain(history.began),
        "marks": plain(history.marks),
        "accepted": history.accepted,
        "moves": plain(history.moves),
        "unseen": history.unseen(),
        "breaches": plain(history.breaches),
        "forgets": plain(history.forgets),
        "tools": history.tools,
        "actors": history.actors,
        "resources": sorted(history.resources),
        "open": [action.id for life in Life for action in history.open_actions(life)],
        "has unended": history.has_unended,
        "open runs": [run.id for run in history.open_runs()],
        "waiting runs": [run.id for run in history.waiting_runs()],
        "unused approvals": [approval.id for approval in history.unused_approvals()],
        "in session": history.is_in_session,
        "unsettled": history.unsettled(),
        "in doubt": [action.id for action in history.in_doubt()],
        "rollbacks": [action.id for action in history.rollbacks()],
        "listed runs": [run.id for run in history.listed_runs()],
        "steps": [(run.id, step.id, history.actions_in(step.id)) for run, step in history.steps()],
        "decided": plain(history.intents.decided),
        "last action": plain(selection.last_action(history)),
        "last rollback": plain(selection.last_rollback(history)),
        "passed over": [action.id for action in passed_over(history, ())],
    }
    for flag in Flag:
        found[f"flagged {flag.name}"] = [action.id for action in history.flagged(flag)]
        assert history.count_flagged(flag) == len(found[f"flagged {flag.name}"])
    for kind in ("actions", "runs", "checkpoints", "approvals"):
        things = getattr(history, kind)
        assert len(things) == len(list(things)) and list(things) == list(reversed(list(reversed(things))))
        found[kind] = {id: plain(things[id]) for id in things}
    found["intents"] = {id: plain(history.intents.every[id]) for id in history.intents.every}
    for id in history.actions:
        found[f"action {id}"] = _of_action(history, id)
    for id in history.runs:
        found[f"run {id}"] = _of_run(history, id)
    for id in history.checkpoints:
        found[f"open at {id}"] = history.runs_open_at(id)
        found[f"after {id}"] = _attempt(lambda id=id: selection.after(history, ids.seq_of(id)))
    for resource in OF_PATHS:
        for target in sorted(history.targets(resource)):
            found[f"target {target}"] = _of_target(history, target)
    for actor in history.actors:
        found[f"by {actor}"] = _attempt(lambda actor=actor: selection.of_agent(history, actor))
    return found


def _of_action(history: History, id: str) -> list[Any]:
    return [
        plain(history.entries(id)),
        plain(history.live(id)),
        plain(list(history.untried(id))),
        plain(history.kept(id)),
        history.is_undone(id),
        history.is_half_undone(id),
        history.never_happened(id),
        history.inside(id),
        selection.inside(history, [id]),
        plain(history.settled_by(id)),
        [action.id for action in history.since(history.actions[id].seq)],
        history.changed_since(history.actions[id].seq),
    ]


def _of_run(history: History, id: str) -> list[Any]:
    run = history.runs[id]
    steps = [
        (step, history.run_of_step(step), _attempt(lambda s=step: selection.of_ids(history, [s])))
        for step in run.steps
    ]
    keys = sorted({history.actions[action].as_tool.key for action in run.actions} - {""})
    called = [history.actions[action].as_tool.tool for action in run.actions]
    tools = sorted(set(called) - {""})
    assert [history.times_called(id, tool) for tool in tools] == [called.count(tool) for tool in tools]
    return [
        steps,
        [(key, history.calls_of(id, key)) for key in keys],
        [(tool, history.times_called(id, tool)) for tool in tools],
        history.runs_of_key(run.began.key) if run.began.key else [],
        plain(history.memory_of(id)),
        plain(history.approvals_of(id)),
        plain(history.intents.held(id)),
        [action.id for action in history.unended_in(id)],
        [sorted(history.brands_of(id, after)) for after in (0, history.seq // 2)],
        (len(run.actions), bool(run.actions), list(reversed(run.actions)), run.actions[:2]),
        [action in run.actions for action in history.actions],
    ]


def _of_target(history: History, target: Target) -> list[Any]:
    timeline = history.timeline(target)
    return [
        plain(timeline),
        [plain(history.timeline(target, after=entry.seq)) for entry in timeline],
        plain(list(history.latest_entries(target))),
        plain(history.latest(target)),
        plain(untrusted_since(history, target)),
        plain(untrusted_since(history, target, beside=True)),
        [str(found) for found in history.targets(target.resource, target.name)],
    ]
