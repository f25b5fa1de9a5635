"""The changes between two moments of a workspace, and those of one action, step or run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from takeback.core import events as e
from takeback.core import ids, run_comparison, selection
from takeback.core.change import Change, Version
from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.core.run_comparison import RunComparison
from takeback.core.selection import refuse_compacted
from takeback.engine.describe.accounts import account
from takeback.engine.rollback.paths import path_filter
from takeback.engine.rollback.restore import refuse_pruned
from takeback.errors import ContentGone
from takeback.workspace.parts import WorkspaceParts

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace


class Comparison:
    """A finder of changes in one workspace."""

    def __init__(self, parts: WorkspaceParts) -> None:
        self._parts = parts

    def changes(self, start: str, end: str, paths: Iterable[str]) -> tuple[Change, ...]:
        """Return what the action, step or run `start` changed, or the changes between two moments.

        What matters most comes first. By default `end` is the present, and `start` the beginning of the last action.
        If there are two, the bare id of an action, a step or a run stands for the moment before it. Paths limit the
        changes to those at or below one of them.
        """
        wanted = path_filter(self._parts.root, self._parts.history, paths)
        is_of_one = ids.is_id(start) and start[0] != ids.CHECKPOINT and not end
        found = self._made_by(start) if is_of_one else self._between(start, end)
        chosen = [change for change in found if wanted(change.target)]
        places = self._parts.known_files.places(chosen)
        return tuple(sorted(chosen, key=lambda change: (places[change.target].rank, change.target)))

    def text(self, change: Change, version: Version) -> bytes | None:
        """Return the text of one side of a change, or None if its resource has none."""
        resource = self._parts.tracker.observed.get(change.target.resource)
        return resource.text(version) if resource else None

    def _made_by(self, id: str) -> Iterable[Change]:
        """Return what an action, a step or a run changed, from before it to after it."""
        history = self._parts.history
        for one in [id] if id in history.actions else selection.actions_of(history, id):
            refuse_compacted(history.actions[one])
        if id in history.actions and selection.inside(history, [id]) == [id]:
            return history.actions[id].changes
        actions = [id] if id in history.actions else selection.actions_of(history, id)
        made = selection.net(history, selection.inside(history, actions))
        tracker = self._parts.tracker
        known = {*tracker.observed, *(resource.name for resource in tracker.attributed)}
        return [change for change in made if change.target.resource in known]

    def _between(self, start: str, end: str) -> Iterable[Change]:
        tracker, outside = self._parts.tracker, self._parts.outside
        with self._parts.lock.held():
            history = self._parts.history
            until = self._marks_of(end) if end else tracker.marks()
            since = _by_name(self._marks_of(start)) if start else _last_beginning(history)
            if not end and outside.name in since:
                # Paths outside are not looked at between actions, so the same paths are looked at again now.
                again = outside.again(since[outside.name])
                until = [*(mark for mark in until if mark.resource != again.resource), again]
            return [
                change
                for mark in until
                if mark.resource in since
                for change in tracker.observed[mark.resource].changes(since[mark.resource], mark)
            ]

    def _marks_of(self, named: str) -> Sequence[e.Mark]:
        """Return what was seen at a moment."""
        is_bare = ids.is_id(named) and named[0] in (ids.ACTION, ids.STEP, ids.RUN)
        moment = self._parts.moments.find(f"before {named}" if is_bare else named)
        marks = self._parts.moments.marks(moment)
        refuse_pruned(self._parts.tracker, moment, marks)
        return marks


def _by_name(marks: Iterable[e.Mark]) -> dict[str, e.Mark]:
    return {mark.resource: mark for mark in marks}


def _last_beginning(history: History) -> Mapping[str, e.Mark]:
    """Return the marks from before the most recent action, or those of the last record."""
    for action in reversed(history.actions.values()):
        if action.compacted_us:
            break
        if action.is_tool and (marks := action.began.marks):
            return _by_name(marks)
    return history.marks


def compare_runs(workspace: Workspace, first: str, second: str) -> RunComparison:
    """Compare two runs by what they did or intended."""
    history, journal, roots = workspace.history, workspace.journal, [str(workspace.root)]

    def in_full(action: RecordedAction) -> Any:
        try:
            call = workspace.parts.calls.known(action).call
        except ContentGone:
            return None
        return [call.args, call.kwargs]

    return run_comparison.compare(
        *(account(history, journal.read(stream=run), run, roots, in_full) for run in (first, second))
    )
