"""Stories by chance: two agents, a human, runs, steps, calls, intents, rollbacks, and events that may not come."""

from __future__ import annotations

from random import Random

from takeback.core import events as e
from takeback.core import ids, memory, selection
from takeback.core import intents as i
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.record import Record
from takeback.core.rollback import OnConflict
from takeback.core.seats import Place, WorkspaceSeated
from tests.core.story import Story, version

NAMES = ("f", "g", "d/h", "takeback.toml")
VERSIONS = ("", "1", "2", "3")
ACTORS = ("claude-code", "claude-code:Explore", "codex", "")


class RandomStory:
    """A story that is told by chance, with the records that it is made of."""

    def __init__(self, random: Random, *, is_stored: bool = False) -> None:
        """`is_stored` leaves out what no outbox of a journal could be told."""
        self.random = random
        self.is_stored = is_stored
        self.story = Story()
        self.records: list[Record] = []
        self.open: list[str] = []
        self.runs: list[str] = []
        self.steps: list[tuple[str, str]] = []
        self.every: list[str] = []
        self.intents: list[tuple[str, str]] = []
        self.approvals: list[tuple[str, str]] = []
        tell = self.story.tell

        def kept(event: e.Event, stream: str = ids.WORKSPACE) -> Record:
            record = tell(event, stream)
            self.records.append(record)
            return record

        self.story.tell = kept  # type: ignore[method-assign]
        self.tell = kept
        self.tell(e.WorkspaceBegan("/w", "1"))

    def play(self, moves: int) -> None:
        ways = [
            *(self.begin, self.end, self.begin, self.end, self.begin, self.end),
            *(self.edit, self.undo, self.undo, self.redo, self.run, self.step, self.note, self.checkpoint),
            *(self.remember, self.defer, self.release, self.ask, self.answer, self.see),
            *(self.tell_later, self.deliver),
            *(
                self.end_run,
                self.accept,
                self.detach,
                self.stray,
                self.seat,
                self.restore,
                self.unverified,
                self.forget,
            ),
        ]
        for _ in range(moves):
            self.random.choice(ways)()

    # One way to go on each

    def stream(self) -> str:
        return self.random.choice([ids.WORKSPACE, *self.runs, *self.runs])

    def run(self) -> None:
        key, detached = self.random.choice(["", "K", "L"]), self.random.random() < 0.4
        thread = detached and self.random.random() < 0.5
        began = e.RunBegan("run", key, self.random.choice(ACTORS), detached=detached, thread=thread)
        self.runs.append(self.tell(began, "").id)

    def end_run(self) -> None:
        if self.runs:
            ways: list[e.Event] = [e.RunEnded(e.Outcome.DONE), e.RunInterrupted("gone"), e.RunResumed()]
            ways += [e.RunHandedOver("stuck"), e.RunTaken("ann"), e.RunReturned("ann")]
            self.tell(self.random.choice(ways), self.random.choice(self.runs))

    def step(self) -> None:
        if self.runs and self.random.random() < 0.6:
            run = self.random.choice(self.runs)
            self.steps.append((run, self.tell(e.StepBegan("edit", ref="x"), run).id))
        elif self.steps:
            run, step = self.random.choice(self.steps)
            self.tell(e.StepEnded(step, e.Outcome.DONE), run)

    def begin(self) -> None:
        stream, step = self.stream(), ""
        if self.steps and self.random.random() < 0.5:
            stream, step = self.random.choice(self.steps)
        began = e.ActionBegan(
            "tool",
            self.random.choice([e.Effect.RESTORABLE, e.Effect.UNKNOWN, e.Effect.IRREVERSIBLE]),
            self.random.choice(ACTORS),
            step=step,
            parent=self.random.choice(["", *self.every[-3:]]),
            key=self.random.choice(["", "k", "l"]),
            marks=(e.Mark("files", f"t{self.random.random()}"),) if self.random.random() < 0.5 else (),
            tool=self.random.choice(["", "takeback:install"]) if self.random.random() < 0.1 else "",
            full=self.random.choice(["", "aa"]),
            brand=len(self.records) if len(self.records) % 3 == 0 else 0,
        )
        self.open.append(self.tell(began, stream).id)
        self.every.append(self.open[-1])

    def _changes(self, action: str) -> tuple[Change, ...]:
        changes = []
        for name in self.random.sample(NAMES, self.random.randint(0, 2)):
            target, after = Target("files", name), version(self.random.choice(VERSIONS))
            before = self.story.world[target] if self.random.random() < 0.9 else version("x")
            others = [id for id in self.open if id != action]
            shared = (self.random.choice(others),) if others and self.random.random() < 0.3 else ()
            changes.append(Change(target, before, after, shared, self.random.random() < 0.1))
            self.story.world[target] = after
        if self.random.random() < 0.1:
            doubt = (
                Version("call", data={"in_doubt": True}) if self.random.random() < 0.5 else Version("call")
            )
            changes.append(Change(Target("calls", f"book:{action}"), ABSENT, doubt))
        return tuple(changes)

    def _stream_of(self, action: str) -> str:
        return self.story.history.actions[action].stream

    def end(self) -> None:
        if self.open:
            id = self.open.pop(self.random.randrange(len(self.open)))
            outcome, unsure = self.random.choice(list(e.Outcome)), self.random.random() < 0.1
            if self.random.random() < 0.8:
                event: e.Event = e.ActionEnded(id, outcome, self._changes(id), unsure=unsure, result=1)
            else:
                event = e.ActionSettled(id, unsure, self._changes(id), why="looked")
            self.tell(event, self._stream_of(id))

    def detach(self) -> None:
        if self.open:
            id = self.random.choice(self.open)
            self.tell(e.ActionDetached(id, self._changes(id), exit_code=0), self._stream_of(id))

    def see(self) -> None:
        if self.open:
            id = self.random.choice(self.open)
            self.tell(e.ChangesSeen(id, self._changes(id)), self._stream_of(id))

    def tell_later(self) -> None:
        if self.every:
            id = self.random.choice(self.every)
            changes_made = [entry.change for entry in self.story.history.actions[id].made]
            made = [change for change in changes_made if change.target.resource == "files"][:1]
            changes = tuple(Change(c.target, c.after, version("1")) for c in made)
            self.tell(e.ActionTold(id, self.random.random() < 0.5, changes), self._stream_of(id))

    def deliver(self) -> None:
        if self.every:
            id = self.random.choice(self.every)
            self.tell(e.ActionDelivered(id), self._stream_of(id))

    def note(self) -> None:
        self.every.append(self.tell(e.ActionNoted("look", e.Outcome.DONE, key="n"), self.stream()).id)

    def edit(self) -> None:
        self.story.edit(
            self.random.choice(NAMES), self.random.choice(VERSIONS), seen=self.random.random() < 0.8
        )

    def checkpoint(self) -> None:
        self.tell(e.CheckpointTaken("here", marks=(e.Mark("files", "t"),)))

    def accept(self) -> None:
        now = self.story.world[Target("files", "takeback.toml")]
        self.tell(e.ConfigAccepted(now.id))

    def forget(self) -> None:
        self.tell(e.ContentForgotten((self.random.choice(NAMES),), ("aa",)))

    def seat(self) -> None:
        if self.random.random() < 0.3:
            marks = (e.Mark("files", "t"),) if self.random.random() < 0.5 else ()
            self.tell(WorkspaceSeated(Place("p", "host", "/w"), len(self.records), marks=marks))

    def remember(self) -> None:
        """What a run remembers: a value comes, goes, or is a list that grows, which is recorded by what is added."""
        if self.open and self.runs:
            run, path = self.random.choice(self.runs), self.random.choice(["/a", "/b"])
            before = dict(self.story.history.memory_of(run))
            now = before.get(path)
            grown = [*now, len(now)] if isinstance(now, list) else list(range(9))
            after = {**before, path: self.random.choice([grown, grown, "x"])}
            if self.random.random() < 0.2:
                del after[path]
            self.tell(e.ChangesSeen(self.random.choice(self.open), memory.changes(run, before, after)), run)

    def defer(self) -> None:
        if self.open and self.runs:
            run, key = self.random.choice(self.runs), self.random.choice(["m", "n"])
            event = i.IntentDeferred("email", "email", key, self.random.choice(self.open), "d", step="")
            self.intents.append((run, self.tell(event, run).id))

    def release(self) -> None:
        if self.intents:
            run, id = self.random.choice(self.intents)
            events: list[e.Event] = [
                i.IntentsReleased((id,)),
                i.IntentDelivered(id, 1),
                i.IntentDied(id, 1, "no"),
            ]
            events += [i.IntentCancelled(id), i.IntentRevived(id, "ann"), i.IntentDropped(id, "ann")]
            self.tell(self.random.choice(events), run)

    def ask(self) -> None:
        run = self.stream()
        asked = e.ApprovalAsked("push", e.Effect.IRREVERSIBLE, "p", 5)
        self.approvals.append((run, self.tell(asked, run).id))

    def answer(self) -> None:
        if self.approvals:
            run, id = self.random.choice(self.approvals)
            granted = e.ApprovalAnswered(id, self.random.random() < 0.7, "ann", "why")
            answers: list[e.Event] = [granted, e.ApprovalUsed(id)]
            self.tell(self.random.choice(answers), run)

    def undo(self) -> None:
        history = self.story.history
        chosen = selection.last_action(history)
        if self.every and self.random.random() < 0.5:
            chosen = selection.of_ids(history, self.random.sample(self.every, min(2, len(self.every))))
        self._carry_out(chosen, e.RollbackKind.UNDO)

    def redo(self) -> None:
        self._carry_out(selection.last_rollback(self.story.history), e.RollbackKind.REDO)

    def restore(self) -> None:
        if checkpoints := list(self.story.history.checkpoints):
            chosen = selection.after(self.story.history, ids.seq_of(self.random.choice(checkpoints)))
            self._carry_out(chosen, e.RollbackKind.RESTORE)

    def _carry_out(self, chosen: selection.Selection, kind: e.RollbackKind) -> None:
        files = tuple(entry for entry in chosen.entries if entry.target.resource == "files")
        choice = self.random.choice([OnConflict.KEEP, OnConflict.OVERWRITE])
        plan = self.story.plan(selection.Selection(chosen.actions, files, chosen.bare), choice)
        if plan.of and not plan.conflicts:
            for planned in plan.items:
                self.story.world[planned.target] = planned.present
            self.every.append(self.story.carry_out(plan, kind))

    def unverified(self) -> None:
        """An undo that could not look, and one that is not over."""
        if self.every:
            id = self.random.choice(self.every)
            made = self.story.history.entries(id)[:1]
            items = tuple(
                e.Item(entry.target, e.Did.UNVERIFIABLE, settles=(id,), seqs=(entry.seq,)) for entry in made
            )
            undo = self.tell(e.RollbackBegan(e.RollbackKind.UNDO, (id,))).id
            self.every.append(undo)
            if items:
                self.tell(e.RollbackProgressed(undo, items[0]))
            if self.random.random() < 0.7:
                self.tell(e.RollbackEnded(undo, items))

    def stray(self) -> None:
        """What may not come, or not now."""
        if self.random.random() < 0.2:
            known = self.random.choice([*self.every, "a999"])
            strays: list[e.Event] = [
                e.ActionEnded(known, e.Outcome.DONE),
                e.RollbackEnded(known, ()),
                e.StepEnded("s999", e.Outcome.DONE),
                e.ApprovalUsed("p999"),
                e.ChangesSeen(known, ()),
                *([] if self.is_stored else [i.IntentDelivered("i999", 1)]),
            ]
            self.tell(self.random.choice(strays))
            if known in self.open and known not in [a.id for a in self.story.history.open_actions()]:
                self.open.remove(known)
