"""`takeback log`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.life import show_life
from takeback.cli.options import agents, ids_of, times
from takeback.cli.render.day import changes_named, day_lines
from takeback.cli.render.history import action_data, checkpoint_data, run_data
from takeback.cli.render.worktrees import worktree_data, worktree_lines
from takeback.cli.text import iso, plural, width
from takeback.core.change import Target
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.ids import RUN, STEP, parse
from takeback.core.lifecycle import Life
from takeback.core.listing import ListPlace
from takeback.core.postings import Topic
from takeback.errors import UsageError
from takeback.workspace.describe import body_of, waits_for_a_decision
from takeback.workspace.describe.day import (
    DayNode,
    DecisionMade,
    LogFilter,
    answer_to,
    changed_names,
    day,
    flat,
    leaf,
    path_filter,
    things,
    time_named,
)
from takeback.workspace.workspace import Workspace

COUNTED = (Topic.ACTIONS, Topic.CHECKPOINTS, Topic.LISTED_RUNS)
"""What `total` counts."""
AT_ONCE = 256
"""So many entries are turned into data together, so that the changes of a long history are not all in memory."""


@click.command("log", cls=TakebackCommand)
@click.option(
    "--flat", "is_flat", is_flag=True, help="List every action on a line of its own, without a tree"
)
@click.option("--changed", is_flag=True, help="Show only what changed something")
@click.option(
    "--agent", metavar="NAME", default="", shell_complete=agents, help="Show only what this agent did"
)
@click.option(
    "--path",
    "paths",
    metavar="PATH",
    multiple=True,
    type=click.Path(),
    help="List the versions of this file, or of all in this folder, with who made each; may be repeated",
)
@click.option(
    "--since",
    metavar="TIME",
    default="",
    shell_complete=times,
    help="Begin at this time: 2h, 14:02, yesterday, 2026-11-17",
)
@click.option("--until", metavar="TIME", default="", shell_complete=times, help="End at this time")
@click.option(
    "--run", metavar="ID", default="", shell_complete=ids_of("runs"), help="Show only this run or step"
)
@click.option("--grep", metavar="TEXT", default="", help="Show only what contains this text, in either case")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    default=20,
    show_default=True,
    help="The number of entries; 0 for all",
)
@click.pass_obj
def command(
    session: CommandContext,
    is_flat: bool,
    changed: bool,
    agent: str,
    paths: tuple[str, ...],
    since: str,
    until: str,
    run: str,
    grep: str,
    limit: int,
) -> None:
    """Show what happened as a tree, newest at the bottom

    An agent's session contains its prompts, and a prompt its calls: what each did, what it changed by name, and what
    became of it. What you did yourself stands between them. Calls that changed nothing are counted on one line.

    \b
    Today as a whole          takeback log --since today -n 0
    One agent, one file       takeback log --agent A --path F
    """
    with session.workspace() as workspace:
        history = workspace.history
        wanted = LogFilter(
            agent=agent,
            run=_run(history, run),
            changed=changed,
            grep=grep,
            since_us=time_named(since),
            until_us=time_named(until),
        )
        if paths:
            return _path_view(session, workspace, wanted, paths, limit, is_flat=is_flat)
        if session.json:
            return session.data(
                _as_data(session, workspace, wanted, limit) | {"worktrees": worktree_data(workspace.root)}
            )
        _show(session, workspace, wanted, limit, is_flat=is_flat)
        for line in worktree_lines(workspace.root):
            session.line(line)


def _path_view(
    session: CommandContext,
    workspace: Workspace,
    wanted: LogFilter,
    paths: tuple[str, ...],
    limit: int,
    *,
    is_flat: bool,
) -> None:
    """Show the life of these paths; with other filters, the calls that changed them."""
    if wanted == LogFilter() and not is_flat:
        return show_life(session, workspace, paths, limit)
    history = workspace.history
    of_paths = msgspec.structs.replace(wanted, targets=path_filter(workspace.root, history, paths))
    _show(session, workspace, of_paths, limit, is_flat=is_flat)


def _show(
    session: CommandContext, workspace: Workspace, wanted: LogFilter, limit: int, *, is_flat: bool
) -> None:
    history = workspace.history
    if session.json:
        return session.data(_as_data(session, workspace, wanted, limit))
    picture = (flat if is_flat else day)(history, wanted, limit, session.progress)
    session.progress.done()
    if not picture.nodes:
        is_filtered = wanted != LogFilter()
        return session.line("Nothing matches." if is_filtered else "Nothing has happened yet.")
    if picture.more:
        session.line("… there is more before this; `takeback log -n 0` shows all")
    places = workspace.places(changes_named(picture.nodes))
    for line in day_lines(picture.nodes, places, width=width(), now_us=int(time.time() * 1e6)):
        session.line(line)
    if standing := sum(waits_for_a_decision(history, run) for run in history.waiting_runs()):
        session.line(
            f"{plural(standing, 'run waits', 'runs wait')} for you; `takeback status` shows how to continue"
        )
    if asked := sum(one.life is Life.OPEN for one in history.unused_approvals()):
        session.line(
            f"{plural(asked, 'request waits', 'requests wait')} for your approval: takeback approvals"
        )


def _run(history: History, id: str) -> str:
    """Return the id of a run or step that exists, or nothing."""
    if not id:
        return ""
    kind, _ = parse(id)
    if id not in history.runs and not history.run_of_step(id):
        is_other = kind not in (RUN, STEP)
        raise UsageError(
            f"{id} is not a run or step" if is_other else f"there is no run or step {id}",
            hint="`takeback log` lists them",
        )
    return id


# For machines


def _as_data(session: CommandContext, workspace: Workspace, wanted: LogFilter, limit: int) -> dict[str, Any]:
    """Return the latest entries, newest first: every action is one. `total` counts what is recorded, unfiltered."""
    history = workspace.history
    found = things(history, wanted, session.progress)
    latest = islice(found, limit or None)
    entries: list[dict[str, Any]] = []
    while some := list(islice(latest, AT_ONCE)):
        nodes = {thing.id: leaf(history, thing) for thing in some if isinstance(thing, RecordedAction)}
        places = workspace.places(changes_named(list(nodes.values())))
        entries += [_data(history, thing, nodes.get(thing.id), places) for thing in some]
    total = sum(history.count(kind) for kind in COUNTED)
    more = next(found, None) is not None
    session.progress.done()
    return {"entries": entries, "total": total, "more": more}


def _data(
    history: History,
    thing: RecordedAction | Checkpoint | RecordedRun | DecisionMade,
    node: DayNode | None,
    places: Mapping[Target, ListPlace],
) -> dict[str, Any]:
    if isinstance(thing, RecordedRun):
        return run_data(thing)
    if isinstance(thing, DecisionMade):
        return {
            "id": thing.id,
            "kind": "decision",
            "name": thing.line,
            "actor": thing.first.event.actor or "you",
            "at": iso(thing.first.at_us),
            "intents": thing.intents,
        }
    if isinstance(thing, Checkpoint):
        return checkpoint_data(thing)
    node = node or leaf(history, thing)
    return action_data(history, thing) | {
        "body_of": body_of(history, thing) or None,
        "what": node.what,
        "who": node.who,
        "notes": [note.text for note in node.notes],
        "names": changed_names(node.changes, places),
        "asked": answer_to(history, thing) or None,
        "beside_session": thing.beside,
    }
