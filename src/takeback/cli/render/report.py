"""A rollback's report on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from takeback.cli.render.listing import INDENT, headed, shown, way
from takeback.cli.render.runs import way_to_settle
from takeback.cli.text import ago, folded, joined, plural, width
from takeback.core.change import OF_PATHS, Target
from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import Did, RollbackBegan
from takeback.core.history import History
from takeback.core.listing import ListLine
from takeback.core.rollback import Verdict
from takeback.core.selection import inside, outermost
from takeback.errors import ConflictError, RollbackIncomplete
from takeback.workspace.describe import fewest_ids, in_doubt, kind_of_run, known_as
from takeback.workspace.results import BY_HAND, DOING, TITLES, WOULD_TITLES, RollbackReport, hint_of

REMAINING_SHOWN = 8
TITLES_SHOWN = 3
UNKNOWN_SHOWN = 3
HIDDEN = "whether it changed anything is unknown, because its database cannot be reached"
_NOTHING = {
    "undo": "Nothing to take back.",
    "redo": "Nothing to bring back.",
    "restore": "Nothing to restore: the workspace is as it was at that moment.",
}
_ON_DISK = (*OF_PATHS, "git")
"""Resources that are verified by reading the disk."""
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
    return [*folded(str(report), ""), *_choices(history, report, paths)]


def report_lines(
    history: History, report: RollbackReport, *, last: bool = False, everything: bool = False
) -> list[ReportLine]:
    """Return the lines about a rollback.

    `last`: the user did not name what to undo. `everything`: every path is named.
    """
    lines: list[str] = []
    if report.finished_earlier:
        lines += folded(
            f"An earlier {report.kind} was interrupted. It is finished now; nothing else was done.", ""
        )
    lines += [
        part for id in report.passed for part in folded(f"Skipped {_called(history, id)}: {HIDDEN}.", "")
    ]
    if report.verdict in (Verdict.NOTHING, Verdict.UNKNOWN) and not report.items:
        lines += folded(_NOTHING_ELSE if report.unsettled else _NOTHING[report.kind], "")
        for id in report.unsettled:
            lines += joined(
                f"It is unknown whether {_called(history, id)} happened.", way_to_settle(id), "  "
            )
        return [ReportLine(line) for line in (*lines, *_elsewhere(history, report))]
    titles = WOULD_TITLES if report.preview else TITLES
    called = _all_called(history, _concerned(report))
    nothing = "nothing of " if report.grouped() and not report.achieved else ""
    what = f"what {called} took back" if report.kind == "redo" else called
    if report.kind == "redo" and not report.grouped() and _all_kept(history, report):
        lines += folded(
            f"Brought back nothing: {called} had kept everything. It can be taken back again.", ""
        )
        return [ReportLine(line) for line in lines]
    lines += folded(f"{titles[report.kind]} {nothing}{what}", "")
    lines += _items(history, report, everything=everything)
    lines += _more_of_it(history, report) if last else []
    return [*(ReportLine(line) for line in lines), *_close(history, report)]


def exit_code(report: RollbackReport) -> int:
    """Return the exit code that goes with a report."""
    if report.is_complete:
        return 0
    incomplete = report.verdict is Verdict.PARTIAL
    return RollbackIncomplete.exit_code if incomplete else ConflictError.exit_code


def _items(history: History, report: RollbackReport, *, everything: bool) -> list[str]:
    """Return lines about each target, and about what no undo reaches."""
    lines: list[str] = []
    if not report.grouped():
        times = [
            i.target.said for i in report.items if i.did == "restored" and i.resource in ("files", "outside")
        ]
        few = ", ".join(sorted(times)[:REMAINING_SHOWN]) + (" …" if len(times) > REMAINING_SHOWN else "")
        again = "only the time would be put back" if report.preview else "only the time was put back"
        lines += folded(f"{again}: {few}" if times else "everything was already as before", "  ")
    for did, texts in _groups(report, everything=everything):
        lines += headed(did, texts)
    return [*lines, *_elsewhere(history, report)]


def _elsewhere(history: History, report: RollbackReport) -> list[str]:
    """Return lines about what no undo reaches, and what is unknown."""
    staying_lines = [
        headed("stays", folded(f"what {name} did outside the workspace", INDENT))
        for name in staying(history, report)
    ]
    lines = [line for some in staying_lines for line in some]
    return [*lines, *_unknown(history, report), *_checks(report)]


def _checks(report: RollbackReport) -> list[str]:
    """Return lines about the checks that were asked afterwards, the failed ones first."""
    lines = []
    for check in sorted(report.checks, key=lambda check: check.passed):
        word = "checked" if check.passed else "check failed"
        lines += headed(word, folded(check.name if check.passed else f"{check.name}: {check.why}", INDENT))
    return lines


def _unknown(history: History, report: RollbackReport) -> list[str]:
    """Return lines about actions that may have done more than what was taken back."""
    lines = []
    if report.doubtful:
        lines += headed(
            "unknown", folded(f"whether {_few(history, report.doubtful)} changed what was kept", INDENT)
        )
    if report.unknown:
        lines += headed(
            "unknown", folded(f"whether {_few(history, report.unknown)} did anything elsewhere", INDENT)
        )
    return lines


def _few(history: History, of: Sequence[str]) -> str:
    names = [f"{known_as(history, history.actions[id])} ({id})" for id in of[:UNKNOWN_SHOWN]]
    left = len(of) - len(names)
    return ", ".join([*names, *([f"{left:,} more"] if left else [])])


def _more_of_it(history: History, report: RollbackReport) -> list[str]:
    """Return lines that say that the run or command did more, and how to take all of it back."""
    run, outer = _only_a_part(history, report), _outer(history, report)
    lines = _part(history, report, run) if run else []
    if outer and not (run and outer.stream == run.id):
        name = one_line(outer.name, 40)
        lines += joined(f"It happened inside {outer.id} ({name}).", f"All of that:  takeback undo {outer.id}")
    return lines


def _part(history: History, report: RollbackReport, run: RecordedRun) -> list[str]:
    part = "would be" if report.preview else "was"
    kind = "session" if kind_of_run(run) == "session" else "run"
    lines = folded(f"That {part} one action of {kind} {run.id} ({one_line(run.began.name, 40)}).", "")
    ways = [(f"all of {run.id}", run.id)]
    if step := _prompt_of(history, report):
        ways.insert(0, (f'all of the prompt "{one_line(step.name, 40)}"', step.id))
    column = max(len(does) for does, _ in ways) + 3
    return lines + [line for does, id in ways for line in way(does, f"takeback undo {id}", column)]


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


def _concerned(report: RollbackReport) -> list[str]:
    """Return the actions of which something is taken back now: others may have been taken back before.

    With `--path` they are those that changed one of these paths.
    """
    settled = {id for item in report.items for id in item.of}
    return [id for id in report.of if id in settled] or list(report.of)


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
    return [known_as(history, history.actions[id]) for id in (*stays, *report.beyond)]


def _choices(history: History, report: RollbackReport, paths: Sequence[str]) -> list[str]:
    """Return lines about the conflicts of a rollback that stopped, and the choices."""
    lines = _conflicts(history, report)
    if not report.choices:
        return [*lines, *folded(hint_of(report), "  ")]
    of = fewest_ids(history, report.of) if report.kind == "undo" else []
    # The same again, and not more of it.
    of_paths = [word for path in paths for word in ("--path", path)]
    again = ["takeback", report.kind, *of, *of_paths]
    if report.others_too:
        both = fewest_ids(history, [*report.of, *report.others])
        lines += way("also take back what the others did", shlex.join([*again[:2], *both, *of_paths]))
    whose = "theirs" if report.others else "yours"
    for choice in report.choices:
        does = _CHOICES[choice].format(whose=whose, do=DOING[report.kind])
        lines += way(does, shlex.join([*again, "--on-conflict", choice]))
    if report.files_apart:
        apart = [*again, *(() if paths else ("--path", ".")), "--on-conflict", "merge"]
        lines += way("merge the files, leave the branch", shlex.join(apart))
    return lines


def _conflicts(history: History, report: RollbackReport) -> list[str]:
    """Return what is in the way, and the later actions that did it."""
    whys: dict[Target, str] = {}
    names: dict[tuple[str, ...], str] = {(): ""}
    for item in report.items:
        if item.did == "conflict":
            if item.blockers not in names:
                later = ", ".join(_called(history, id) for id in item.blockers)
                names[item.blockers] = f" (later: {later})"
            why, by_hand, command = item.why.partition(BY_HAND)
            whys[item.target] = f"{why}{names[item.blockers]}{by_hand}{command}"
    lines = next((lines for did, lines in report.lists() if did == "conflict"), [])
    return headed("conflict", _told(report, lines, whys)) if lines else []


def _called(history: History, id: str) -> str:
    action = history.actions.get(id)
    if action is None:
        return id
    if action.kind == "outside":
        return f"a change outside any action ({id}, {ago(action.began_us)})"
    when = f"({id}, {ago(action.began_us)})"
    return f"{known_as(history, action, max(width() - len(when) - 18, 20))} {when}"


def _all_called(history: History, ids: Sequence[str]) -> str:
    """Return what is taken back by name: a session or a run as one thing, single actions one by one."""
    by_run: dict[str, list[str]] = {}
    for id in ids:
        action = history.actions.get(id)
        run = history.runs.get(action.stream) if action and action.is_tool else None
        by_run.setdefault(run.id if run else id, []).append(id)
    names: list[str] = []
    for stream, some in by_run.items():
        if len(some) == 1 or stream not in history.runs:
            names += [_called(history, id) for id in some]
        else:
            names.append(_together(history, history.runs[stream], some))
    left = len(names) - TITLES_SHOWN
    shown = names if left <= 1 else [*names[:TITLES_SHOWN], f"{left:,} more"]
    return ", ".join(shown)


def _together(history: History, run: RecordedRun, ids: Sequence[str]) -> str:
    """Return several actions of one run as one thing: `session r3 of claude-code (24 calls)`."""
    noun = "call" if run.began.detached else "action"
    count = plural(len(ids), noun)
    if run.began.thread:
        whole = f"thread {run.id} ({one_line(run.began.name, 40)})"
    elif run.began.detached:
        whole = f"session {run.id} of {one_line(run.began.name, 40)}"
    else:
        whole = f"run {run.id} ({one_line(run.began.name, 40)})"
    steps = {history.actions[id].as_tool.step for id in ids}
    step = run.steps.get(next(iter(steps))) if len(steps) == 1 else None
    if step and not step.body and len(run.steps) > 1:
        return f"prompt {step.id} of {whole} ({count})"
    return f"{whole} ({count})"


def _groups(report: RollbackReport, *, everything: bool) -> list[tuple[str, list[str]]]:
    """Return the indented lines about the targets, by what was done to them."""
    whys = {item.target: item.why for item in report.items if item.why}
    return [
        (
            _WOULD_DO.get(did, did) if report.preview else did,
            _told(report, lines, whys, everything=everything),
        )
        for did, lines in report.lists(folding=not everything)
    ]


def _told(
    report: RollbackReport, lines: Sequence[ListLine], whys: Mapping[Target, str], *, everything: bool = False
) -> list[str]:
    """Return indented lines about targets: first those with a reason, together if it is the same."""
    texts = dict(zip([line.targets for line in lines], report.texts(lines), strict=True))
    text: list[str] = []
    for why, alike in _by_why(lines, whys).items():
        names = shown(alike, lambda line: texts[line.targets], everything=everything)
        text += _explained(names, why) if why else names
    return text


def _by_why(lines: Sequence[ListLine], whys: Mapping[Target, str]) -> dict[str, list[ListLine]]:
    found: dict[str, list[ListLine]] = {}
    for line in sorted(lines, key=lambda line: not whys.get(line.targets[0])):
        found.setdefault(whys.get(line.targets[0], ""), []).append(line)
    return found


def _explained(names: Sequence[str], why: str) -> list[str]:
    """Return lines about targets with the same reason; a command for it gets a line of its own, to be copied."""
    why, by_hand, command = why.partition(BY_HAND)
    *most, last = names
    reason = folded(f"{last.strip()}: {why}", INDENT)
    return [*most, *reason, *([f"{INDENT}  by hand: {command}"] if by_hand else [])]


def _close(history: History, report: RollbackReport) -> list[ReportLine]:
    if report.preview:
        choose = f" Choose with --on-conflict {' | '.join(report.choices)}." if report.choices else ""
        return [ReportLine(line) for line in folded(f"Nothing was changed.{choose}", "")]
    verified, total = report.verified
    other = f"takeback undo {report.rollback}" if report.kind == "redo" else "takeback redo"
    on_disk = all(item.resource in _ON_DISK for item in report.items)
    lines = [f"Verified {verified:,} of {total:,}{' against the disk' if on_disk else ''}."]
    # A rollback that settled nothing is skipped: redo would take back another one in its place.
    if history.settled_by(report.rollback):
        lines = joined(lines[0], f"Changed your mind?  {other}", "  ")
    if report.kind == "undo" and (kept := _kept_by_choice(history, report)):
        lines += way("what was kept, later", f"takeback undo {kept} --on-conflict merge|overwrite", 22)
    remains = _remaining(history, report) if report.verdict is Verdict.PARTIAL else []
    return [*map(ReportLine, lines), *(ReportLine(line, err=True) for line in remains)]


def _kept_by_choice(history: History, report: RollbackReport) -> str:
    """Return the actions of which an undo has kept something because the user chose so."""
    began = history.actions[report.rollback].began
    if not isinstance(began, RollbackBegan) or began.on_conflict != "keep":
        return ""
    kept = {id for item in report.items if item.did == "kept" and not item.minor for id in item.of}
    return " ".join(fewest_ids(history, kept))


def _remaining(history: History, report: RollbackReport) -> list[str]:
    remaining = [item for item in report.items if not item.verified or item.did in ("failed", "conflict")]
    if not remaining and report.checks:
        return folded("Incomplete: all recorded changes are taken back, and a check failed.", "")
    noun = "path" if all(item.resource in ("files", "outside") for item in remaining) else "thing"
    count = plural(len(remaining), f"{noun} is", f"{noun}s are")
    is_unknown = all(item.did == "unverifiable" for item in remaining)
    ending = f"it is unknown whether {count} as before" if is_unknown else f"{count} not as before"
    lines = folded(f"Incomplete: {ending}.", "")
    remaining.sort(key=lambda item: item.listed.place.rank if item.listed else 0)
    for item in remaining[:REMAINING_SHOWN]:
        lines += folded(f"{item.said}: {item.why.partition(BY_HAND)[0] or item.did}", "  ")
    if left := len(remaining) - REMAINING_SHOWN:
        lines += [f"  and {left:,} more"] if left > 0 else []
    for id in report.of:
        if id in history.actions and in_doubt(history, history.actions[id]):
            lines += way(f"if you know whether {id} happened", way_to_settle(id), 36)
    return lines
