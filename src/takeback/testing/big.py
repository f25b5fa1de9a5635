"""Events of many changes, as an action that deletes a folder and the rollback that brings it back record them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.record import Record
from takeback.ports.journal import Journal


def changes(count: int, seed: str = "") -> tuple[Change, ...]:
    """Return deletions of so many files, with contents, times and names as those of a real folder."""
    return tuple(_deleted(number, seed) for number in range(count))


def ended(action: str, gone: Sequence[Change]) -> e.ActionEnded:
    return e.ActionEnded(action, e.Outcome.DONE, changes=tuple(gone))


def began(action: str, seq: int, gone: Sequence[Change]) -> e.RollbackBegan:
    """Return the plan of a rollback; `seq` is the record of the action's end."""
    items = tuple(e.Item(one.target, e.Did.RESTORED, settles=(action,), seqs=(seq,)) for one in gone)
    return e.RollbackBegan(e.RollbackKind.UNDO, (action,), swaps=_inverse(gone), items=items)


def taken_back(rollback: str, plan: e.RollbackBegan) -> e.RollbackEnded:
    items = tuple(
        e.Item(one.target, one.did, verified=True, settles=one.settles, seqs=one.seqs) for one in plan.items
    )
    return e.RollbackEnded(rollback, items, changes=plan.swaps)


def sweep(journal: Journal, count: int, seed: str = "") -> list[Record]:
    """Record an action that deletes so many files, and its rollback; returns the three big records."""
    run, action = journal.append(
        [e.RunBegan("tidy up"), e.ActionBegan("rm -rf node_modules", e.Effect.RESTORABLE)], stream=""
    )
    gone = changes(count, seed)
    (end,) = journal.append([ended(action.id, gone)], stream=run.stream)
    plan = began(action.id, end.seq, gone)
    (undo,) = journal.append([plan], stream="w", key=f"undo {action.id}")
    (done,) = journal.append([taken_back(undo.id, plan)], stream="w")
    return [end, undo, done]


def _deleted(number: int, seed: str) -> Change:
    content = hashlib.sha256(f"{seed}{number}".encode()).hexdigest()
    time_ns = 1_790_000_000_000_000_000 + int(content[:8], 16)
    folder = f"node_modules/{content[0]}-package-{number // 24}/{('lib', 'dist/esm', 'src')[number % 3]}"
    data = ["f", 0o644, 0, 0, time_ns, int(content[8:11], 16), content]
    version = Version(f"f:644:{content}:", f"{time_ns}:0:0:", data)
    return Change(Target("files", f"{folder}/index{number % 24}.js"), version, ABSENT)


def _inverse(gone: Sequence[Change]) -> tuple[Change, ...]:
    return tuple(Change(one.target, one.after, one.before) for one in gone)
