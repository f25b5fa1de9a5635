"""Selections of changes: the last action, an id, a run, everything after a checkpoint, one path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from heapq import merge
from itertools import islice

import msgspec

from takeback.core import ids
from takeback.core.change import Change, Entry, Target
from takeback.core.codec import one_line
from takeback.core.entities import Checkpoint, RecordedAction
from takeback.core.history import History
from takeback.core.postings import Flag
from takeback.errors import ConflictError, UsageError

Filter = Callable[[Target], bool]

TRIED_FIRST = 16
"""So many of the latest actions are tried before the records of each wanted target are looked up."""


class NarrowFilter(ABC):
    """A filter that knows which targets it wants, so that nothing else has to be looked at."""

    @abstractmethod
    def __call__(self, target: Target) -> bool: ...

    @abstractmethod
    def targets(self, history: History) -> Iterator[Target]:
        """Yield the targets that it wants, of all that were ever changed."""


class Selection(msgspec.Struct, frozen=True):
    """Changes to take back, and the actions they belong to."""

    actions: tuple[str, ...]
    entries: tuple[Entry, ...]
    bare: tuple[tuple[str, Target], ...] = ()
    """Targets that a selected rollback settled without changing them: a redo only has to reopen them."""

    def __bool__(self) -> bool:
        return bool(self.entries or self.bare)


def any_target(_: Target) -> bool:
    return True


def last_action(history: History, wanted: Filter = any_target, passing: Collection[str] = ()) -> Selection:
    """Select the most recent tool action, not in `passing`, that has wanted changes not yet taken back.

    An action is skipped if an undo could not verify any of its remaining changes: it would be selected forever.
    """
    undoable = history.flagged(Flag.UNDOABLE)
    latest = islice(undoable, TRIED_FIRST) if isinstance(wanted, NarrowFilter) else undoable
    found = next((a for a in latest if a.id not in passing and _has_untried(history, a, wanted)), None)
    if found is None and isinstance(wanted, NarrowFilter):
        found = _last_of(history, wanted, passing)
    return of_actions(history, [found.id], wanted) if found else Selection((), ())


def _has_untried(history: History, action: RecordedAction, wanted: Filter) -> bool:
    return any(wanted(entry.target) for entry in history.untried(action.id))


def _last_of(history: History, wanted: NarrowFilter, passing: Collection[str]) -> RecordedAction | None:
    """Return the action that `last_action` is to select, found by the records of the wanted targets alone."""
    timelines = (history.latest_entries(target) for target in wanted.targets(history))
    found: RecordedAction | None = None
    tried = set(passing)
    for entry in merge(*timelines, key=lambda entry: entry.seq, reverse=True):
        if found and found.seq > entry.seq:
            break  # an action begins before it changes anything: those that are still to come began earlier
        for id in {entry.action, *entry.change.shared_with} - tried:
            tried.add(id)
            action = history.actions.get(id)
            if action is None or not action.is_tool or action.is_own or (found and action.seq < found.seq):
                continue
            if _has_untried(history, action, wanted):
                found = action
    return found


def last_rollback(history: History) -> Selection:
    """Select the most recent undo or restore that is not yet redone."""
    last = next(history.flagged(Flag.REDOABLE), None)
    return of_actions(history, [last.id]) if last else Selection((), ())


def of_ids(
    history: History,
    wanted_ids: Iterable[str],
    wanted: Filter = any_target,
    agent: str = "",
    *,
    kept: bool = False,
) -> Selection:
    """Select what these actions, steps and runs did, or what one agent did in them.

    With `kept`, select also what an undo left in place by the user's choice.
    """
    actions: list[str] = []
    for id in wanted_ids:
        actions.extend(actions_of(history, id))
    actions = inside(history, actions)
    if agent:
        actions = [id for id in actions if is_by(history.actions[id], agent)]
    return of_actions(history, actions, wanted, kept=kept)


def inside(history: History, actions: Iterable[str]) -> list[str]:
    """Return these actions with all actions inside them, in whichever run."""
    chosen = dict.fromkeys(actions)
    found: list[str] = []
    outer = list(chosen)
    while outer:  # an action is inside one other at most, so none is found twice
        outer = [id for each in outer for id in history.inside(each) if id not in chosen]
        found += outer
    return [*chosen, *sorted(found, key=ids.seq_of)]


def outermost(history: History, action: RecordedAction) -> RecordedAction:
    """Return the outermost action that this one is inside of; itself if there is none."""
    while (parent := action.as_tool.parent) in history.actions:
        action = history.actions[parent]
    return action


def net(history: History, actions: Iterable[str]) -> list[Change]:
    """Return the net changes of these actions, without what came and went in between."""
    made: dict[Target, Change] = {}
    entries = {(entry.seq, entry.target): entry for id in actions for entry in history.entries(id)}
    for _, entry in sorted(entries.items()):
        first = made.get(entry.target)
        joined = Change(entry.target, first.before, entry.change.after) if first else entry.change
        made[entry.target] = joined
        if first and joined.before == joined.after:
            del made[entry.target]
    return list(made.values())


def of_agent(history: History, agent: str, wanted: Filter = any_target) -> Selection:
    """Select what an agent did in the last run in which some of its changes still stand."""
    mine = [actor for actor in history.actors if is_name_of(agent, actor)]
    if not mine:
        known = sorted(history.actors)
        raise UsageError(
            f"no agent {agent!r} has done anything here; nothing was taken back",
            hint=f"these have: {', '.join(known[:8])}" if known else "`takeback log` lists what was done",
        )
    for action in history.by(mine):
        if _has_untried(history, action, wanted):
            run = history.runs.get(action.stream)
            return of_ids(history, [run.id] if run else [action.id], wanted, agent)
    return Selection((), ())


def is_by(action: RecordedAction, agent: str) -> bool:
    """Return whether the action is by this agent: by the whole name, the name in the log, or a part of it.

    `claude-code:Explore:a1` is in the log as `claude-code:Explore`, and `Explore` is enough.
    """
    return is_name_of(agent, action.actor)


def is_name_of(agent: str, actor: str) -> bool:
    """Return whether an agent, as a person names it, is this actor."""
    names = actor.split(":")
    return agent in (actor, ":".join(names[:2]), *names)


def after(history: History, position: int, wanted: Filter = any_target) -> Selection:
    """Select what recorded actions did after a position in the journal."""
    began = [action.id for action in history.since(position) if action.is_tool]
    changed = [*history.changed_since(position), *began]
    later = [id for id in sorted(set(changed), key=ids.seq_of) if not history.actions[id].is_own]
    chosen = of_actions(history, later, wanted)
    entries = tuple(entry for entry in chosen.entries if entry.seq > position)
    return msgspec.structs.replace(chosen, entries=entries)


def made(history: History, action: RecordedAction) -> tuple[Change, ...]:
    """Return what an action changed, including all actions inside it."""
    every = inside(history, [action.id])
    return tuple(net(history, every)) if len(every) > 1 else action.changes


def of_run(history: History, run: str, position: int) -> Selection:
    """Select what a run did after a position in the journal."""
    actions = [history.actions[id] for id in inside(history, history.runs[run].actions)]
    later = [a for a in actions if a.is_tool and (a.seq > position or any(m.seq > position for m in a.made))]
    chosen = of_actions(history, [action.id for action in later])
    entries = tuple(entry for entry in chosen.entries if entry.seq > position)
    return msgspec.structs.replace(chosen, entries=entries)


def of_actions(
    history: History, actions: Iterable[str], wanted: Filter = any_target, *, kept: bool = False
) -> Selection:
    """Select the live changes of these actions, each change once, in order; with `kept`, also those kept."""
    chosen = tuple(dict.fromkeys(actions))
    entries: dict[tuple[int, Target], Entry] = {}
    bare: list[tuple[str, Target]] = []
    for id in chosen:
        standing = [*history.live(id), *(history.kept(id) if kept else ())]
        live = [entry for entry in standing if wanted(entry.target)]
        entries.update({(entry.seq, entry.target): entry for entry in live})
        if history.actions[id].is_rollback:
            changed = {entry.target for entry in live}
            bare.extend((id, t) for t in history.settled_by(id) if wanted(t) and t not in changed)
    ordered = sorted(entries.values(), key=lambda entry: entry.seq)
    return Selection(chosen, tuple(ordered), tuple(bare))


def refuse_compacted(what: RecordedAction | Checkpoint) -> None:
    """Raise ConflictError if what something changed, or saw, is no longer in the history."""
    if what.compacted_us:
        name = f" ({one_line(what.name, 60)})" if isinstance(what, RecordedAction) and what.name else ""
        raise ConflictError(
            f"{what.id}{name} was compacted: {why_compacted(what.compacted_us)}, so nothing was changed",
            hint="keep-journal and keep-days in takeback.toml say how long details are kept",
        )


def why_compacted(at_us: int) -> str:
    """Return why details are gone, as text for people."""
    day = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"its details were removed from the history by gc on {day:%Y-%m-%d}"


def refuse_compacted_among(history: History, actions: Iterable[str]) -> None:
    """Raise ConflictError if one of these actions cannot be taken back because its changes are no longer known."""
    for id in actions:
        if not history.is_undone(id):
            refuse_compacted(history.actions[id])


def actions_of(history: History, id: str) -> list[str]:
    """Return the actions that the id of an action, a step or a run stands for."""
    kind, _ = ids.parse(id)
    if id in history.actions:
        action: RecordedAction = history.actions[id]
        if action.kind == "outside":
            raise UsageError(
                f"{id} is a change outside any recorded action, so it counts as yours and stays",
                hint="to go back to a checkpoint including your own edits use `takeback restore CHECKPOINT`",
            )
        return [id]
    if id in history.runs:
        return [a for a in history.runs[id].actions if history.actions[a].is_tool]
    if kind == ids.STEP:
        if history.run_of_step(id):
            return history.actions_in(id)
    if id in history.intents.every:
        raise UsageError(
            f"{id} is an intent, which is taken back with its run",
            hint=f"`takeback undo {history.intents.every[id].run}` cancels it with all that the run did",
        )
    if id in history.checkpoints:
        raise UsageError(
            f"{id} is a checkpoint, not an action",
            hint=f"`takeback undo --to {id}` takes back what was done after it",
        )
    raise UsageError(f"there is no {ids.KINDS[kind]} {id}", hint="`takeback log` lists what there is")
