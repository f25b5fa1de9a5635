"""Which changes a person means: the last action, an id, a run, everything after a checkpoint, one path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from takeback.core import ids
from takeback.core.change import Change, Entry, Target
from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.errors import UsageError

Filter = Callable[[Target], bool]


class Selection(msgspec.Struct, frozen=True):
    """Changes to take back, and the actions they belong to."""

    actions: tuple[str, ...]
    entries: tuple[Entry, ...]
    bare: tuple[tuple[str, Target], ...] = ()
    """Targets that a selected rollback dealt with without changing them: redo has to bring back only its word."""

    def __bool__(self) -> bool:
        return bool(self.entries or self.bare)


def any_target(_: Target) -> bool:
    return True


def last_action(history: History, wanted: Filter = any_target, passing: Collection[str] = ()) -> Selection:
    """The most recent tool action that changed something wanted and is not yet taken back; not one of `passing`.

    One of which an undo has reported all that is left as unknown is not meant: it would be reported for ever.
    """
    for action in reversed(history.actions.values()):
        if not action.is_tool or action.is_own or action.id in passing:
            continue
        if any(wanted(entry.target) for entry in history.untried(action.id)):
            return of_actions(history, [action.id], wanted)
    return Selection((), ())


def last_rollback(history: History) -> Selection:
    """The most recent undo or restore that is not yet redone."""
    for action in reversed(history.actions.values()):
        if action.kind in ("undo", "restore") and history.settled_by(action.id):
            return of_actions(history, [action.id])
    return Selection((), ())


def of_ids(
    history: History, wanted_ids: Iterable[str], wanted: Filter = any_target, agent: str = ""
) -> Selection:
    """What these actions, steps and runs did; or what one agent did in them."""
    actions: list[str] = []
    for id in wanted_ids:
        actions.extend(actions_of(history, id))
    actions = inside(history, actions)
    if agent:
        actions = [id for id in actions if is_by(history.actions[id], agent)]
    return of_actions(history, actions, wanted)


def inside(history: History, actions: Iterable[str]) -> list[str]:
    """These actions with all that happened inside of them, in whichever run."""
    chosen = dict.fromkeys(actions)
    for action in history.actions.values():  # what is inside of another one began after it
        if action.as_tool.parent in chosen:
            chosen[action.id] = None
    return list(chosen)


def outermost(history: History, action: RecordedAction) -> RecordedAction:
    """The action inside of which all of this happened; itself where there is none."""
    while (parent := action.as_tool.parent) in history.actions:
        action = history.actions[parent]
    return action


def net(history: History, actions: Iterable[str]) -> list[Change]:
    """What these actions changed together, from before them to after them; not what came and went in between."""
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
    """What an agent did in the last run in which something of it still stands."""
    every = [action for action in history.actions.values() if action.is_tool and not action.is_own]
    if not any(is_by(action, agent) for action in every):
        known = sorted({action.actor for action in every if action.actor})
        raise UsageError(
            f"no agent {agent!r} has done anything here; nothing was taken back",
            hint=f"these have: {', '.join(known[:8])}" if known else "`takeback log` lists what was done",
        )
    for action in reversed(every):
        if is_by(action, agent) and any(wanted(entry.target) for entry in history.untried(action.id)):
            run = history.runs.get(action.stream)
            return of_ids(history, [run.id] if run else [action.id], wanted, agent)
    return Selection((), ())


def is_by(action: RecordedAction, agent: str) -> bool:
    """Whether it is this agent's: by its whole name, as the log has it, or by a part.

    `claude-code:Explore:a1` is in the log as `claude-code:Explore`, and `Explore` is enough.
    """
    names = action.actor.split(":")
    return agent in (action.actor, ":".join(names[:2]), *names)


def after(history: History, checkpoint: str, wanted: Filter = any_target) -> Selection:
    """What recorded actions did after a checkpoint."""
    if checkpoint not in history.checkpoints:
        raise UsageError(f"there is no checkpoint {checkpoint}", hint="`takeback log` lists them")
    position = ids.seq_of(checkpoint)
    later = [
        a.id
        for a in history.actions.values()
        if a.is_tool and not a.is_own and (a.seq > position or any(m.seq > position for m in a.made))
    ]
    chosen = of_actions(history, later, wanted)
    entries = tuple(entry for entry in chosen.entries if entry.seq > position)
    return msgspec.structs.replace(chosen, entries=entries)


def made(history: History, action: RecordedAction) -> tuple[Change, ...]:
    """Return what an action changed, with all that happened inside of it."""
    every = inside(history, [action.id])
    return tuple(net(history, every)) if len(every) > 1 else action.changes


def of_run(history: History, run: str, position: int) -> Selection:
    """What a run did after a position of the journal, and the actions that began after it."""
    actions = [history.actions[id] for id in inside(history, history.runs[run].actions)]
    later = [a for a in actions if a.is_tool and (a.seq > position or any(m.seq > position for m in a.made))]
    chosen = of_actions(history, [action.id for action in later])
    entries = tuple(entry for entry in chosen.entries if entry.seq > position)
    return msgspec.structs.replace(chosen, entries=entries)


def of_actions(history: History, actions: Iterable[str], wanted: Filter = any_target) -> Selection:
    """The live changes of these actions, each change once, in order."""
    chosen = tuple(dict.fromkeys(actions))
    entries: dict[tuple[int, Target], Entry] = {}
    bare: list[tuple[str, Target]] = []
    for id in chosen:
        live = [entry for entry in history.live(id) if wanted(entry.target)]
        entries.update({(entry.seq, entry.target): entry for entry in live})
        if history.actions[id].is_rollback:
            changed = {entry.target for entry in live}
            bare.extend((id, t) for t in history.settled_by(id) if wanted(t) and t not in changed)
    ordered = sorted(entries.values(), key=lambda entry: entry.seq)
    return Selection(chosen, tuple(ordered), tuple(bare))


def actions_of(history: History, id: str) -> list[str]:
    """The actions that an action's, a step's or a run's id stands for."""
    kind, _ = ids.parse(id)
    if id in history.actions:
        action: RecordedAction = history.actions[id]
        if action.kind == "outside":
            raise UsageError(
                f"{id} was done outside any recorded action, so it is yours and stays",
                hint="to go back to a checkpoint including your own edits use `takeback restore CHECKPOINT`",
            )
        return [id]
    if id in history.runs:
        return [a for a in history.runs[id].actions if history.actions[a].is_tool]
    if kind == ids.STEP:
        for run in history.runs.values():
            if id in run.steps:
                return [a for a in run.actions if history.actions[a].as_tool.step == id]
    if id in history.intents.every:
        raise UsageError(
            f"{id} is an intent, which goes with its run",
            hint=f"`takeback undo {history.intents.every[id].run}` cancels it with all that the run did",
        )
    if id in history.checkpoints:
        raise UsageError(
            f"{id} is a checkpoint, not something that was done",
            hint=f"`takeback undo --to {id}` takes back what was done after it",
        )
    raise UsageError(f"there is no {ids.KINDS[kind]} {id}", hint="`takeback log` lists what there is")
