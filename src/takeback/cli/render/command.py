"""The output of `takeback run` before its command starts, and when it has ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from takeback.cli.render.history import counted
from takeback.cli.text import iso, joined, plural
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction
from takeback.core.events import ActionBegan
from takeback.core.history import History
from takeback.core.selection import inside, made
from takeback.ports.foresight import Survey
from takeback.workspace.describe import verb
from takeback.workspace.results import CommandPlan, CommandResult, is_part

NOT_CAPTURED = "was not captured"
MISSED_SHOWN = 5
OUTSIDE = "outside"


def warning_lines(plan: CommandPlan) -> list[str]:
    """Return warnings before a command starts: what cannot be taken back, and how to take it back by hand."""
    guarded = plan.guarded
    if guarded and guarded.name:
        come_back = f"takeback: rows that this changes in {guarded.name} come back with undo"
        return [come_back if guarded.whole else f"{come_back}, where its table is under guard"]
    lines = []
    if plan.irreversible:
        lines.append(f"takeback: this cannot be taken back: {one_line(plan.irreversible, 160)}")
        lines += [f"  by hand: {plan.by_hand}"] if plan.by_hand else []
    lines += [f"takeback: outside the workspace, {one_line(text, 160)}" for text in _few(plan.survey)]
    if not guarded:
        return lines
    head = f", unless it is rows of {', '.join(guarded.among)}, which is under guard"
    return [line.replace("cannot be taken back", f"cannot be taken back{head}", 1) for line in lines]


def _few(survey: Survey) -> list[str]:
    """Return the first few things that are not captured."""
    every = [*survey.missed, *survey.stated]
    more = len(every) - MISSED_SHOWN
    return [*every[:MISSED_SHOWN], *([f"and {more:,} more"] if more > 0 else [])]


def summary_lines(
    history: History, action: RecordedAction, result: CommandResult, called: str, names: Sequence[str] = ()
) -> list[str]:
    """Return lines on what changed, and how to take it back; nothing if there is nothing to report.

    `names` are lines that name what changed.
    """
    child, undoing = result.child, result.report is not None
    seconds = (action.ended_us - action.began_us) / 1e6
    ending = child.why or (f"failed with exit code {child.code}" if child.code else "done")
    called, lines = one_line(called, 60), []
    actions = inside(history, [action.id])
    parts = _parts(history, actions)
    if changes := made(history, action):
        calls = len(actions) - 1 - len(parts)
        whose = f"It, with the {plural(calls, 'call')} inside it," if calls else "It"
        whose = f"In {plural(len(parts), 'part')} {whose[0].lower()}{whose[1:]}" if parts else whose
        lines += joined(f"{called} {ending} after {seconds:.1f} s.", f"{whose} {counted_changes(changes)}.")
        lines += names
        if not undoing:
            inner = [history.actions[id] for id in actions]
            more = any(one.leaves_something or one.is_unknown for one in inner)
            every = "take it back" if more else "take it all back"
            whole = action.stream if parts else action.id
            lines.append(f"  {every.ljust(16)}   takeback undo {whole}")
            if changed := [part for part in parts if history.entries(part)][-1:]:
                lines.append(f"  its last part      takeback undo {changed[0]}")
            lines.append(f"  look first         takeback diff {whole}")
    elif child.code:
        lines.append(f"{called} {ending} after {seconds:.1f} s. It changed nothing.")
    if any(history.actions[id].is_unknown for id in actions):
        lines.append("  unknown            whether it did anything elsewhere")
    lines += _on_the_outside(action.began)
    lines += [f"  changed although locked: {one}" for one in result.trespasses[:MISSED_SHOWN]]
    marks = [mark for name, mark in history.marks.items() if name != OUTSIDE]
    stated = (text for mark in marks for text in mark.stated)
    missed = [f"  not recorded: {one_line(text, 160)}" for text in stated if NOT_CAPTURED in text]
    lines += missed[:MISSED_SHOWN]
    if result.living:
        numbers = ", ".join(map(str, result.living))
        lines.append(f"  still running: process {numbers}; end it before you take anything back")
    if result.missed:
        times = plural(len(result.missed), "time")
        lines.append(f"  no checkpoint       {times}, last because {result.missed[-1]}")
    return lines


def _parts(history: History, actions: Sequence[str]) -> list[str]:
    """Return the parts of a command among these actions."""
    return [id for id in actions if is_part(history, history.actions[id])]


def _on_the_outside(began: object) -> list[str]:
    """Return lines on which paths outside the workspace were captured, and which were not."""
    if not isinstance(began, ActionBegan):
        return []
    lines = []
    if began.outside:
        more = f" and {len(began.outside) - 1} more" if len(began.outside) > 1 else ""
        lines.append(f"  captured outside the workspace: {one_line(began.outside[0], 120)}{more}")
    stated = [text for mark in began.marks if mark.resource == OUTSIDE for text in mark.stated]
    missed = [*began.uncaptured, *stated]
    return lines + [f"  not recorded: {one_line(text, 160)}" for text in missed[:MISSED_SHOWN]]


def summary_data(history: History, action: RecordedAction, result: CommandResult) -> str:
    body = {
        "action": action.id,
        "run": action.stream,
        "effect": action.began.effect.value if isinstance(action.began, ActionBegan) else None,
        "exit_code": result.child.code,
        "outside": list(action.as_tool.outside),
        "uncaptured": list(action.as_tool.uncaptured),
        "why": result.child.why,
        "at": iso(action.began_us),
        "changes": len({change.target for change in made(history, action)}),
        "locked_by_others": [str(one) for one in result.trespasses],
        "parts": _parts(history, inside(history, [action.id])),
        "background": list(result.living),
        "undo": result.report.data() if result.report else None,
    }
    return msgspec.json.encode(body).decode()


def counted_changes(changes: tuple[Change, ...]) -> str:
    """Return `changed 6 files, deleted 2, created 1`. Folders count only if there are no files."""
    others = [change for change in changes if change.target.resource != "files"]
    found = [change for change in changes if change.target.resource == "files"]
    if others:
        # A touched folder does not matter if something else in it was changed.
        found = [change for change in found if change.before != change.after]
    if not found:
        return f"changed {counted(others)}"
    if others:
        in_files = counted_changes(tuple(found))
        return f"{in_files}{',' if ',' in in_files else ''} and changed {counted(others)}"
    files = [c for c in changes if not c.after.id.startswith("d:") and not c.before.id.startswith("d:")]
    counts: dict[str, int] = {}
    for change in files or changes:
        counts[verb(change)] = counts.get(verb(change), 0) + 1
    words = [
        f"{did} {counts[did]:,}" for did in ("changed", "deleted", "created", "touched") if did in counts
    ]
    noun = "file" if files else "folder"
    noun += "s" if counts[words[0].split()[0]] != 1 else ""
    first, *rest = words
    return ", ".join([f"{first} {noun}", *rest])
