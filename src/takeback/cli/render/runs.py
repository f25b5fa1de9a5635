"""Runs as text and data, with their steps, calls, requests and memory."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from takeback.cli.render.history import (
    counted,
    is_folder,
    run_data,
    what_run,
)
from takeback.cli.text import ago, iso, plural, until
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.core.entities import Approval, RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import Mark
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.memory import flatten, keys_of
from takeback.core.values import view
from takeback.workspace.describe import (
    RunSnapshot,
    call_text,
    in_doubt,
    is_call,
    kind_of_run,
    line_of,
    short,
    stands,
    step_undone,
    undone,
)
from takeback.workspace.resuming import can_be_executed, command_of

CALL_MAX = 100
DIGEST_SHOWN = 15

T = TypeVar("T")
Result = Callable[[RecordedAction], Any]
"""Returns the result of a call, as it may be shown."""


# What a run has done


def calls_of(history: History, run: RecordedRun, step: str = "") -> list[RecordedAction]:
    """Return the calls of a run, or of one step, in order."""
    every = [history.actions[id] for id in run.actions]
    return [a for a in every if is_call(history, a) and (not step or a.as_tool.step == step)]


def doubtful(history: History, run: RecordedRun) -> list[RecordedAction]:
    """Return the calls in doubt: it is unknown whether they happened."""
    return [action for action in calls_of(history, run) if in_doubt(history, action)]


def way_to_settle(id: str) -> str:
    """Return the commands by which a human settles a call in doubt."""
    return f"takeback settle {id} --happened   or   --did-not"


def steps_done(history: History, run: RecordedRun) -> list[RecordedStep]:
    """Return the steps that are done and were not taken back."""
    return [s for s in run.steps.values() if s.life is Life.DONE and stands(history, s)]


# How to continue


class Way(msgspec.Struct, frozen=True):
    """A way to continue or end a run that has stopped: what it does, its command if there is one, and a remark."""

    does: str
    command: str = ""
    remark: str = ""

    def __str__(self) -> str:
        return (
            f"{self.command}   ({self.remark})"
            if self.command and self.remark
            else self.command or self.remark
        )


def ways_on(history: History, run: RecordedRun) -> list[Way]:
    """Return what a person can do about a run that has stopped."""
    ways: list[Way] = []
    if run.life is Life.HANDED_OVER:
        if not run.taken_by:
            ways.append(Way("take care of it", f"takeback handover take {run.id}"))
        ways += _ways_to_give_back(run, doubtful(history, run))
    elif run.began.key and run.began.command:
        command = one_line(shlex.join(command_of(history, run)[0]), 60)
        ways.append(Way("continue", f"takeback resume {run.id} --exec", command))
    elif run.began.key:
        ways.append(
            Way("continue", "", f"run your program again: it finds {run.id} by the key {run.began.key!r}")
        )
    if any(history.live(id) for id in run.actions):
        ways.append(Way("take it back", f"takeback undo {run.id}"))
    return ways


def _ways_to_give_back(run: RecordedRun, unsure: list[RecordedAction]) -> list[Way]:
    command = f"takeback handover return {run.id}"
    if len(unsure) != 1:
        remark = f"with --happened ID or --did-not ID for each of {plural(len(unsure), 'call')} in doubt"
        return [Way("return it", command, remark if unsure else "")]
    (call,) = unsure
    return [
        Way(f"{call.name} happened", f"{command} --happened {call.id}"),
        Way("it did not", f"{command} --did-not {call.id}"),
    ]


def standing_lines(history: History, run: RecordedRun) -> list[str]:
    """Return lines about a run that has stopped: why, its progress, what is in doubt, and how to continue."""
    head = f"{run.id}  {one_line(run.began.name, 60)}: {run.life} {ago(run.ended_us or run.began_us)}"
    if run.taken_by:
        head += f", taken by {run.taken_by}"
    lines = [head]
    if run.why:
        lines.append(f"  {one_line(str(view(run.why)), 200)}")
    if run.steps:
        done = {step.name for step in steps_done(history, run)}
        stopped = [s.name for s in run.steps.values() if s.name not in done]
        where = f", stopped in {stopped[-1]}" if stopped else ""
        lines.append(f"  {plural(len(done), 'step')} done{where}")
    for action in calls_of(history, run):
        if in_doubt(history, action):
            lines.append(f"  in doubt: {action.id} {action.name}: {action.why}")
        elif action.life is Life.SETTLED:
            lines.append(f"  {action.id} {action.name} was in doubt: {action.why}")
    ways = ways_on(history, run)
    width = max((len(way.does) for way in ways), default=0)
    return lines + [f"  {way.does.ljust(width)}   {way}" for way in ways]


def standing_data(history: History, run: RecordedRun) -> dict[str, Any]:
    return run_data(run) | {
        "steps_done": [step.id for step in steps_done(history, run)],
        "in_doubt": [action.id for action in doubtful(history, run)],
        "command": list(command_of(history, run)[0]),
        "folder": command_of(history, run)[1],
        "can_be_executed": can_be_executed(run),
        "next": [
            {"does": way.does, "command": way.command or None, "remark": way.remark}
            for way in ways_on(history, run)
        ],
    }


# Requests for approval


def approval_lines(approval: Approval, *, asking: bool = True) -> list[str]:
    """Return a request, and its answer or how to answer it."""
    asked = approval.asked
    lines = [f"{approval.id}  {call_text(asked.name, asked.arguments)}  {asked.effect}"]
    if asked.why:
        lines.append(f"  why       {asked.why}")
    lines.append(f"  run       {approval.run}, asked {ago(approval.asked_us)}")
    lines.append(f"  payload   {asked.payload}")
    if approval.life is not Life.OPEN:
        by = f" by {approval.actor}" if approval.actor else ""
        lines.append(f"  answer    {approval.life}{by}{': ' + approval.why if approval.why else ''}")
    elif asking:
        lines.append(
            f"  allow     takeback approve {approval.id}   (exactly this, once, for {_left(approval)})"
        )
        lines.append(f"  refuse    takeback deny {approval.id}")
    return lines


def _left(approval: Approval) -> str:
    return until(approval.asked.expires_us)


def approval_data(approval: Approval) -> dict[str, Any]:
    asked = approval.asked
    return {
        "id": approval.id,
        "kind": "approval",
        "run": approval.run,
        "name": asked.name,
        "effect": asked.effect.value,
        "arguments": asked.arguments,
        "payload": asked.payload,
        "why": asked.why,
        "at": iso(approval.asked_us),
        "expires": iso(asked.expires_us),
        "state": approval.life.value,
        "answered_by": approval.actor,
        "answer": approval.why,
    }


# Any past moment


def is_session(run: RecordedRun) -> bool:
    """Return whether this is a coding agent's session: its calls are known by their commands and files."""
    return kind_of_run(run) == "session"


