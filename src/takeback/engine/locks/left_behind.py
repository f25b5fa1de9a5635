"""What a run left behind whose process died while it held locks. Until it is settled, its locks block others."""

from __future__ import annotations

import msgspec

from takeback.core.entities import RecordedRun
from takeback.core.history import History
from takeback.core.leases import Lease, overlap
from takeback.core.lifecycle import Life
from takeback.engine.runs.recorded_calls import is_taken_back
from takeback.system import processes

SHOWN = 3
UNFINISHED = (Life.OPEN, Life.INTERRUPTED, Life.HANDED_OVER)


class Left(msgspec.Struct, frozen=True):
    """What is left of a run whose lock expired and was taken by another."""

    run: str
    name: str
    """What the run had locked."""
    who: str
    targets: tuple[str, ...]
    """Its changes that still stand, those under the lock first."""
    can_go_on: bool
    """Whether the run can be continued."""
    perhaps: tuple[str, ...] = ()
    """Changes elsewhere that may be its own or someone else's."""

    def __str__(self) -> str:
        more = f" and {len(self.targets) - SHOWN} more" if len(self.targets) > SHOWN else ""
        stands = (
            f"and left changes to {', '.join(self.targets[:SHOWN])}{more}"
            if self.targets
            else "and changed nothing there"
        )
        if self.perhaps:
            stands += f", perhaps also to {', '.join(self.perhaps[:SHOWN])}"
        return f"{self.who}, had locked {self.name} {stands}. {ways(self.run, can_go_on=self.can_go_on)}"


def is_gone(lease: Lease) -> bool:
    """Return whether the process that holds the lease is known to have ended. Always False for other machines."""
    process = lease.holder.process
    if process is None or not lease.holder.bound or process.host != processes.this_process().host:
        return False
    return not processes.is_alive(process)


def is_settled(history: History, id: str) -> bool:
    """Return whether a run whose process is dead has left nothing half done."""
    run = history.runs.get(id)
    if run is None:
        return True  # nothing was ever recorded for it
    if run.life in UNFINISHED:
        return run.life is not Life.OPEN and is_taken_back(history, run)
    return run.life is not Life.STOPPED or not _cut_short(history, run)


def left_by(history: History, lease: Lease, who: str, wanted: str) -> Left:
    """Return what is left of the run that had this lease, for the next holder, who takes `wanted`."""
    run = history.runs[lease.holder.run]
    made, perhaps = {}, set()
    tools = [id for id in run.actions if history.actions[id].is_tool]
    for entry in (entry for id in tools for entry in history.live(id)):
        is_file, name, said = entry.target.resource == "files", entry.target.name, entry.target.said
        if entry.change.before.id == entry.change.after.id:
            continue
        if entry.change.in_doubt and is_file and not overlap(lease.name, name):
            perhaps.add(said)
        else:
            made[said] = is_file and overlap(wanted, name)
    targets = tuple(sorted(made, key=lambda said: (not made[said], said)))
    return Left(run.id, lease.name, who, targets, can_go_on(history, run.id), tuple(sorted(perhaps)))


def can_go_on(history: History, id: str) -> bool:
    run = history.runs.get(id)
    return run is not None and run.life in UNFINISHED


def ways(run: str, *, can_go_on: bool) -> str:
    """Return the commands with which a human settles a run."""
    resume = f"`takeback resume {run}` continues it, " if can_go_on else ""
    return f"{resume}`takeback undo {run}` takes it back"


def _cut_short(history: History, run: RecordedRun) -> bool:
    """Return whether a call was under way when its agent ended and the changes of that call still stand.

    An agent that ended between its calls has left nothing half done.
    """
    ended = (history.actions[id] for id in run.actions)
    return any(one.life is Life.SETTLED and one.happened and history.live(one.id) for one in ended)
