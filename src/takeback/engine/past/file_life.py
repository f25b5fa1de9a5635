"""The life of a file: its versions, who made each, and who wrote each of its lines.

Everything is asked of the index by the file's own targets, so it costs what was recorded of that file, however long
the history is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

import msgspec

from takeback.core import blame as core_blame
from takeback.core import events as e
from takeback.core import ids
from takeback.core.blame import Read, Whose, Written, lines_of
from takeback.core.change import Change, Entry, Target, Version
from takeback.core.entities import RecordedAction
from takeback.engine.ledger import Ledger
from takeback.errors import ContentGone


class FileVersion(msgspec.Struct, frozen=True):
    """One version of a file, with what made it."""

    entry: Entry
    action: RecordedAction
    prompt: str = ""
    """The name of the step: for a coding agent, the beginning of the prompt."""

    @property
    def change(self) -> Change:
        return self.entry.change

    @property
    def at_us(self) -> int:
        return self.action.ended_us or self.action.began_us


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of a file, with the version that brought it; without one, `whose` says why."""

    text: bytes
    version: FileVersion | None = None
    whose: Whose = Whose.FIRST


class FileLives:
    """The lives of the files of one workspace."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._prompts: dict[str, str] = {}

    def versions(self, targets: Iterable[Target]) -> Iterator[FileVersion]:
        """Yield the versions of these targets, the latest first, and read no more than is taken."""
        history = self._ledger.refresh()
        timelines = [history.latest_entries(target) for target in targets]
        for entry in merge(*timelines, key=lambda entry: entry.seq, reverse=True):
            if entry.change.before != entry.change.after:  # a time alone makes no version
                yield self._version(entry)

    def _version(self, entry: Entry) -> FileVersion:
        action = self._ledger.history.actions[entry.action]
        return FileVersion(entry, action, self.prompt(action.as_tool.step))

    def prompt(self, step: str) -> str:
        """Return the name of a step, from the one record that began it."""
        if step not in self._prompts:
            record = self._ledger.journal.get(ids.seq_of(step)) if ids.is_id(step) else None
            event = record.event if record else None
            self._prompts[step] = event.name if isinstance(event, e.StepBegan) else ""
        return self._prompts[step]

    def blame(self, text: bytes, target: Target, read: Read) -> list[BlamedLine]:
        """Return the lines of a text, which is the present content of a target, each with who wrote it."""
        history = self._ledger.refresh()
        entries = history.timeline(target)
        made = [Written(entry.change, history.actions[entry.action].is_rollback) for entry in entries]
        whose = core_blame.blame(text, made, _read_once(read))
        return [self._line(line, entries, n) for line, n in zip(lines_of(text), whose, strict=True)]

    def _line(self, text: bytes, entries: Sequence[Entry], whose: int) -> BlamedLine:
        if whose >= 0:
            return BlamedLine(text, self._version(entries[whose]))
        return BlamedLine(text, None, Whose(whose))


def _read_once(read: Read) -> Read:
    """Return a reader that keeps the last content: a change begins where the one before it ended."""
    last: dict[str, bytes | None] = {}

    def once(version: Version) -> bytes | None:
        if version.id not in last:
            try:
                found = read(version)
            except ContentGone:
                found = None
            last.clear()
            last[version.id] = found
        return last[version.id]

    return once
