"""A long history as agents make it, appended in bulk: `python _long_history.py STATE EVENTS` adds one to a journal.

Sessions of some two hundred calls with a prompt for every twenty, over two thousand paths; between them undos, redos,
undos that a human's edit stopped, a human's own edits, memory, intents and checkpoints.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from takeback.core import events as e
from takeback.core import intents as i
from takeback.core import memory
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.record import Record
from takeback.storage.journal.sqlite.journal import SqliteJournal

SEED = 17
FOLDERS, IN_FOLDER = 40, 50
PROMPTS, CALLS = 10, 20
JOURNAL = "journal.db"


def path(number: int) -> str:
    """Return one of the two thousand paths."""
    folder, file = divmod(number % (FOLDERS * IN_FOLDER), IN_FOLDER)
    return f"src/mod{folder}/file{file}.py"


class LongHistory:
    """A journal that is made longer. Which events come is the same in each run."""

    def __init__(self, journal: SqliteJournal, marks: Sequence[e.Mark]) -> None:
        self._journal = journal
        self._random = Random(SEED)
        self._seq = journal.head().count
        self._marks = tuple(marks)
        self._present: dict[str, Version] = {}
        self._runs = itertools.count()

    def grow(self, events: int) -> None:
        """Append until there are this many."""
        while self._seq < events:
            undoable = self._session()
            self._between(undoable)
        self._journal.sync()

    def _append(self, events: list[e.Event], stream: str) -> tuple[Record, ...]:
        found = self._journal.append(events, stream=stream, durable=False)
        self._seq = found[-1].seq
        return found

    def _session(self) -> list[tuple[str, int, Change]]:
        """Append a session; return its last calls with what each changed."""
        number = next(self._runs)
        is_keyed = number % 5 == 0
        run = f"r{self._seq + 1}"
        began = e.RunBegan("session", f"session-{number}", "claude-code", f"{number:032x}", detached=True)
        if is_keyed:
            began = e.RunBegan("nightly", f"nightly-{number % 50}", "agent")
        events: list[e.Event] = [began]
        made: list[tuple[str, int, Change]] = []
        for prompt in range(PROMPTS):
            step = f"s{self._seq + len(events) + 1}"
            events.append(e.StepBegan(f"prompt {prompt}: make the tests pass", ref=f"{number}-{prompt}"))
            for call in range(CALLS):
                made += self._call(events, run, step, is_remembering=is_keyed and not call)
            if is_keyed and not prompt:
                self._defer(events, number, step)
            events.append(e.StepEnded(step, e.Outcome.DONE))
        events.append(e.RunEnded(e.Outcome.DONE))
        self._append(events, "")
        return made[-8:]

    def _call(
        self, events: list[e.Event], run: str, step: str, *, is_remembering: bool
    ) -> list[tuple[str, int, Change]]:
        seq = self._seq + len(events) + 1
        name = path(self._random.randrange(FOLDERS * IN_FOLDER))
        is_shell = self._random.random() < 0.3
        effect = e.Effect.UNKNOWN if is_shell and self._random.random() < 0.3 else e.Effect.RESTORABLE
        arguments: dict[str, Any] = {"command": f"sed -i s/a/b/ {name}"} if is_shell else {"file_path": name}
        events.append(
            e.ActionBegan(
                "Bash" if is_shell else "Edit",
                effect,
                "claude-code" if seq % 7 else "claude-code:Explore",
                step=step,
                key=f"toolu_{seq:024x}",
                marks=self._marks,
                arguments=arguments,
            )
        )
        changes: list[Change] = []
        if self._random.random() < 0.6:
            changes.append(self._change(name, seq))
        if is_remembering:
            value = memory.version(seq)
            changes.append(Change(Target(memory.RESOURCE, f"/{step}", run), ABSENT, value))
        events.append(e.ActionEnded(f"a{seq}", e.Outcome.DONE, tuple(changes), self._marks, result={"ok": 1}))
        return [(f"a{seq}", seq + 1, change) for change in changes[:1] if change.target.resource == "files"]

    def _change(self, name: str, seq: int) -> Change:
        before = self._present.get(name, ABSENT)
        id = f"{self._random.getrandbits(256):064x}"
        data = {"kind": "file", "mode": 0o100644, "size": 1200, "content": id}
        after = self._present[name] = Version(id, f"{1_790_000_000_000_000_000 + seq}", data)
        return Change(Target("files", name), before, after)

    def _defer(self, events: list[e.Event], number: int, step: str) -> None:
        seq = self._seq + len(events) + 1
        events += [
            e.ActionBegan("email", e.Effect.DEFERRED, step=step, key=f"mail-{number}"),
            i.IntentDeferred("email", "email", f"mail-{number}", f"a{seq}", f"{seq:032x}", "email to ann"),
            e.ActionEnded(f"a{seq}", e.Outcome.DONE),
            i.IntentsReleased((f"i{seq + 1}",)),
            i.IntentDelivered(f"i{seq + 1}", 1),
        ]

    def _between(self, made: list[tuple[str, int, Change]]) -> None:
        """What happens between two sessions: most often a human edits, now and then something is taken back."""
        chance = self._random.random()
        name = path(self._random.randrange(FOLDERS * IN_FOLDER))
        self._append([e.DriftSeen((self._change(name, self._seq + 1),), self._marks)], "w")
        if chance < 0.2:
            self._append([e.CheckpointTaken("before the change", "you", self._marks)], "w")
        if chance < 0.3 and made:
            self._take_back(made[-1], e.Did.RESTORED)
            if chance < 0.15:
                self._redo(made[-1])
        elif chance < 0.4 and made:
            self._take_back(made[0], e.Did.CONFLICT)

    def _take_back(self, made: tuple[str, int, Change], did: e.Did) -> None:
        action, seq, change = made
        back = Change(change.target, change.after, change.before)
        item = e.Item(change.target, did, did is e.Did.RESTORED, settles=(action,), seqs=(seq,))
        self._rollback(e.RollbackKind.UNDO, action, back, item)

    def _redo(self, made: tuple[str, int, Change]) -> None:
        undo = f"a{self._seq - 1}"
        item = e.Item(made[2].target, e.Did.RESTORED, verified=True, settles=(undo,), seqs=(self._seq,))
        self._rollback(e.RollbackKind.REDO, undo, made[2], item)

    def _rollback(self, kind: e.RollbackKind, of: str, change: Change, item: e.Item) -> None:
        id = f"a{self._seq + 1}"
        changes = (change,) if item.did is e.Did.RESTORED else ()
        self._append(
            [
                e.RollbackBegan(kind, (of,), (change,), (item,), "you", self._marks),
                e.RollbackEnded(id, (item,), changes, self._marks),
            ],
            "w",
        )


def main(state: str, events: str) -> None:
    journal = SqliteJournal(Path(state) / JOURNAL)
    marks: dict[str, e.Mark] = {}
    for record in journal.read():
        marks |= {mark.resource: mark for mark in getattr(record.event, "marks", ())}
    LongHistory(journal, tuple(marks.values())).grow(int(events))
    journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