def mark_lines(marks: Iterable[Mark], moment: str) -> list[str]:
    """Return what Takeback saw at a moment, what it did not cover, and how to compare with it and go back to it."""
    lines: list[str] = []
    for mark in marks:
        lines.append(f"  {mark.resource.ljust(9)} {mark.state[:DIGEST_SHOWN]}")
        lines += [f"    not covered: {text}" for text in mark.stated]
    lines.append(f"  compare   takeback diff {moment}")
    lines.append(f"  go back   takeback restore {moment} --preview")
    return lines


def call_line(history: History, action: RecordedAction, result: Result) -> str:
    """Return a line about one call: its arguments, how it ended, its result."""
    run = history.runs.get(action.stream)
    typed = one_line(line_of(history, action), CALL_MAX) if run and is_session(run) else ""
    text = f"{action.id}  {typed or call_text(action.name, action.as_tool.arguments)}"
    if in_doubt(history, action):
        return f"{text}  in doubt: {action.why}"
    if action.life not in (Life.DONE, Life.SETTLED):
        says_more = action.why and action.why != f"it {action.life}"
        return f"{text}  {action.life}{': ' + action.why if says_more else ''}"
    if word := undone(history, action.id):
        text += f"  {word}"
    value = result(action)
    return f"{text}  returned {short(value)}" if value is not None else text


