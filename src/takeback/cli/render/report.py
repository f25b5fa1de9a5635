"""How a rollback's report looks on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from takeback.cli.context import CommandContext
from takeback.cli.render.runs import way_to_settle
from takeback.cli.text import ago, paint, plural, shortened
from takeback.core import ids
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import Did
from takeback.core.history import History
from takeback.core.rollback import Verdict
from takeback.core.selection import inside, outermost
from takeback.engine.rollback.report import DOING, TITLES, WOULD_TITLES, RollbackReport, hint_of
from takeback.engine.runs.recorded_calls import in_doubt
from takeback.errors import ConflictError, RollbackIncomplete
from takeback.workspace.workspace import Workspace

if TYPE_CHECKING:
    from takeback.agents.fork_conversation import Fork

NAMES_SHOWN = 8
UNKNOWN_SHOWN = 3
BY_HAND = "; by hand: "
HIDDEN = "whether it changed anything is not known, for its database cannot be reached"
_NOTHING = {
    "undo": "Nothing to take back.",
    "redo": "Nothing to bring back.",
    "restore": "Nothing to restore: the workspace is as it was at that checkpoint.",
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


def answer(
    session: CommandContext,
    workspace: Workspace,
    do: Callable[[], RollbackReport],
    *,
    last: bool = False,
    forking: bool = False,
) -> int:
    """Do a rollback, print what came of it, and return the exit code.

    `last`: nobody said what is to be undone. `forking`: conversations are to go on from before it.
    """
    try:
        report = do()
    except ConflictError as error:
        return _print_stopped(session, error, workspace)
    except RollbackIncomplete as error:
        report = error.report
    return print_report(session, workspace.history, report, last=last, forking=forking)


def print_report(
    session: CommandContext,
    history: History,
    report: RollbackReport,
    *,
    last: bool = False,
    forking: bool = False,
) -> int:
    """Print a report and return the exit code that goes with it."""
    run = _only_a_part(history, report) if last else None
    outer = _outer(history, report) if last else None
    talks = _conversations(history, report)
    if session.json:
        more: dict[str, object] = {"part_of": run.id} if run else {}
        more |= ({"inside": outer.id} if outer else {}) | _talks_data(talks, forking=forking)
        session.data(report.data() | more | {"stays": _staying(history, report)})
        return _code(report)
    if report.finished_earlier:
        session.line(
            f"An earlier {report.kind} had been cut short. It is finished now; nothing else was done."
        )
    for id in report.passed:
        session.line(f"Passed over {_called(history, id)}: {HIDDEN}.")
    if report.verdict in (Verdict.NOTHING, Verdict.UNKNOWN) and not report.items:
        session.line(_NOTHING_ELSE if report.unsettled else _NOTHING[report.kind])
        for id in report.unsettled:
            session.line(f"It is unknown whether {_called(history, id)} happened.  {way_to_settle(id)}")
        _print_elsewhere(session, history, report)
        return 0
    titles = WOULD_TITLES if report.preview else TITLES
    called = ", ".join(_called(history, id) for id in _concerned(history, report))
    nothing = "nothing of " if report.grouped() and not report.achieved else ""
    what = f"what {called} took back" if report.kind == "redo" else called
    if report.kind == "redo" and not report.grouped() and _all_kept(history, report):
        session.line(f"Brought back nothing: {called} had kept everything. It can be taken back again.")
        return _code(report)
    session.line(f"{titles[report.kind]} {nothing}{what}")
    _print_items(session, history, report)
    if run:
        _print_part(session, history, report, run)
    if outer and not (run and outer.stream == run.id):
        name = shortened(outer.name, 40)
        session.line(f"It happened inside of {outer.id} ({name}). All of that:  takeback undo {outer.id}")
    _print_close(session, history, report)
    for talk in (talk for talk in talks if talk.exact or forking):
        since = "from before it" if talk.exact else "with all that was said"
        new = f"claude --resume {talk.make()}" if forking else str(talk)
        session.line(f"The conversation {since}, in a copy:  {new}")
    return _code(report)


def _talks_data(talks: list[Fork], *, forking: bool) -> dict[str, object]:
    if not talks:
        return {}
    made = [talk.make() if forking else None for talk in talks]
    return {"conversations": [t.data() | {"forked": new} for t, new in zip(talks, made, strict=True)]}


def _print_items(session: CommandContext, history: History, report: RollbackReport) -> None:
    """What became of each target, and what no undo reaches."""
    if not report.grouped():
        times = [
            i.target.said for i in report.items if i.did == "restored" and i.resource in ("files", "outside")
        ]
        shown = ", ".join(sorted(times)[:NAMES_SHOWN]) + (" …" if len(times) > NAMES_SHOWN else "")
        again = "only the time would be put back" if report.preview else "only the time was put back"
        session.line(f"  {again}: {shown}" if times else "  everything was as before already")
    for did, lines in _groups(report):
        for head, line in zip([did] + [""] * (len(lines) - 1), lines, strict=True):
            session.line(f"  {paint(head.ljust(10), bold=True)} {line}")
    _print_elsewhere(session, history, report)


def _print_elsewhere(session: CommandContext, history: History, report: RollbackReport) -> None:
    """What no undo reaches, and what nobody knows of."""
    for name in _staying(history, report):
        session.line(f"  {paint('stays'.ljust(10), bold=True)} what {name} did outside the workspace")
    _print_unknown(session, history, report)


def _print_unknown(session: CommandContext, history: History, report: RollbackReport) -> None:
    """Who may have done more than what can be found by looking."""
    if not report.unknown:
        return
    names = [f"{shortened(history.actions[id].name, 60)} ({id})" for id in report.unknown[:UNKNOWN_SHOWN]]
    left = len(report.unknown) - len(names)
    every = ", ".join([*names, *([f"{left:,} more"] if left else [])])
    session.line(f"  {paint('unknown'.ljust(10), bold=True)} whether {every} did anything elsewhere")


def _print_part(session: CommandContext, history: History, report: RollbackReport, run: RecordedRun) -> None:
    """That there is more of the same run, and how all of it is taken back."""
    part = "would be" if report.preview else "was"
    name = shortened(run.began.name, 40)
    session.line(f"That {part} one action of {run.id} ({name}). All of it:  takeback undo {run.id}")
    if step := _prompt_of(history, report):
        session.line(f"All that its prompt did ({shortened(step.name, 40)}):  takeback undo {step.id}")


def _all_kept(history: History, report: RollbackReport) -> bool:
    """Whether what a redo brings back had left everything as it was."""
    rollbacks = [history.actions[id] for id in report.of if id in history.actions]
    return all(item.did is Did.KEPT for rollback in rollbacks for item in rollback.items)


def _conversations(history: History, report: RollbackReport) -> list[Fork]:
    """How the agents' conversations can go on from before what was taken back."""
    from takeback.agents.fork_conversation import forks

    if report.kind != "undo" or report.preview or not report.achieved:
        return []
    return forks(history, report.of)


