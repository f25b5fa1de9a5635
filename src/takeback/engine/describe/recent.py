"""What happened, the latest first: read one thing after the other, and no more than is taken.

The index answers which things there are; only those that are yielded are read. A filter that the index cannot answer
reads on until it has found enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, dropwhile, takewhile
from typing import NamedTuple

import msgspec

from takeback.core import ids
from takeback.core.codec import one_line
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.intents import RESOURCE as OUTBOX
from takeback.core.intents import Decided, IntentDropped
from takeback.core.moments import NotAMoment, time_of
from takeback.core.postings import Topic, every, named, newest_of, numbered
from takeback.core.selection import Filter, NarrowFilter, is_name_of
from takeback.engine.describe.changed_names import telling
from takeback.engine.describe.states import actor_of, line_of
from takeback.errors import UsageError
from takeback.ports.progress import Progress, silent
from takeback.system.clock import LocalZone, SystemClock

AT_HAND_MAX = 4096
"""So many things stay at hand while a long history is searched."""
_NAMED_MAX = 3
TIMES = 'a time is 14:02, 2h, "30 min ago", today, "yesterday 18:00" or 2026-01-31T14:02'


class DecisionMade(NamedTuple):
    """What a human did with dead letters, in one command."""

    first: Decided
    intents: list[str]

    @property
    def id(self) -> str:
        return self.first.event.intent

    @property
    def line(self) -> str:
        """What was done, in words."""
        event, shown = self.first.event, ", ".join(self.intents[:_NAMED_MAX])
        more = f" and {len(self.intents) - _NAMED_MAX} more" if len(self.intents) > _NAMED_MAX else ""
        is_drop = isinstance(event, IntentDropped)
        why = f": {one_line(event.why, 50)}" if isinstance(event, IntentDropped) and event.why else ""
        return f"{'drop' if is_drop else 'retry'} {shown}{more}{why}"


Thing = RecordedAction | Checkpoint | RecordedRun | DecisionMade
"""One entry of the log."""


class LogFilter(msgspec.Struct, frozen=True):
    """Which part of the history is wanted: all of it, unless a field says otherwise."""

    agent: str = ""
    run: str = ""
    """A run, or one of its steps."""
    changed: bool = False
    """Only what changed something."""
    grep: str = ""
    since_us: int = 0
    until_us: int = 0
    targets: Filter | None = None
    """Only what changed one of these."""

    @property
    def is_of_actions(self) -> bool:
        """True if only actions can pass."""
        return bool(self.run or self.changed or self.targets)


def things(history: History, wanted: LogFilter, progress: Progress = silent) -> Iterator[Thing]:
    """Yield what passes a filter, the latest first. `progress` says how much has been read."""
    candidates = iter(progress("Reading the history", _candidates(history, wanted), _total(history, wanted)))
    for read, thing in enumerate(candidates, 1):
        if not read % AT_HAND_MAX:
            history.trim(AT_HAND_MAX)
        if _passes(history, thing, wanted):
            yield thing


def _total(history: History, wanted: LogFilter) -> int:
    """Return how many things a filter looks at; 0 if only reading them would tell."""
    if wanted != LogFilter(changed=wanted.changed, grep=wanted.grep):
        return 0
    listed = () if wanted.is_of_actions else (Topic.CHECKPOINTS, Topic.LISTED_RUNS, Topic.DECISIONS)
    return sum(history.count(topic) for topic in (Topic.ACTIONS, *listed))


def seq_of(thing: Thing) -> int:
    """Return the place of a thing in the order of the workspace."""
    return thing.first.seq if isinstance(thing, DecisionMade) else ids.seq_of(thing.id)


def at_of(thing: Thing) -> int:
    """Return when a thing began, in microseconds."""
    if isinstance(thing, DecisionMade):
        return thing.first.at_us
    return thing.at_us if isinstance(thing, Checkpoint) else thing.began_us


def _candidates(history: History, wanted: LogFilter) -> Iterator[Thing]:
    """Yield what the index says may pass, the latest first."""
    first, last = _bounds(history, wanted)

    def between(seqs: Iterable[int]) -> Iterator[int]:
        later = dropwhile(lambda seq: seq > last, seqs) if last else iter(seqs)
        return takewhile(lambda seq: seq >= first, later) if first else later

    actions = (history.actions[ids.make(ids.ACTION, seq)] for seq in between(_actions(history, wanted)))
    if wanted.is_of_actions:
        run = history.runs.get(wanted.run)  # it began before its actions
        return chain(actions, [run]) if run and not (wanted.changed or wanted.targets) else iter(actions)
    postings = history.postings
    checkpoints = (
        history.checkpoints[ids.make(ids.CHECKPOINT, seq)]
        for seq in between(postings.newest(every(Topic.CHECKPOINTS)))
    )
    runs = (
        history.runs[ids.make(ids.RUN, seq)] for seq in between(postings.highest(every(Topic.LISTED_RUNS)))
    )
    decided = _decisions(_decided(history, between(postings.newest(every(Topic.DECISIONS)))))
    return merge(actions, checkpoints, runs, decided, key=seq_of, reverse=True)


def _actions(history: History, wanted: LogFilter) -> Iterator[int]:
    """Yield the numbers of the actions that may pass: of one run, agent or path, or all of them."""
    postings = history.postings
    if isinstance(wanted.targets, NarrowFilter):
        entries = (history.latest_entries(target) for target in wanted.targets.targets(history))
        latest = merge(*entries, key=lambda entry: entry.seq, reverse=True)
        makers = (ids.seq_of(id) for entry in latest for id in (entry.action, *entry.change.shared_with))
        return _each_once(makers)
    if wanted.run.startswith(ids.STEP):
        return iter([ids.seq_of(id) for id in reversed(history.actions_in(wanted.run))])
    if wanted.run:
        return postings.newest(numbered(Topic.IN_RUN, wanted.run))
    if wanted.agent:
        mine = [actor for actor in history.actors if is_name_of(wanted.agent, actor)]
        if not mine:
            known = sorted(history.actors)
            raise UsageError(
                f"no agent {wanted.agent!r} has done anything here",
                hint=f"these have: {', '.join(known[:8])}" if known else "`takeback log` lists what was done",
            )
        return newest_of(*(postings.newest(named(Topic.BY, actor)) for actor in mine))
    return postings.newest(every(Topic.ACTIONS))


def _passes(history: History, thing: Thing, wanted: LogFilter) -> bool:
    at_us = at_of(thing)
    if at_us < wanted.since_us or (wanted.until_us and at_us > wanted.until_us):
        return False
    if wanted.agent and not _is_by(thing, wanted.agent):
        return False
    if wanted.run and not _is_in(thing, wanted.run):
        return False
    if isinstance(thing, RecordedAction):
        if wanted.changed and not telling(thing.changes):
            return False
        if wanted.targets and not any(wanted.targets(entry.target) for entry in history.entries(thing.id)):
            return False
    return not wanted.grep or wanted.grep.casefold() in _text(history, thing).casefold()


def _is_by(thing: Thing, agent: str) -> bool:
    if isinstance(thing, RecordedRun):
        return is_name_of(agent, thing.began.actor)
    return isinstance(thing, RecordedAction) and is_name_of(agent, thing.actor)


def _is_in(thing: Thing, run: str) -> bool:
    if isinstance(thing, RecordedAction):
        return run in (thing.stream, thing.as_tool.step)
    return isinstance(thing, RecordedRun) and thing.id == run


def _each_once(seqs: Iterator[int]) -> Iterator[int]:
    seen: set[int] = set()
    for seq in seqs:
        if seq not in seen:
            seen.add(seq)
            yield seq


def _text(history: History, thing: Thing) -> str:
    """Return all words of an entry in which a person may look for some: what it did, by whom, and what it changed."""
    if isinstance(thing, Checkpoint):
        return f"checkpoint {thing.taken.message}"
    if isinstance(thing, DecisionMade):
        return thing.line
    if isinstance(thing, RecordedRun):
        return "\n".join([thing.began.name, thing.began.actor, *(step.name for step in thing.steps.values())])
    changed = [change.target.said for change in thing.changes]
    return "\n".join([line_of(history, thing), actor_of(thing), thing.why, *changed])


# Dead letters


def has_another_entry(action: RecordedAction) -> bool:
    """Return whether these are intents that a human dropped: the decision is an entry of its own."""
    return action.kind == "outside" and {change.target.resource for change in action.changes} == {OUTBOX}


def _decided(history: History, seqs: Iterable[int]) -> Iterator[Decided]:
    if not history.postings.position:
        known = {one.seq: one for one in history.intents.decided}
        return (known[seq] for seq in seqs)
    records = (record for seq in seqs for record in history.postings.read([seq]))
    return (Decided(record.seq, record.at_us, record.event) for record in records)  # type: ignore[arg-type]


def _decisions(decided: Iterator[Decided]) -> Iterator[DecisionMade]:
    """Group decisions, which come the latest first: equal ones in a row in the journal are one command."""
    last: DecisionMade | None = None
    for one in decided:
        if last and one.seq + 1 == last.first.seq and _same(last.first, one):
            last = DecisionMade(one, [one.event.intent, *last.intents])
            continue
        if last:
            yield last
        last = DecisionMade(one, [one.event.intent])
    if last:
        yield last


def _same(one: Decided, other: Decided) -> bool:
    return msgspec.structs.replace(one.event, intent=other.event.intent) == other.event


# Times


def time_named(text: str) -> int:
    """Return the time that a person names, in microseconds; 0 for no text."""
    if not text:
        return 0
    try:
        return time_of(text, SystemClock().now_us(), LocalZone())
    except NotAMoment:
        raise UsageError(f"{text!r} is not a time", hint=TIMES) from None


def _bounds(history: History, wanted: LogFilter) -> tuple[int, int]:
    """Return the first and the last record of a period, as far as the index knows; 0 where there is no bound."""
    position = history.postings.position
    if not position or not (wanted.since_us or wanted.until_us):
        return 0, 0
    last = first_after(history, wanted.until_us) if wanted.until_us else 0
    first = first_after(history, wanted.since_us - 1) if wanted.since_us else 0
    return first, last if last <= position else 0


def first_after(history: History, at_us: int) -> int:
    """Return the first record that is later than a time, found by halving."""
    low, high = 1, history.postings.position + 1
    while low < high:
        middle = (low + high) // 2
        found = history.postings.read([middle])
        if found and found[0].at_us > at_us:
            high = middle
        else:
            low = middle + 1
    return low
