"""Witnesses: what the world is like, by those who know nothing of Takeback; and what a run left behind."""

from __future__ import annotations

import copy
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from takeback.core.intents import IntentState
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import UsageError

if TYPE_CHECKING:
    from takeback.engine.runs.run import Run
    from takeback.workspace.workspace import Workspace

SHOWN_MAX = 10
VALUE_MAX = 200
Probe = Callable[[], Any]
"""Returns the state of another system, as values that can be compared."""
Counts = Callable[[], Mapping[str, int]]
"""Returns how often each effect is there now, by the service's own count."""

_GONE = object()


class World:
    """What has to be as before: a folder, what a probe returns, and the count of a service.

    It is looked at when this is created.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        probe: Probe | None = None,
        service: Counts | None = None,
    ) -> None:
        if root is None and probe is None and service is None:
            raise UsageError("a world needs a folder, a probe or a service, or there is nothing to compare")
        self._root = None if root is None else Path(root)
        self._probe = probe
        self._service = service
        self.before = self.look()

    def look(self) -> dict[str, Any]:
        """Return the world as it is now."""
        now: dict[str, Any] = {}
        if self._root is not None:
            now["files"] = _files(self._root)
        if self._probe is not None:
            # A probe may return the service's own object, which goes on changing.
            now["world"] = copy.deepcopy(self._probe())
        if self._service is not None:
            now["service"] = {name: count for name, count in self._service().items() if count}
        return now

    def differences(self) -> list[str]:
        """Return in words what differs from before."""
        return differences(self.before, self.look())


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words what differs between two looks at a world."""
    return [text for name in before for text in _differences(before[name], now[name], name)]


def assert_taken_back(world: World) -> None:
    """Raise AssertionError if the world is not as it was when this witness first looked."""
    if found := world.differences():
        raise AssertionError(f"not everything was taken back:\n{listed(found)}")


def assert_exactly_once(
    service: Counts | Mapping[str, int], expected: Mapping[str, int] | None = None
) -> None:
    """Raise AssertionError if, by the service's own count, an effect is there twice or not at all.

    Without `expected` each effect that the service counts has to be there once.
    """
    counts = dict(service if isinstance(service, Mapping) else service())
    wanted = dict.fromkeys(counts, 1) if expected is None else dict(expected)
    if found := not_once(counts, wanted):
        raise AssertionError(f"not everything is there exactly once:\n{listed(found)}")


def not_once(counts: Mapping[str, int], wanted: Mapping[str, int]) -> list[str]:
    """Return in words which effects are there more or less often than wanted."""
    return [
        f"{name} is there {times(counts.get(name, 0))}, not {times(wanted.get(name, 0))}"
        for name in sorted({*counts, *wanted})
        if counts.get(name, 0) != wanted.get(name, 0)
    ]


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def assert_clean(run: Run) -> None:
    """Raise AssertionError if a run that has ended left an action, a lock, a message or half a rollback."""
    if found := left_by(run):
        raise AssertionError(f"run {run.id} is not clean:\n{listed(found)}")


def left_by(run: Run) -> list[str]:
    """Return in words what a run left behind."""
    parts = run._parts
    history = parts.tracker.ledger.refresh()
    recorded = history.runs[run.id]
    found = [f"action {one.id} ({one.name}) is still open" for one in history.unended_in(run.id)]
    if recorded.life is Life.OPEN:
        found.append("the run itself is still open")
    if run.report is not None and run.report.verdict in (Verdict.PARTIAL, Verdict.CONFLICT):
        found.append(f"its rollback is {run.report.verdict.value}: {run.report}")
    held = [lease for lease in parts.leases.live() if lease.holder.run == run.id]
    found += [f"it still holds the lock {lease.name}" for lease in held]
    waiting = (IntentState.HELD, IntentState.QUEUED, IntentState.DUE, IntentState.CLAIMED)
    rows = [row for row in parts.tracker.ledger.journal.outbox.page(waiting) if row.run == run.id]
    if recorded.life is not Life.DONE:
        found += [f"message {row.id} waits although the run did not commit" for row in rows]
    return found


def left_in(workspace: Workspace) -> list[str]:
    """Return in words what is left in a workspace in which nobody works: actions, locks, drafts, a broken journal."""
    history = workspace.history
    found = [f"action {one.id} ({one.name}) is still open" for one in history.open_actions()]
    found += [f"a run still holds the lock {lease.name}" for lease in workspace.parts.leases.live()]
    if workspace.known.has_stages:
        found += [f"the draft {name} is left" for name in workspace.stages.names()]
    found += [f"the journal is damaged: {one.what}" for one in workspace.journal.check()]
    return found + [f"the journal is damaged: {one}" for one in history.breaches]


def listed(found: Sequence[str]) -> str:
    """Return the first lines of a list, and how many more there are."""
    lines = [f"  {text}" for text in found[:SHOWN_MAX]]
    more = len(found) - SHOWN_MAX
    return "\n".join([*lines, f"  and {more:,} more"] if more > 0 else lines)


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    """Yield where two values differ. Whether they do is their own comparison."""
    if before is now or before == now:
        return
    if before is _GONE:
        yield f"{path} is new: {_short(now)}"
    elif now is _GONE:
        yield f"{path} is gone; it was {_short(before)}"
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(key, _GONE), now.get(key, _GONE), f"{path}[{key!r}]")
    elif isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _differences(old, new, f"{path}[{number}]")
    else:
        yield from _fields(before, now, path) or [f"{path} was {_short(before)} and is {_short(now)}"]


def _fields(before: Any, now: Any, path: str) -> list[str]:
    """Return which fields of two objects of one kind differ; empty if they have none."""
    old, new = getattr(before, "__dict__", {}), getattr(now, "__dict__", {})
    if type(before) is not type(now) or old.keys() != new.keys():
        return []
    return [text for name in old for text in _differences(old[name], new[name], f"{path}.{name}")]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"


def _files(root: Path) -> dict[str, tuple[str, int, str]]:
    """Return kind, mode and content of everything below a folder; a link is not followed."""
    found: dict[str, tuple[str, int, str]] = {}
    for here, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(here, name)
            state = os.lstat(path)
            mode = stat.S_IMODE(state.st_mode)
            if stat.S_ISLNK(state.st_mode):
                seen = ("link", 0, os.readlink(path))
            elif stat.S_ISREG(state.st_mode):
                seen = ("file", mode, _digest(path))
            else:
                seen = ("folder" if stat.S_ISDIR(state.st_mode) else "special", mode, "")
            found[os.path.relpath(path, root)] = seen
    return found


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