def _only_a_part(history: History, report: RollbackReport) -> RecordedRun | None:
    """The run of which an action was taken back that did more than that, and did not mean only that."""
    action = history.actions.get(report.of[0]) if len(report.of) == 1 else None
    run = history.runs.get(action.stream) if action and report.kind == "undo" else None
    others = [id for id in run.actions if id not in report.of] if run else []
    return run if any(history.live(id) for id in others) else None


def _outer(history: History, report: RollbackReport) -> RecordedAction | None:
    """The command inside of which an action was done that was taken back, where more of it still stands."""
    action = history.actions.get(report.of[0]) if len(report.of) == 1 else None
    outer = outermost(history, action) if action and report.kind == "undo" else None
    if outer is None or outer is action:
        return None
    return outer if any(history.live(id) for id in inside(history, [outer.id])) else None


def _concerned(history: History, report: RollbackReport) -> list[str]:
    """Those of which something is taken back now: of a run, some may have been taken back before."""
    done = history.actions.get(report.rollback)
    if done is not None:
        settled = {id for item in done.items for id in item.settles}
        now = [id for id in report.of if id in settled]
    else:
        now = [id for id in report.of if id in history.actions and history.live(id)]
    return now or list(report.of)


def _prompt_of(history: History, report: RollbackReport) -> RecordedStep | None:
    """The prompt for which the one action of a report was done."""
    action = history.actions[report.of[0]]
    run = history.runs.get(action.stream)
    step = run.steps.get(getattr(action.began, "step", "")) if run else None
    return step if step and not step.body else None


def _staying(history: History, report: RollbackReport) -> list[str]:
    """Commands among what is taken back, or passed over, that are known to have done more than what can be."""
    if report.kind != "undo":
        return []
    ids = [
        id
        for named in report.of
        for id in (history.runs[named].actions if named in history.runs else [named])
    ]
    taken = [history.actions[id] for id in ids if id in history.actions]
    stays = [action.id for action in taken if action.leaves_something]
    return [shortened(history.actions[id].name, 60) for id in (*stays, *report.beyond)]


def _print_stopped(session: CommandContext, error: ConflictError, workspace: Workspace) -> int:
    """Print why nothing was taken back, and what can be done about it."""
    if error.report is None:
        raise error
    if session.json:
        session.data(error.report.data())
    else:
        for line in [error.message, *_choices(error.report, workspace)]:
            click.echo(line, err=True)
    return error.exit_code


