"""The picture of a day: sessions, their prompts and calls, and what you did between them, as a tree of values.

Newest last, as a person reads. Whoever shows it, the command line or a page, takes these nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.postings import Topic, numbered
from takeback.core.selection import net
from takeback.engine.describe import states
from takeback.engine.describe.changed_names import telling
from takeback.engine.describe.recent import (
    DecisionMade,
    LogFilter,
    Thing,
    has_another_entry,
    seq_of,
    things,
)
from takeback.engine.describe.states import COMPACTED, StateNote, Tone, noted
from takeback.engine.describe.wording import NOT_ALLOWED, body_of
from takeback.engine.runs.actions import ASKED
from takeback.engine.runs.recorded_calls import in_doubt
from takeback.ports.progress import Progress, silent

TOTALS_READ_MAX = 1024
"""So many actions are read to say what whole sessions changed, apart from the calls that are shown."""
REQUESTS_READ_MAX = 64
SCANNED_FOR_EACH = 32
"""So many quiet calls are folded for each entry that is wanted, before the picture ends."""
OUTSIDE = "outside any action"
_QUIET = (Life.DONE, Life.FAILED)


class DayNode(msgspec.Struct):
    """One line of the picture, and what is below it."""

    kind: str
    """session, thread or run; prompt, turn or step; action, undo, redo, restore, outside, checkpoint or decision; or
    folded, for calls in a row that changed nothing."""
    id: str
    at_us: int
    what: str
    who: str = ""
    """Empty if it is the one who did what is above it."""
    notes: tuple[StateNote, ...] = ()
    changes: tuple[Change, ...] = ()
    calls: int = 0
    """Of a run: how many calls it has made."""
    is_whole: bool = True
    """False if it made more changes than were read."""
    continued: bool = False
    """True if the same session is above it, before something that you did."""
    below: list[DayNode] = []


class Day(msgspec.Struct, frozen=True):
    """The nodes, oldest first, and whether there are older ones."""

    nodes: list[DayNode]
    more: bool


def day(history: History, wanted: LogFilter, limit: int, progress: Progress = silent) -> Day:
    """Return the latest part of a history as a tree of at most so many entries; 0 for all of it."""
    latest = list(_enough(history, things(history, wanted, progress), limit))
    found = [thing for thing in reversed(latest) if thing is not None]
    begun = {thing.id for thing in found if isinstance(thing, RecordedRun)}
    picture = _Picture(history, begun, folding=not wanted.grep)
    shown = {thing.stream for thing in found if isinstance(thing, RecordedAction | Checkpoint)}
    for thing in progress("Arranging the entries", found, len(found)):
        if not (isinstance(thing, RecordedRun) and thing.id in shown):  # its calls show it, where they are
            picture.add(thing)
    return Day(picture.finished(), more=len(found) < len(latest))


def flat(history: History, wanted: LogFilter, limit: int, progress: Progress = silent) -> Day:
    """Return the same as a plain list: every action with who did it, the bodies of runs and steps too."""
    found = (t for t in things(history, wanted, progress) if not isinstance(t, RecordedRun))
    shown = (thing for thing in found if not _is_hidden(thing))
    nodes = [leaf(history, thing) for thing in islice(shown, limit or None)]
    return Day(nodes[::-1], next(shown, None) is not None)


def leaf(history: History, thing: RecordedAction | Checkpoint | DecisionMade) -> DayNode:
    """Return one entry without what is around it."""
    if isinstance(thing, Checkpoint):
        text = f'checkpoint "{thing.taken.message}"' if thing.taken.message else "checkpoint"
        gone = [COMPACTED] if thing.compacted_us else []
        return DayNode(
            "checkpoint", thing.id, thing.at_us, text, who=thing.taken.actor or "you", notes=noted(gone)
        )
    if isinstance(thing, DecisionMade):
        who = thing.first.event.actor or "you"
        return DayNode("decision", thing.id, thing.first.at_us, thing.line, who=who)
    return _leaf_of_action(history, thing)


def _leaf_of_action(history: History, action: RecordedAction) -> DayNode:
    node = DayNode(action.kind, action.id, action.began_us, "", who=states.actor_short(action))
    if action.kind == "outside":
        node.who, node.what = "you", OUTSIDE
        node.notes, node.changes = noted([COMPACTED] if action.compacted_us else []), action.changes
        return node
    node.what = states.line_of(history, action)
    every = states.within(history, action)
    node.changes = tuple(net(history, every)) if len(every) > 1 else action.changes
    node.notes = _notes(history, action)
    return node


def _notes(history: History, action: RecordedAction) -> tuple[StateNote, ...]:
    notes = list(noted(states.notes_of(history, action)))
    words = {note.text for note in notes}
    if asked := answer_to(history, action):
        notes.insert(0, StateNote(asked, Tone.CARE))
    is_final = action.as_tool.effect is e.Effect.IRREVERSIBLE
    if is_final and not words & {"not allowed", "did not happen", "taken back", "in doubt"}:
        notes.append(StateNote("cannot be taken back", Tone.BAD))
    return tuple(notes)


def answer_to(history: History, action: RecordedAction) -> str:
    """Return `asked, allowed by you` for a call that a human had to allow, or ""."""
    if ASKED in action.as_tool.ref.split():
        if action.life is Life.OPEN:
            return "asked"
        return "asked" if action.why.endswith(NOT_ALLOWED) else "asked, allowed by you"
    run = action.stream
    if run not in history.runs:
        return ""
    postings = history.postings
    for seq in islice(postings.newest(numbered(Topic.ASKED, run)), REQUESTS_READ_MAX):
        request = history.approvals[ids.make(ids.APPROVAL, seq)]
        if request.life is not Life.USED or seq > action.seq:
            continue
        used = postings.seqs(numbered(Topic.APPROVAL, request.id))[-1]
        # An answer is used up in the same append that begins the call.
        if next(postings.after(numbered(Topic.IN_RUN, run), used), 0) == action.seq:
            by = "its program" if request.actor == "callback" else request.actor or "you"
            return f"asked, allowed by {by}"
    return ""


# Folding


def is_quiet(history: History, action: RecordedAction) -> bool:
    """Return whether a call changed nothing, and nothing else about it needs to be seen."""
    if not action.is_tool or action.is_own or action.life not in _QUIET or telling(action.changes):
        return False
    if history.inside(action.id) or action.compacted_us or action.as_tool.effect is e.Effect.IRREVERSIBLE:
        return False
    if action.shared or action.why.endswith(NOT_ALLOWED) or in_doubt(history, action):
        return False
    return not history.never_happened(action.id) and not answer_to(history, action)


class _Fold(msgspec.Struct):
    """Calls in a row that changed nothing."""

    reads: int = 0
    answers: int = 0
    others: int = 0
    failed: int = 0
    unknown: int = 0

    def add(self, action: RecordedAction) -> None:
        began = action.as_tool
        if action.life is Life.FAILED:
            self.failed += 1
        if began.tool == e.ANSWER:
            self.answers += 1
        elif began.effect is e.Effect.NONE:
            self.reads += 1
        else:
            self.others += 1
            self.unknown += action.is_unknown

    @property
    def what(self) -> str:
        said = [
            _plural(self.answers, "answer of the model", "answers of the model"),
            _plural(self.reads, "read", "reads"),
            _plural(self.others, "call changed nothing", "calls changed nothing"),
        ]
        return ", ".join(filter(None, said))

    @property
    def notes(self) -> tuple[StateNote, ...]:
        unknown = f"{self.unknown:,} with effect unknown" if self.unknown else ""
        failed = StateNote(f"{self.failed:,} failed", Tone.BAD) if self.failed else None
        return tuple(filter(None, (failed, *noted([unknown]))))


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}" if count else ""


# The tree


class _Picture:
    """A tree that grows as entries come, oldest first."""

    def __init__(self, history: History, begun: set[str], *, folding: bool) -> None:
        """`begun` are the runs whose beginnings are shown, too."""
        self._history = history
        self._begun = begun
        self._folding = folding
        self._nodes: list[DayNode] = []
        self._open: dict[str, DayNode] = {}
        """The runs since the last thing that belongs to none, each with its node."""
        self._steps: dict[tuple[str, str], DayNode] = {}
        self._latest: dict[str, int] = {}
        """The last entry of each of these runs."""
        self._seen: set[str] = set()
        self._bodies: set[str] = set()
        self._folds: dict[int, _Fold] = {}
        self._left = TOTALS_READ_MAX

    def add(self, thing: Thing) -> None:
        history = self._history
        if isinstance(thing, RecordedRun):
            self._run(thing, seq_of(thing), thing.began_us)
        elif isinstance(thing, RecordedAction) and (run := listed_run(history, thing)):
            self._call(run, thing)
        elif isinstance(thing, Checkpoint) and (run := listed_run(history, thing)):
            node = leaf(history, thing)
            node.who = ""
            self._run(run, seq_of(thing), thing.at_us).below.append(node)
        elif not _is_hidden(thing):
            self._close()
            self._nodes.append(leaf(history, thing))

    def finished(self) -> list[DayNode]:
        """Return the nodes, with what is known only at the end."""
        self._close()
        return self._nodes

    def _close(self) -> None:
        """End the blocks of all runs: what comes next is not theirs. The one that was at work last is the last."""
        self._nodes += [self._open[id] for id in sorted(self._open, key=self._latest.__getitem__)]
        self._open.clear()
        self._latest.clear()
        self._steps.clear()

    def _run(self, run: RecordedRun, seq: int, at_us: int) -> DayNode:
        self._latest[run.id] = seq
        if run.id in self._open:
            return self._open[run.id]
        is_first = run.id in self._begun and run.id not in self._seen
        node = self._node_of(run, run.began_us if is_first else at_us)
        self._open[run.id] = node
        self._seen.add(run.id)
        return node

    def _node_of(self, run: RecordedRun, at_us: int) -> DayNode:
        kind = states.kind_of_run(run)
        continued = run.id in self._seen
        node = DayNode(kind, run.id, at_us, _title(run), who=run.began.actor or "agent")
        node.continued = continued
        if not continued:
            self._sum_up(run, node)
        return node

    def _sum_up(self, run: RecordedRun, node: DayNode) -> None:
        """Say what a whole run did, where that is not too much to read."""
        history = self._history
        node.calls = len(run.actions) - sum(bool(step.body) for step in run.steps.values())
        count = len(run.actions)
        node.is_whole = count <= min(states.INSIDE_READ_MAX, self._left)
        if not node.is_whole:
            ending = (
                "open" if run.began.detached and run.life is Life.OPEN else states.ENDINGS.get(run.life, "")
            )
            node.notes = noted([ending])
            return
        self._left -= count
        if any(body_of(history, history.actions[id]) == run.id for id in run.actions):
            node.calls -= 1
        node.notes = noted(states.notes_of_run(history, run))
        node.changes = tuple(net(history, run.actions))

    def _call(self, run: RecordedRun, action: RecordedAction) -> None:
        above = self._run(run, action.seq, action.began_us)
        step = run.steps.get(action.as_tool.step)
        if step is not None:
            above = self._step(run, step.id, above, action.began_us)
        if body := body_of(self._history, action):
            if body == getattr(step, "id", ""):
                above.changes = (*above.changes, *action.changes)
            return None
        if self._folding and is_quiet(self._history, action):
            return self._fold(above, action)
        node = leaf(self._history, action)
        if node.who == ":".join((run.began.actor or "agent").split(":")[:2]):
            node.who = ""
        above.below.append(node)

    def _step(self, run: RecordedRun, id: str, above: DayNode, at_us: int) -> DayNode:
        if (run.id, id) in self._steps:
            return self._steps[run.id, id]
        step = run.steps[id]
        kind = "step" if step.body else "turn" if run.began.thread else "prompt"
        is_new = id not in self._seen
        is_whole = is_new and run.id in self._begun
        node = DayNode(kind, id, step.began_us if is_whole else at_us, step.name)
        node.continued = not is_new
        if is_new and len(self._history.actions_in(id)) <= states.INSIDE_READ_MAX:
            node.notes = noted(states.notes_of_step(self._history, step))
        outer = self._step(run, step.parent, above, at_us) if step.parent in run.steps else above
        outer.below.append(node)
        self._seen.add(id)
        self._steps[run.id, id] = node
        return node

    def _fold(self, above: DayNode, action: RecordedAction) -> None:
        last = above.below[-1] if above.below else None
        if last is None or last.kind != "folded":
            last = DayNode("folded", "", action.began_us, "")
            above.below.append(last)
            self._folds[id(last)] = _Fold()
        fold = self._folds[id(last)]
        fold.add(action)
        last.what, last.notes = fold.what, fold.notes


def listed_run(history: History, thing: RecordedAction | Checkpoint) -> RecordedRun | None:
    """Return the run that an entry is shown in; None for a single command, and for what belongs to no run."""
    run = history.runs.get(thing.stream)
    return run if run and run.is_listed else None


def _title(run: RecordedRun) -> str:
    """Return what a run is about: a session of a coding agent is about its first prompt."""
    named = next((step.name for step in run.steps.values() if step.name), "")
    is_nameless = run.began.name == (run.began.actor or "").split(":")[0]
    return named if run.began.detached and not run.began.thread and is_nameless else run.began.name


def _is_hidden(thing: Thing) -> bool:
    """Return whether an entry is only git's own upkeep, or is told by another entry."""
    if not isinstance(thing, RecordedAction) or thing.kind != "outside":
        return False
    return has_another_entry(thing) or not (telling(thing.changes) or thing.compacted_us)


def _enough(history: History, latest: Iterator[Thing], limit: int) -> Iterator[Thing | None]:
    """Yield things until so many lines are told of; None at the end says that there are more."""
    lines, quiet = 0, 0
    in_fold: set[tuple[str, str]] = set()
    for thing in latest:
        if limit and (lines >= limit or quiet > limit * SCANNED_FOR_EACH):
            yield None
            return
        yield thing
        if not isinstance(thing, RecordedAction):
            lines += 1
            continue
        if _is_hidden(thing) or body_of(history, thing):
            quiet += 1
        elif listed_run(history, thing) and is_quiet(history, thing):
            place = (thing.stream, thing.as_tool.step)
            lines += place not in in_fold
            quiet += 1
            in_fold.add(place)
        else:
            lines += 1
            in_fold.discard((thing.stream, thing.as_tool.step))