def state_lines(state: RunSnapshot, result: Result, most: int = 0) -> list[str]:
    """Return the state of a run at a moment: its steps, its calls with their results, its requests, its memory.

    With `most`, return only the last so many of each.
    """
    history, run = state.history, state.run
    asked = history.approvals_of(run.id)
    values = flatten(view(state.memory)) if state.memory else {}
    wide = max((len(step.id) for step in run.steps.values()), default=0)
    return [
        *_part(
            "steps",
            _last(run.steps.values(), most),
            lambda s: f"{s.id.ljust(wide)}  {s.name}  {_step_life(history, run, s)}",
        ),
        *_part("calls", _last(calls_of(history, run), most), lambda a: call_line(history, a, result)),
        *_part(
            "requests",
            _last(asked, most),
            lambda a: f"{a.id}  {call_text(a.asked.name, a.asked.arguments)}  {a.life}",
        ),
        *_part(
            "memory",
            _last(values.items(), most),
            lambda item: f"{'/'.join(keys_of(item[0]))} = {short(item[1])}",
        ),
    ]


def _last(items: Iterable[T], most: int) -> tuple[int, list[T]]:
    """Return the last of these, and how many come before them."""
    every = list(items)
    left_out = max(len(every) - most, 0) if most else 0
    return left_out, every[left_out:]


def _part(title: str, chosen: tuple[int, list[T]], line: Callable[[T], str]) -> list[str]:
    left_out, items = chosen
    if not items:
        return []
    more = [f"    … {left_out:,} before; --all lists them"] if left_out else []
    return [f"  {title}", *more, *(f"    {line(item)}" for item in items)]


def _step_life(history: History, run: RecordedRun, step: RecordedStep) -> str:
    word = step_undone(history, step)
    return f"{step.life}{', ' + word if word else ''}  {step_changed(history, run, step)}".rstrip()


def changes_of_step(history: History, run: RecordedRun, step: RecordedStep) -> list[Change]:
    """Return what a step changed, including its calls."""
    every = (history.actions[id] for id in run.actions)
    own = [action for action in every if action.as_tool.step == step.id]
    return [change for action in own for change in action.changes]


def step_changed(history: History, run: RecordedRun, step: RecordedStep) -> str:
    changes = changes_of_step(history, run, step)
    return counted(changes) if any(not is_folder(change) for change in changes) else ""


def state_data(state: RunSnapshot, result: Result) -> dict[str, Any]:
    history, run = state.history, state.run
    return {
        "event": state.seq,
        "at": iso(state.at_us),
        "run": run.id,
        "state": run.life.value,
        "steps": [
            {
                "id": s.id,
                "name": s.name,
                "state": s.life.value,
                "taken_back": step_undone(history, s) == "taken back",
            }
            for s in run.steps.values()
        ],
        "calls": [
            {
                "id": action.id,
                "name": action.name,
                "step": action.as_tool.step or None,
                "state": action.life.value,
                "in_doubt": in_doubt(history, action),
                "taken_back": history.is_undone(action.id),
                "arguments": action.as_tool.arguments,
                "result": result(action),
            }
            for action in calls_of(history, run)
        ],
        "approvals": [approval_data(approval) for approval in history.approvals_of(run.id)],
        "memory": view(state.memory),
    }


def run_line(history: History, run: RecordedRun) -> str:
    return f"{run.id}  {what_run(history, run)}, {ago(run.began_us)}"