def _choices(report: RollbackReport, workspace: Workspace) -> list[str]:
    history, lines = workspace.history, []
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
    paths = click.get_current_context().params.get("paths", ())
    words += [word for path in paths for word in ("--path", path)]
    command = shlex.join(words)
    others = _others(history, report)
    if others and _would_go(workspace, [*report.of, *others], paths):
        both = shlex.join([*words[:2], *report.of, *others, *words[2 + len(report.of) :]])
        lines.append(f"  {'take back what the others did too'.ljust(37)}{both}")
    whose = "theirs" if others else "yours"
    offered = [(_CHOICES[c].format(whose=whose, do=DOING[report.kind]), c) for c in report.choices]
    return lines + [f"  {does.ljust(37)}{command} --on-conflict {choice}" for does, choice in offered]


def _would_go(workspace: Workspace, ids: list[str], paths: tuple[str, ...]) -> bool:
    """Whether an undo of these would not stop."""
    try:
        return workspace.undo(*ids, paths=paths, preview=True).verdict is not Verdict.CONFLICT
    except RollbackIncomplete:
        return True


def _others(history: History, report: RollbackReport) -> list[str]:
    """The actions that stand in the way of an undo; nothing where somebody else does too."""
    if report.kind != "undo":
        return []
    found: dict[str, None] = {}
    for item in report.items:
        if item.did == "conflict":
            entries = [entry for id in report.of for entry in history.live(id) if entry.target == item.target]
            makers = [id for entry in entries for id in (entry.action, *entry.change.shared_with)]
            others = [id for id in (*makers, *item.blockers) if id not in report.of]
            if not others or not all(history.actions[id].is_tool for id in others):
                return []
            found |= dict.fromkeys(others)
    return sorted(found, key=ids.seq_of)


def _called(history: History, id: str) -> str:
    action = history.actions.get(id)
    if action is None:
        return id
    if action.kind == "outside":
        return f"a change outside any action ({id}, {ago(action.began_us)})"
    return f"{shortened(action.name, 60)} ({id}, {ago(action.began_us)})"


def _groups(report: RollbackReport) -> list[tuple[str, list[str]]]:
    groups = []
    whys = {item.target: item.why for item in report.items}
    said = report.said
    for did, targets in report.grouped():
        told = [target for target in targets if whys[target]]
        plain = [t for t in targets if t not in told]
        lines = [line for target in told for line in _told(said[target], whys[target])]
        if plain:
            names = ", ".join(said[target] for target in plain[:NAMES_SHOWN])
            more = f" and {len(plain) - NAMES_SHOWN:,} more" if len(plain) > NAMES_SHOWN else ""
            lines.append(names + more)
        groups.append((_WOULD_DO.get(did, did) if report.preview else did, lines))
    return groups


def _told(name: str, why: str) -> list[str]:
    """What is to be said of one target; a command for it has a line of its own, to be copied."""
    why, by_hand, command = why.partition(BY_HAND)
    return [f"{name}: {why}", *([f"  by hand: {command}"] if by_hand else [])]


def _print_close(session: CommandContext, history: History, report: RollbackReport) -> None:
    if report.preview:
        choose = f" Choose with --on-conflict {' | '.join(report.choices)}." if report.choices else ""
        return session.line(f"Nothing was changed.{choose}")
    total, verified = len(report.items), sum(item.verified for item in report.items)
    other = f"takeback undo {report.rollback}" if report.kind == "redo" else "takeback redo"
    # One that settled nothing is passed over: another one would be taken back in its place.
    back = f"  Changed your mind?  {other}" if history.settled_by(report.rollback) else ""
    session.line(f"Verified {verified:,} of {total:,} against the disk.{back}")
    if report.verdict is Verdict.PARTIAL:
        remaining = [item for item in report.items if not item.verified or item.did in ("failed", "conflict")]
        noun = "path" if all(item.resource in ("files", "outside") for item in remaining) else "thing"
        count = plural(len(remaining), f"{noun} is", f"{noun}s are")
        if all(item.did == "unverifiable" for item in remaining):
            click.echo(f"Incomplete: it is unknown whether {count} as before.", err=True)
        else:
            click.echo(f"Incomplete: {count} not as before.", err=True)
        for item in remaining[:NAMES_SHOWN]:
            click.echo(f"  {item.target.said}: {item.why.partition(BY_HAND)[0] or item.did}", err=True)
        for id in report.of:
            if id in history.actions and in_doubt(history, history.actions[id]):
                click.echo(f"  if you know whether {id} happened   {way_to_settle(id)}", err=True)


def _code(report: RollbackReport) -> int:
    if report.verdict is Verdict.PARTIAL:
        return RollbackIncomplete.exit_code
    return ConflictError.exit_code if report.verdict is Verdict.CONFLICT else 0
