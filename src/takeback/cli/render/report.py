"""A rollback's report on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from takeback.cli.render.runs import way_to_settle
from takeback.cli.text import ago, paint, plural
from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import Did
from takeback.core.history import History
from takeback.core.rollback import Verdict
from takeback.core.selection import inside, outermost
from takeback.errors import ConflictError, RollbackIncomplete
from takeback.workspace.describe import in_doubt
from takeback.workspace.results import DOING, TITLES, WOULD_TITLES, RollbackReport, hint_of

NAMES_SHOWN = 8
UNKNOWN_SHOWN = 3
BY_HAND = "; by hand: "
HIDDEN = "whether it changed anything is unknown, because its database cannot be reached"
_NOTHING = {
    "undo": "Nothing to take back.",
    "redo": "Nothing to bring back.",
    "restore": "Nothing to restore: the workspace is as it was at that moment.",
}
_NOTHING_ELSE = "Nothing else to take back."
_CHOICES = {
    "keep": "keep {whose} and {do} the rest",
    "merge": "merge",
    "overwrite": "put the old version over {whose}",
}
_WOULD_DO = {
    "restored": "restore",
    "removed": "remove",
    "merged": "merge",
    "kept": "keep",
    "cancelled": "cancel",
}


class ReportLine(NamedTuple):
    """One line of a report, and whether it goes to standard error."""

    text: str
    err: bool = False


def report_data(history: History, report: RollbackReport, *, last: bool = False) -> dict[str, object]:
    """Return a report as data for JSON. `last`: the user did not name what to undo."""
    run = _only_a_part(history, report) if last else None
    outer = _outer(history, report) if last else None
    more = ({"part_of": run.id} if run else {}) | ({"inside": outer.id} if outer else {})
    return report.data() | more


def stopped_lines(history: History, report: RollbackReport, paths: Sequence[str] = ()) -> list[str]:
    """Return why nothing was taken back, and what the user can do. `paths`: only these were to be taken back."""
    return [str(report), *_choices(history, report, paths)]


def report_lines(history: History, report: RollbackReport, *, last: bool = False) -> list[ReportLine]:
    """Return the lines about a rollback. `last`: the user did not name what to undo."""
    lines: list[str] = []
    if report.finished_earlier:
        lines.append(f"An earlier {report.kind} was interrupted. It is finished now; nothing else was done.")
    lines += [f"Skipped {_called(history, id)}: {HIDDEN}." for id in report.passed]
    if report.verdict in (Verdict.NOTHING, Verdict.UNKNOWN) and not report.items:
        lines.append(_NOTHING_ELSE if report.unsettled else _NOTHING[report.kind])
        lines += [
            f"It is unknown whether {_called(history, id)} happened.  {way_to_settle(id)}"
            for id in report.unsettled
        ]
        return [ReportLine(line) for line in (*lines, *_elsewhere(history, report))]
    titles = WOULD_TITLES if report.preview else TITLES
    called = ", ".join(_called(history, id) for id in _concerned(history, report))
    nothing = "nothing of " if report.grouped() and not report.achieved else ""
    what = f"what {called} took back" if report.kind == "redo" else called
    if report.kind == "redo" and not report.grouped() and _all_kept(history, report):
        lines.append(f"Brought back nothing: {called} had kept everything. It can be taken back again.")
        return [ReportLine(line) for line in lines]
    lines.append(f"{titles[report.kind]} {nothing}{what}")
    lines += _items(history, report)
    lines += _more_of_it(history, report) if last else []
    return [*(ReportLine(line) for line in lines), *_close(history, report)]


def exit_code(report: RollbackReport) -> int:
    """Return the exit code that goes with a report."""
    if report.is_complete:
        return 0
    incomplete = report.verdict is Verdict.PARTIAL
    return RollbackIncomplete.exit_code if incomplete else ConflictError.exit_code


def _items(history: History, report: RollbackReport) -> list[str]:
    """Return lines about each target, and about what no undo reaches."""
    lines: list[str] = []
    if not report.grouped():
        times = [
            i.target.said for i in report.items if i.did == "restored" and i.resource in ("files", "outside")
        ]
        shown = ", ".join(sorted(times)[:NAMES_SHOWN]) + (" …" if len(times) > NAMES_SHOWN else "")
        again = "only the time would be put back" if report.preview else "only the time was put back"
        lines.append(f"  {again}: {shown}" if times else "  everything was already as before")
    for did, texts in _groups(report):
        for head, line in zip([did] + [""] * (len(texts) - 1), texts, strict=True):
            lines.append(f"  {paint(head.ljust(10), bold=True)} {line}")
    return [*lines, *_elsewhere(history, report)]


def _elsewhere(history: History, report: RollbackReport) -> list[str]:
    """Return lines about what no undo reaches, and what is unknown."""
    stays = paint("stays".ljust(10), bold=True)
    lines = [f"  {stays} what {name} did outside the workspace" for name in staying(history, report)]
    return [*lines, *_unknown(history, report)]


def _unknown(history: History, report: RollbackReport) -> list[str]:
    """Return a line about actions that may have done more than looking can find."""
    if not report.unknown:
        return []
    names = [f"{one_line(history.actions[id].name, 60)} ({id})" for id in report.unknown[:UNKNOWN_SHOWN]]
    left = len(report.unknown) - len(names)
    every = ", ".join([*names, *([f"{left:,} more"] if left else [])])
    return [f"  {paint('unknown'.ljust(10), bold=True)} whether {every} did anything elsewhere"]


def _more_of_it(history: History, report: RollbackReport) -> list[str]:
    """Return lines that say that the run or command did more, and how to take all of it back."""
    run, outer = _only_a_part(history, report), _outer(history, report)
    lines = _part(history, report, run) if run else []
    if outer and not (run and outer.stream == run.id):
        name = one_line(outer.name, 40)
        lines.append(f"It happened inside {outer.id} ({name}). All of that:  takeback undo {outer.id}")
    return lines


def _part(history: History, report: RollbackReport, run: RecordedRun) -> list[str]:
    part = "would be" if report.preview else "was"
    name = one_line(run.began.name, 40)
    lines = [f"That {part} one action of {run.id} ({name}). All of it:  takeback undo {run.id}"]
    if step := _prompt_of(history, report):
        lines.append(f"Everything that its prompt did ({one_line(step.name, 40)}):  takeback undo {step.id}")
    return lines


def _all_kept(history: History, report: RollbackReport) -> bool:
    """Return True if the rollback that a redo reverses had kept everything."""
    rollbacks = [history.actions[id] for id in report.of if id in history.actions]
    return all(item.did is Did.KEPT for rollback in rollbacks for item in rollback.items)


def _only_a_part(history: History, report: RollbackReport) -> RecordedRun | None:
    """Return the run of the action that was taken back, if other actions of that run still stand."""
    action = history.actions.get(report.of[0]) if len(report.of) == 1 else None
    run = history.runs.get(action.stream) if action and report.kind == "undo" else None
    others = [id for id in run.actions if id not in report.of] if run else []
    return run if any(history.live(id) for id in others) else None


def _outer(history: History, report: RollbackReport) -> RecordedAction | None:
    """Return the command inside which the action was done, if more of that command still stands."""
    action = history.actions.get(report.of[0]) if len(report.of) == 1 else None
    outer = outermost(history, action) if action and report.kind == "undo" else None
    if outer is None or outer is action:
        return None
    return outer if any(history.live(id) for id in inside(history, [outer.id])) else None


def _concerned(history: History, report: RollbackReport) -> list[str]:
    """Return the actions of which something is taken back now: others may have been taken back before."""
    done = history.actions.get(report.rollback)
    if done is not None:
        settled = {id for item in done.items for id in item.settles}
        now = [id for id in report.of if id in settled]
    else:
        now = [id for id in report.of if id in history.actions and history.live(id)]
    return now or list(report.of)


def _prompt_of(history: History, report: RollbackReport) -> RecordedStep | None:
    """Return the prompt for which the one action of a report was done."""
    action = history.actions[report.of[0]]
    run = history.runs.get(action.stream)
    step = run.steps.get(action.as_tool.step) if run else None
    return step if step and not step.body else None


def staying(history: History, report: RollbackReport) -> list[str]:
    """Return the commands, taken back or skipped, that are known to have done more than can be taken back."""
    if report.kind != "undo":
        return []
    ids = [
        id
        for named in report.of
        for id in (history.runs[named].actions if named in history.runs else [named])
    ]
    taken = [history.actions[id] for id in ids if id in history.actions]
    stays = [action.id for action in taken if action.leaves_something]
    return [one_line(history.actions[id].name, 60) for id in (*stays, *report.beyond)]


def _choices(history: History, report: RollbackReport, paths: Sequence[str]) -> list[str]:
    """Return lines about the conflicts of a rollback that stopped, and the choices."""
    lines = []
    for item in report.items:
        if item.did != "conflict":
            continue
        later = (
            f" (later: {', '.join(_called(history, id) for id in item.blockers)})" if item.blockers else ""
        )
        lines.append(f"  conflict   {item.target.said}: {item.why}{later}")
    if not report.choices:
        return [*lines, f"  {hint_of(report)}"]
    words = ["takeback", report.kind, *(report.of if report.kind == "undo" else ())]
    # The same again, and not more of it.
    words += [word for path in paths for word in ("--path", path)]
    command = shlex.join(words)
    if report.others_too:
        both = shlex.join([*words[:2], *report.of, *report.others, *words[2 + len(report.of) :]])
        lines.append(f"  {'also take back what the others did'.ljust(37)}{both}")
    whose = "theirs" if report.others else "yours"
    offered = [(_CHOICES[c].format(whose=whose, do=DOING[report.kind]), c) for c in report.choices]
    return lines + [f"  {does.ljust(37)}{command} --on-conflict {choice}" for does, choice in offered]


def _called(history: History, id: str) -> str:
    action = history.actions.get(id)
    if action is None:
        return id
    if action.kind == "outside":
        return f"a change outside any action ({id}, {ago(action.began_us)})"
    return f"{one_line(action.name, 60)} ({id}, {ago(action.began_us)})"


def _groups(report: RollbackReport) -> list[tuple[str, list[str]]]:
    groups = []
    whys = {item.target: item.why for item in report.items}
    said = report.said
    for did, targets in report.grouped():
        explained = [target for target in targets if whys[target]]
        plain = [t for t in targets if t not in explained]
        lines = [line for target in explained for line in _explained(said[target], whys[target])]
        if plain:
            names = ", ".join(said[target] for target in plain[:NAMES_SHOWN])
            more = f" and {len(plain) - NAMES_SHOWN:,} more" if len(plain) > NAMES_SHOWN else ""
            lines.append(names + more)
        groups.append((_WOULD_DO.get(did, did) if report.preview else did, lines))
    return groups


def _explained(name: str, why: str) -> list[str]:
    """Return lines about one target; a command for it gets a line of its own, to be copied."""
    why, by_hand, command = why.partition(BY_HAND)
    return [f"{name}: {why}", *([f"  by hand: {command}"] if by_hand else [])]


def _close(history: History, report: RollbackReport) -> list[ReportLine]:
    if report.preview:
        choose = f" Choose with --on-conflict {' | '.join(report.choices)}." if report.choices else ""
        return [ReportLine(f"Nothing was changed.{choose}")]
    total, verified = len(report.items), sum(item.verified for item in report.items)
    other = f"takeback undo {report.rollback}" if report.kind == "redo" else "takeback redo"
    # A rollback that settled nothing is skipped: redo would take back another one in its place.
    back = f"  Changed your mind?  {other}" if history.settled_by(report.rollback) else ""
    remains = _remaining(history, report) if report.verdict is Verdict.PARTIAL else []
    return [
        ReportLine(f"Verified {verified:,} of {total:,} against the disk.{back}"),
        *(ReportLine(line, err=True) for line in remains),
    ]


def _remaining(history: History, report: RollbackReport) -> list[str]:
    remaining = [item for item in report.items if not item.verified or item.did in ("failed", "conflict")]
    noun = "path" if all(item.resource in ("files", "outside") for item in remaining) else "thing"
    count = plural(len(remaining), f"{noun} is", f"{noun}s are")
    is_unknown = all(item.did == "unverifiable" for item in remaining)
    ending = f"it is unknown whether {count} as before" if is_unknown else f"{count} not as before"
    lines = [f"Incomplete: {ending}."]
    lines += [
        f"  {item.target.said}: {item.why.partition(BY_HAND)[0] or item.did}"
        for item in remaining[:NAMES_SHOWN]
    ]
    for id in report.of:
        if id in history.actions and in_doubt(history, history.actions[id]):
            lines.append(f"  if you know whether {id} happened   {way_to_settle(id)}")
    return lines
