"""The parts of a workspace and how they fit together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from takeback.core.events import ContentForgotten
from takeback.core.history import History
from takeback.core.intents import Queued
from takeback.engine.describe.wording import known_as
from takeback.engine.gate.foresight import Foresight
from takeback.engine.gate.rules import Judging
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.outbox.delivery import Delivery, Manner, pause_s
from takeback.engine.outbox.resource import OutboxResource
from takeback.engine.outbox.webhooks import Audit, Webhook
from takeback.engine.outbox.worker import bury
from takeback.engine.past.moments import Moments
from takeback.engine.rollback.afterwards import CommandChecks
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.parts import SharedParts
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.runs import Runs
from takeback.engine.runs.values import ValueStore
from takeback.engine.stage.card import upper_of
from takeback.engine.tracking import own_processes, recovery
from takeback.engine.tracking.signs_of_life import SignsOfLife
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import TakebackError
from takeback.ports.content import PRUNED
from takeback.ports.conversations import Conversations
from takeback.ports.outbox import Outbox
from takeback.ports.resource import Observed, Resource
from takeback.resources.calls.resource import Call
from takeback.resources.calls.resource import Calls as CallsResource
from takeback.resources.files.look.exclude import excluder, workflow_folders
from takeback.resources.files.outside.resource import Outside
from takeback.resources.files.outside.survey import CaptureLimits, OutsideSurveyor
from takeback.resources.files.put_back.room import Reserve
from takeback.resources.files.resource import Files
from takeback.resources.git.known_files import KnownFiles
from takeback.resources.git.resource import Git
from takeback.resources.memory import MemoryResource
from takeback.resources.postgres import connection
from takeback.resources.postgres.guarded import GuardedDatabases
from takeback.resources.postgres.resource import Postgres
from takeback.resources.postgres.transactions import Servers
from takeback.resources.sqlite.discovery import KnownDatabases
from takeback.resources.sqlite.resource import Sqlite
from takeback.resources.sqlite.transactions import SqliteDatabases
from takeback.settings import agent_files, environment, toml
from takeback.storage.content.memory import MemoryBlobs
from takeback.storage.content.packs import PackStore
from takeback.storage.content.stored_contents import StoredContents
from takeback.storage.state import location
from takeback.storage.state.generation import Generation
from takeback.storage.state.webhook_marks import AuditMarks
from takeback.system.clock import LocalZone, SystemClock
from takeback.workspace.databases import ByPlace
from takeback.workspace.known import KnownWorkspace
from takeback.workspace.lost_history import Lost
from takeback.workspace.store import content
from takeback.workspace.store.conversations import conversations_for, threads_of

if TYPE_CHECKING:
    from takeback.engine.outbox.service import OutboxService, ServiceListener
    from takeback.engine.tracking.command import GuardedRows
    from takeback.workspace.notices.notifier import Notifier


FORGOTTEN = "its content was removed with `takeback forget`, so it cannot be put back"


class WorkspaceParts:
    """The parts that work on one protected directory, its state and its settings.

    Each is made when it is first needed: judging a command opens no content store.
    """

    def __init__(self, known: KnownWorkspace) -> None:
        self.root = known.root
        self.state = known.state
        self.journal = known.journal
        self.ledger = known.ledger
        self.lock = known.lock
        self.notices = known.notices
        self.progress = known.progress
        self._known = known

    @property
    def history(self) -> History:
        """The present content of the journal."""
        return self.ledger.refresh()

    @property
    def lost(self) -> Lost | None:
        """The history that this directory had before, if it is not this one."""
        return self._known.lost

    @property
    def settings(self) -> toml.Config:
        """takeback.toml, as far as it holds."""
        return self._known.settings

    @cached_property
    def store(self) -> PackStore | MemoryBlobs:
        """All content: on this machine, with a copy in a bucket if one is configured; or in memory."""
        if self._known.blobs is not None:
            return self._known.blobs
        where = self.state, self.kept, self.journal, self.lock
        return content.store_for(*where, self.progress, self.generation.rise)

    @cached_property
    def conversations(self) -> Conversations:
        """What agent frameworks keep of their conversations."""
        return conversations_for(self.state, self.kept, in_memory=self._known.blobs is not None)

    @property
    def has_conversations(self) -> bool:
        """Whether agent frameworks keep conversations here. Asking creates no store."""
        if "conversations" in self.__dict__ or self._known.blobs is not None:
            return "conversations" in self.__dict__
        return bool(threads_of(self.state, self.kept))

    @property
    def has_content(self) -> bool:
        """Whether there is any content. Asking opens no store."""
        return self._known.blobs is not None or (self.state / content.PACKS).exists()

    @cached_property
    def contents(self) -> StoredContents:
        """What was in files, over all content."""
        return StoredContents(self.store)

    @property
    def kept(self) -> location.StoreLocation:
        """Where content is kept, as far as this process knows."""
        return self._known.kept

    def why_gone(self, name: bytes) -> str:
        """Return why content with this name is no longer stored, as text for people."""
        for seq in self.ledger.history.forgets:
            record = self.journal.get(seq)
            if record and isinstance(record.event, ContentForgotten) and name.hex() in record.event.contents:
                return FORGOTTEN
        return PRUNED

    @cached_property
    def generation(self) -> Generation:
        return Generation(self.state / "generation")

    @cached_property
    def excluded(self) -> Callable[[bytes], bool]:
        hidden = [
            os.fsencode(p.relative_to(self.root))
            for p in [self.state.parent.parent, environment.witness_folder()]
            if p.is_relative_to(self.root)
        ]
        return excluder(self.settings.files.exclude, hidden)

    @cached_property
    def files(self) -> Files:
        return Files(
            self.root,
            self.state,
            self.store,
            self.contents,
            excluded=self.excluded,
            stated=[f"excluded by {toml.FILE}: {pattern}" for pattern in self.settings.files.exclude],
            claimed=lambda: workflow_folders(self.root),
            claims=self.sqlite.found,
            generation=self.generation,
            watching=self._known.watching,
            progress=self.progress,
            reserve=Reserve(self.state),
            why_gone=self.why_gone,
            upper=upper_of(self.state.parent.parent, self.root),
        )

    @cached_property
    def git(self) -> Git:
        return Git(
            self.root,
            self.state,
            self.store,
            self.contents,
            generation=self.generation,
            keep_days=self.settings.store.keep_days,
            progress=self.progress,
            shelf=self.store.shelf,
        )

    @cached_property
    def sqlite(self) -> Sqlite:
        found = KnownDatabases(self.root, self.state)
        return Sqlite(
            self.state,
            found,
            self.store,
            self.contents,
            generation=self.generation,
            why_gone=self.why_gone,
            leave_out_stores=self.settings.files.framework_stores == "leave-out",
        )

    @cached_property
    def outside(self) -> Outside:
        return Outside(
            self.state,
            self.store,
            self.contents,
            claimed=lambda: {*self._claimed_outside(), os.fsencode(self.state.parent.parent)},
            generation=self.generation,
            progress=self.progress,
            why_gone=self.why_gone,
        )

    @cached_property
    def observed(self) -> list[Observed]:
        """The resources to look at before and after each action, in the order of taking back."""
        # Files last, so that writes of the others do not change folder times. Outside first: git reports a worktree
        # there that stays.
        return [self.outside, self.sqlite, self.git, self.files]

    @cached_property
    def tracker(self) -> Tracker:
        life = SignsOfLife(self.state / "alive")
        return Tracker(
            self.ledger,
            self.observed,
            self.lock,
            life,
            self._known.called,
            reported=self._reported,
            attributed=[Postgres(self.postgres, self._token)],
            named=self.outside,
        )

    @cached_property
    def postgres(self) -> GuardedDatabases:
        """The guarded PostgreSQL databases."""
        return GuardedDatabases(self.state)

    def _token(self, action: str) -> str:
        return self.tracker.token(action)

    def guarded_rows(self, words: Sequence[str]) -> GuardedRows | None:
        """Return what psql with these arguments would do to guarded databases, or None if nothing."""
        if not self.postgres.living():
            return None
        from takeback.engine.tracking.command import GuardedRows
        from takeback.resources.postgres.psql import look
        from takeback.shell.languages.sql import changes_rows_only

        found = look(words, self.postgres, changes_rows_only)
        if found is None or (found.sure and not found.name):
            return None
        if not found.sure:
            return GuardedRows(among=tuple(place.name for place in self.postgres.living()))
        return GuardedRows(found.name, found.whole)

    def environment_of(self, action: str) -> dict[str, str]:
        """Return extra variables for a command, so that guarded databases attribute its changes to this action."""
        if not self.postgres.living():
            return {}
        return {"PGOPTIONS": connection.options(self._token(action), environment.postgres_options())}

    @cached_property
    def calls(self) -> RecordedCalls:
        return RecordedCalls(ValueStore(self.store, self.lock))

    @cached_property
    def _reported(self) -> list[Resource]:
        """Resources whose changes are reported by the code that makes them."""
        history = self.ledger.history
        return [
            self.intents,
            CallsResource(
                history.latest,
                lambda id: self.calls.known(history.actions[id]),
                lambda id: known_as(history, history.actions[id]),
            ),
            MemoryResource(history.latest, history.timeline),
        ]

    @property
    def outbox(self) -> Outbox:
        """The intents that runs have deferred."""
        return self.journal.outbox

    @cached_property
    def _manner(self) -> Manner:
        chosen = self.settings.outbox
        smtp = environment.smtp() or chosen.smtp
        return Manner(chosen.first_pause_s, chosen.longest_pause_s, smtp, chosen.sender, self.root)

    @cached_property
    def _delivery(self) -> Delivery:
        return Delivery(ValueStore(self.store, self.lock).fetch, SystemClock(), self._manner)

    @cached_property
    def audit(self) -> Audit:
        """The sender of every event to the webhooks."""
        marks = AuditMarks(self.state / "audit")
        pause = partial(pause_s, self._manner)
        return Audit(self.journal, marks, SystemClock(), self._known.source, self._webhooks, pause)

    def _webhooks(self) -> list[Webhook]:
        given = self.settings.audit.webhooks
        return [Webhook(one.url, environment.webhook_secret(one.secret), one.types) for one in given]

    @cached_property
    def intents(self) -> OutboxResource:
        return OutboxResource(
            self.outbox,
            self.ledger.history.latest,
            self._call_of,
            lambda: bury(self.outbox),
        )

    def _deliver(self, run: str) -> None:
        """Deliver what a run has deferred. The run has committed, so an error here is not its failure."""
        try:
            service = self._service(None)
            tally = service.run(once=True, run=run)
            self.notices += service.failures
            if tally.dead:
                self._known.begin_telling()
        except TakebackError as error:
            self.notices.append(
                f"the intents of {run} are left to a worker (`takeback outbox worker`): {error.message}"
            )

    def _call_of(self, queued: Queued) -> Call:
        return self._delivery.call(queued)

    def courier(
        self,
        *,
        concurrency: int = 4,
        notify: Sequence[str] = (),
        health: Path | None = None,
        listener: ServiceListener | None = None,
    ) -> OutboxService:
        """Return a worker of the outbox: see `Workspace.courier`."""
        return self._service(
            lambda: self.notifier(notify).tell(), concurrency=concurrency, health=health, listener=listener
        )

    def _service(self, tell: Callable[[], list[str]] | None, **options: Any) -> OutboxService:
        """Return a worker of the outbox. `tell` tells of dead letters, in a thread of the worker."""
        from takeback.engine.outbox.service import OutboxService  # needed only for delivery

        return OutboxService(self.outbox, self._delivery, SystemClock(), self.audit, tell=tell, **options)

    def notifier(self, also: Sequence[str] = ()) -> Notifier:
        """Return what tells the notifiers of this workspace, and these, of what waits for a human."""
        from takeback.workspace.notices import folder_of
        from takeback.workspace.notices.notifier import Notifier  # needed only if something waits
        from takeback.workspace.notices.waiting import waiting

        to = [*self._known.notifiers, *also]
        return Notifier(folder_of(self.state), self.root, to, lambda: waiting(self))

    @cached_property
    def leases(self) -> Leases:
        """The locks that runs hold."""
        return Leases(self.journal.leases, self.root, environment.here, self.ledger.refresh, self.recover)

    @cached_property
    def locks(self) -> LockGuard:
        """The check of actions against the locks of others."""
        return LockGuard(self.leases, self.ledger, lambda: self.settings.locks.on_foreign)

    @cached_property
    def rollbacks(self) -> Rollbacks:
        places = self.known_files.places
        return Rollbacks(
            self.tracker, self.moments, self.calls, environment.actor(), places, self._command_checks
        )

    def _command_checks(self) -> CommandChecks:
        asked = self.settings.checks
        return CommandChecks(self.root, asked.after_rollback, asked.timeout_s)

    @cached_property
    def known_files(self) -> KnownFiles:
        """What git tracks and ignores, and what is generated: so that lists begin with what matters."""
        return KnownFiles(self.root, self.files.text, self.git.index_text)

    @cached_property
    def moments(self) -> Moments:
        """The finder of points in the history."""
        return Moments(self.ledger, SystemClock(), LocalZone)

    @cached_property
    def databases(self) -> ByPlace:
        """The databases that runs write through Takeback."""
        return ByPlace(
            SqliteDatabases(self.root, self.sqlite.found, self.excluded),
            Servers(self.postgres, self._token),
        )

    @cached_property
    def runs(self) -> Runs:
        """Runs, and what they need from humans."""
        shared = SharedParts(
            root=self.root,
            tracker=self.tracker,
            rollbacks=self.rollbacks,
            calls=self.calls,
            clock=SystemClock(),
            databases=self.databases,
            leases=self.leases,
            locks=self.locks,
            judges=self._judging,
            recover=self.recover,
            deliver=self._deliver,
        )
        return Runs(shared)

    @cached_property
    def foresight(self) -> Foresight:
        """The judge of what commands would do here."""
        surveyor = OutsideSurveyor(
            self.root, self.state.parent.parent, self._limits_outside, self._claimed_outside, _agents_settings
        )
        return Foresight(
            self.root,
            environment.home_folder,
            surveyor,
            environment.here,
            rules=lambda: self.settings.rules,
            running=lambda: own_processes.running(self.tracker),
        )

    def _claimed_outside(self) -> set[bytes]:
        """Return paths outside the workspace that other resources cover: its repository, databases under guard."""
        return self.sqlite.found.claimed_outside() | self.git.claimed_outside()

    def _limits_outside(self) -> CaptureLimits:
        given = self.settings.outside
        return CaptureLimits(given.capture, given.max_files, given.max_bytes)

    def _judging(self, roots: Sequence[str] = ()) -> Judging:
        """Return the rules for one run. `roots` are folders outside that it protects anyway."""
        return Judging(
            self.settings.rules,
            self.root,
            self.settings.tools,
            self.foresight,
            environment.here,
            roots,
        )

    def recover(self) -> None:
        """Finish and settle what a crash left open; `notices` then says what was done."""
        self.ledger.refuse_elsewhere()
        with self.lock.held():
            if self._known.is_forgetting:
                from takeback.workspace.forgetting import Forgetting  # hardly ever needed

                self.notices.append(Forgetting(self).finish())
            history = self.history
            if history.compacting:
                from takeback.workspace.compacting import Compacting  # hardly ever needed

                self.notices.append(Compacting(self).finish())
            if not history.open_runs() and not history.has_unended:
                return
            if finished := self.rollbacks.finish():
                self.notices.append(f"finished the interrupted {finished.kind}. {finished}")
            self.notices += recovery.settle(self.tracker, self.calls)

    def finish_compaction(self) -> None:
        """Finish an interrupted compaction: in the middle of it, an undo would find some of the details."""
        if self.history.compacting:
            self.recover()

    def close(self) -> None:
        for resource in self.observed if "observed" in self.__dict__ else ():
            resource.remember()
            resource.close()
        if "conversations" in self.__dict__:
            self.conversations.close()
        if "store" in self.__dict__:
            self.store.close()


def _agents_settings() -> set[bytes]:
    """Return the files with agents' settings in the user's folders, by name and by real path."""
    found = [os.fsencode(path) for path in agent_files.all_of_user()]
    return {place for path in found for place in (os.path.normpath(path), os.path.realpath(path))}
