"""A tiny journal for tests of the core: it only seals records one after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.history import History
from takeback.core.record import Envelope, Record, seal
from takeback.core.rollback import OnConflict, RollbackPlan, plan_rollback
from takeback.core.selection import Selection


def version(name: str) -> Version:
    return Version(name) if name else ABSENT


class Story:
    """A world of named versions, written to by actors, with the history that was recorded of it."""

    def __init__(self) -> None:
        self.history = History()
        self.world: dict[Target, Version] = defaultdict(lambda: ABSENT)
        self.streams: dict[str, tuple[int, str]] = defaultdict(lambda: (0, ""))
        self.at_us = 0
        """What the clock says; 0 for the number of the record."""

    def tell(self, event: e.Event, stream: str = ids.WORKSPACE) -> Record:
        seq = self.history.seq + 1
        stream = stream or ids.make(ids.RUN, seq)
        n, prev = self.streams[stream]
        envelope = Envelope(
            v=1, seq=seq, stream=stream, n=n + 1, prev=prev, at_us=self.at_us or seq, event=event
        )
        _, digest = seal(envelope)
        self.streams[stream] = (n + 1, digest)
        record = Record(envelope, digest)
        self.history.apply(record)
        return record

    def run(self, name: str = "agent") -> str:
        return self.tell(e.RunBegan(name), stream="").id

    def act(
        self,
        writes: Mapping[str, str],
        stream: str = ids.WORKSPACE,
        *,
        shared_with: tuple[str, ...] = (),
        in_doubt: bool = False,
        step: str = "",
        effect: e.Effect = e.Effect.RESTORABLE,
    ) -> str:
        """An action that writes these versions, with its record before and after."""
        began = self.tell(e.ActionBegan("tool", effect, step=step), stream)
        changes = []
        for name, new in writes.items():
            target = Target("files", name)
            if self.world[target] == version(new):
                continue
            changes.append(Change(target, self.world[target], version(new), shared_with, in_doubt))
            self.world[target] = version(new)
        self.tell(e.ActionEnded(began.id, e.Outcome.DONE, tuple(changes)), stream)
        return began.id

    def edit(self, name: str, new: str, *, seen: bool) -> None:
        """A human's edit, which Takeback has noticed or not."""
        target = Target("files", name)
        change = Change(target, self.world[target], version(new))
        self.world[target] = change.after
        if seen:
            self.tell(e.DriftSeen((change,)))

    def present(self, targets: Iterable[Target]) -> dict[Target, Version]:
        return {target: self.world[target] for target in targets}

    def plan(self, selection: Selection, choice: OnConflict = OnConflict.STOP) -> RollbackPlan:
        return plan_rollback(self.history, selection, self.present, on_conflict=choice)

    def carry_out(self, plan: RollbackPlan, kind: e.RollbackKind) -> str:
        """Apply a plan to the world as the engine would, and record it."""
        began = self.tell(e.RollbackBegan(kind, plan.of, plan.swaps))
        items = []
        for planned in plan.items:
            assert self.world[planned.target] == planned.present or not planned.changes_something
            if planned.changes_something:
                self.world[planned.target] = planned.goal
            did = {
                "restore": e.Did.RESTORED,
                "remove": e.Did.REMOVED,
                "already": e.Did.ALREADY,
                "keep": e.Did.KEPT,
                "conflict": e.Did.CONFLICT,
            }[planned.do]
            items.append(
                e.Item(planned.target, did, verified=True, settles=planned.settles, seqs=planned.seqs)
            )
        self.tell(e.RollbackEnded(began.id, tuple(items), plan.swaps))
        return began.id
