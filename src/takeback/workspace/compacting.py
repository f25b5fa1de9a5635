"""Compacting the journal of a workspace by its limits: never before a human was told, and could prevent it.

The first clean-up that could compact something only says so. From a day later on, clean-ups do it. You need not wait
if you answer yes on a terminal, or use `--yes`. If you answer no, no clean-up compacts anything without `--yes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property

import msgspec

from takeback.core.change import OUTSIDE, Target
from takeback.core.codec import text_of
from takeback.engine.compaction import CompactionPlan, Compactor
from takeback.engine.outbox.webhooks import Webhook
from takeback.engine.prune import DAY_US
from takeback.errors import BackendError
from takeback.settings import agent_files, environment, toml
from takeback.storage.state.webhook_marks import AuditMarks
from takeback.system import durable
from takeback.system.clock import SystemClock
from takeback.workspace.parts import WorkspaceParts
from takeback.workspace.trusted_settings import targets

FILE = "compaction.json"
FORMAT = 1
GRACE_US = DAY_US
"""So long after it was announced, the first compaction may come without a question."""


class _Notice(msgspec.Struct, frozen=True):
    """What a human was told about the first compaction."""

    format: int = FORMAT
    told_us: int = 0
    declined: bool = False


class Compacted(msgspec.Struct, frozen=True):
    """What a clean-up compacted, or could compact."""

    records: int
    first_us: int
    last_us: int
    """When the first and the last of the records up to the limit were written."""
    bytes_freed: int
    done: bool = False
    due_us: int = 0
    """When a clean-up may do it without a question; 0 where a human has declined that."""
    left: str = ""
    """Why the room is not free on the disk yet; empty if it is."""


class Compactable(msgspec.Struct, frozen=True):
    """An estimate, made without reading the records: at most so many could be compacted."""

    records: int
    bytes_freed: int


Ask = Callable[[Compacted], bool | None]
"""Asks about the first compaction: True to do it now, False never to do it unasked, None if nobody was asked."""


class Compacting:
    """Compacting the journal of one workspace."""

    def __init__(self, parts: WorkspaceParts) -> None:
        self._parts = parts
        self._compactor = Compactor(parts.ledger, self._is_setting, parts.progress)

    def run(self, ask: Ask | None) -> Compacted | None:
        """Compact what is older than the limits, if a human was told before. None if there is nothing to compact.

        `ask` is called the first time. Without it this is a clean-up that nobody sees, which announces nothing.
        """
        plan = self._plan()
        if plan is None:
            return None
        offer = Compacted(plan.foreseen.records, plan.first_us, plan.last_us, plan.foreseen.freed)
        if not self._may(offer, ask):
            due_us = 0 if self._notice.declined else self._notice.told_us + GRACE_US
            return msgspec.structs.replace(offer, due_us=due_us) if ask else None
        with self._parts.lock.held():  # not while others are looked at, or asked: that may take long
            if not self._compactor.still_holds(plan) and not (plan := self._plan()):
                return None
            self._compactor.carry_out(plan, environment.actor())
        left = self._parts.journal.compaction.release()
        self._parts.ledger.refresh()
        return Compacted(
            plan.foreseen.records, plan.first_us, plan.last_us, plan.foreseen.freed, done=True, left=left
        )

    def finish(self) -> str:
        """Do what an interrupted compaction had left. Return a message. The caller holds the lock."""
        try:
            count = self._compactor.finish()
        except BackendError as error:
            # Nothing is lost, and the command may still be able to do its work.
            return f"an interrupted compaction could not be finished: {error.message}"
        return f"finished the interrupted compaction of {count:,} old records"

    def estimate(self) -> Compactable:
        """Return how much a clean-up might compact. Costs the same however long the history is."""
        days, head = self._parts.settings.store.journal_days, self._parts.journal.head().count
        if not days or not head:
            return Compactable(0, 0)
        through = self._compactor.last_before(SystemClock().now_us() - days * DAY_US)
        records = max(0, through - self._compactor.compacted_through())
        try:
            size = os.stat(self._parts.state / "journal.db").st_size
        except FileNotFoundError:
            size = 0  # it is on a server
        return Compactable(records, size * records // (2 * head))

    def _plan(self) -> CompactionPlan | None:
        days = self._parts.settings.store.journal_days
        now_us = SystemClock().now_us()
        return self._compactor.plan(now_us - days * DAY_US, now_us, self._received()) if days else None

    def _received(self) -> int | None:
        """Return how far every webhook has received the journal: they get all details. None if there are none."""
        marks = AuditMarks(self._parts.state / "audit")
        webhooks = self._parts.settings.audit.webhooks
        return min((marks.read(Webhook(w.url, "", w.types).name).after for w in webhooks), default=None)

    def _may(self, offer: Compacted, ask: Ask | None) -> bool:
        if self._parts.history.compactions:
            return True
        now_us, notice = SystemClock().now_us(), self._notice
        if notice.told_us and not notice.declined and notice.told_us + GRACE_US <= now_us:
            return True
        if ask is None:
            return False
        answer = ask(offer)
        if answer is None and not notice.told_us:
            self._note(_Notice(told_us=now_us))
        elif answer is False:
            self._note(_Notice(told_us=now_us, declined=True))
        return bool(answer)

    # What was told

    @property
    def _notice(self) -> _Notice:
        try:
            found = msgspec.json.decode((self._parts.state / FILE).read_bytes(), type=_Notice)
        except (FileNotFoundError, msgspec.DecodeError):
            return _Notice()  # told again
        return found if found.format == FORMAT else _Notice()

    def _note(self, notice: _Notice) -> None:
        durable.replace(self._parts.state / FILE, msgspec.json.encode(notice) + b"\n")

    # Files that a human may have to accept

    def _is_setting(self, target: Target) -> bool:
        if target.resource == OUTSIDE:
            return target.name in self._outside
        return target in self._own or target.name.partition("/")[0] in agent_files.IN_PROJECT

    @cached_property
    def _own(self) -> frozenset[Target]:
        return frozenset({*targets(self._parts.root), Target("files", toml.FILE)})

    @cached_property
    def _outside(self) -> frozenset[str]:
        paths = [os.fsencode(path) for path in agent_files.all_of_user()]
        return frozenset(text_of(place) for path in paths for place in (path, os.path.realpath(path)))
