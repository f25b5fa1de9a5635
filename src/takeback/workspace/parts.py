"""The parts of a workspace and how they fit together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from takeback.core.history import History
from takeback.core.intents import Queued
from takeback.engine.gate.foresight import Foresight
from takeback.engine.gate.rules import Judging
from takeback.engine.ledger import Ledger
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.outbox.delivery import Delivery, Manner, pause_s
from takeback.engine.outbox.resource import OutboxResource
from takeback.engine.outbox.webhooks import Audit, Webhook
from takeback.engine.outbox.worker import bury
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.parts import SharedParts
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.runs import Runs
from takeback.engine.runs.values import ValueStore
from takeback.engine.tracking import own_processes, recovery
from takeback.engine.tracking.signs_of_life import SignsOfLife
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import StoreMoved, TakebackError
from takeback.ports.journal import Journal
from takeback.ports.outbox import Outbox
from takeback.ports.progress import Progress, silent
from takeback.ports.resource import Observed, Resource
from takeback.resources.calls.resource import Call
from takeback.resources.calls.resource import Calls as CallsResource
from takeback.resources.files.look.exclude import excluder, workflow_folders
from takeback.resources.files.outside.resource import Outside
from takeback.resources.files.outside.survey import CaptureLimits, OutsideSurveyor
from takeback.resources.files.put_back.room import Reserve
from takeback.resources.files.resource import Files
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
from takeback.storage.state.lock import WorkspaceLock
from takeback.storage.state.webhook_marks import AuditMarks
from takeback.system.clock import SystemClock
from takeback.workspace import lost_history
from takeback.workspace.databases import ByPlace
from takeback.workspace.lost_history import Lost
from takeback.workspace.store import content
from takeback.workspace.trusted_settings import TrustedSettings

if TYPE_CHECKING:
    from takeback.engine.outbox.service import OutboxService, ServiceListener
    from takeback.engine.tracking.command import GuardedRows


class WorkspaceParts:
    """The parts that work on one protected directory, its state and its settings.

    Each is made when it is first needed: reading the log opens no content store.
    """

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal,
        *,
        watching: bool = False,
        progress: Progress = silent,
        blobs: MemoryBlobs | None = None,
    ) -> None:
        self.root = root
        self.state = state
        self.journal = journal
        self.ledger = Ledger(journal, self._share)
        self.notices: list[str] = []
        """What was found and settled of an earlier crash, in words, for whoever can tell the user."""
        self._watching = watching
        self.progress = progress
        self._blobs = blobs

    @property
    def history(self) -> History:
        """What the journal says now."""
        return self.ledger.refresh()

    @property
    def lost(self) -> Lost | None:
        """The history that this directory had before, if it is not this one."""
        return lost_history.lost(self.state, self.root, self.journal)

    @property
    def settings(self) -> toml.Config:
        """takeback.toml, as far as it holds: neither an agent nor a folder may loosen its own protection."""
        return self.trusted.settings

    @cached_property
    def trusted(self) -> TrustedSettings:
        """Which settings hold, and what a human has accepted of them."""
        return TrustedSettings(
            self.root,
            self.state,
            self.ledger,
            self.lock,
            contents=lambda: (StoredContents(self.store), self.store.get),
            observe=self._observe,
            notices=self.notices,
        )

    def _observe(self) -> None:
        self.tracker.observe()

    @cached_property
    def store(self) -> PackStore | MemoryBlobs:
        """All content: on this machine, and in a bucket besides where one is configured; or in memory."""
        if self._blobs is not None:
            return self._blobs
        where = self.state, self.kept, self.journal, self.lock
        return content.store_for(*where, self.progress, self.generation.rise)

    @property
    def has_content(self) -> bool:
        """Whether there is content to look at; to ask opens no store."""
        return self._blobs is not None or (self.state / content.PACKS).exists()

    @cached_property
    def kept(self) -> location.StoreLocation:
        """Where content is kept, as far as this process knows."""
        return location.read(self.state) or location.HERE

    def _refuse_another_bucket(self) -> None:
        """What goes to the bucket of before would not be found where the history is read from now on."""
        if self.journal.seats and not location.is_same_bucket(self.kept, location.read(self.state)):
            raise StoreMoved(
                "the content of this workspace has gone to another bucket meanwhile; nothing was recorded",
                hint="start again what has had it open since before",
            )

    def _share(self, again: bool) -> Collection[int]:  # noqa: FBT001
        """What the ledger asks before it names content: that it is where others find it, too."""
        self._refuse_another_bucket()
        if not self.kept.blobs:
            return ()
        if again:
            self.store.renew()
        return self.store.share()

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
            StoredContents(self.store),
            excluded=self.excluded,
            stated=[f"excluded by {toml.FILE}: {pattern}" for pattern in self.settings.files.exclude],
            claimed=lambda: workflow_folders(self.root),
            claims=self.sqlite.found,
            generation=self.generation,
            watching=self._watching,
            progress=self.progress,
            reserve=Reserve(self.state),
        )

    @cached_property
    def git(self) -> Git:
        return Git(
            self.root,
            self.state,
            self.store,
            StoredContents(self.store),
            generation=self.generation,
            keep_days=self.settings.store.keep_days,
            progress=self.progress,
            shelf=self.store.shelf,
        )

    @cached_property
    def sqlite(self) -> Sqlite:
        found = KnownDatabases(self.root, self.state)
        contents = StoredContents(self.store)
        return Sqlite(self.state, found, self.store, contents, generation=self.generation)

    @cached_property
    def outside(self) -> Outside:
        contents = StoredContents(self.store)
        return Outside(
            self.state,
            self.store,
            contents,
            claimed=lambda: {*self._claimed_outside(), os.fsencode(self.state.parent.parent)},
            generation=self.generation,
            progress=self.progress,
        )

    @cached_property
    def observed(self) -> list[Observed]:
        """What is looked at before and after each action, in the order in which it is taken back."""
        # Files last: what the others write into folders does not stay as a folder's time. Outside first: git tells of
        # a worktree there that stays.
        return [self.outside, self.sqlite, self.git, self.files]

    @cached_property
    def lock(self) -> WorkspaceLock:
        return WorkspaceLock(self.state / "lock", refuse=self._refuse_another_bucket)

    @cached_property
    def tracker(self) -> Tracker:
        life = SignsOfLife(self.state / "alive")
        return Tracker(
            self.ledger,
            self.observed,
            self.lock,
            life,
            self.state.name,
            told=self._told,
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
        """What psql, called with these words, would do to databases under guard; None where that is nothing."""
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
        """What a command is given besides, so that databases know what it does as this action's."""
        if not self.postgres.living():
            return {}
        return {"PGOPTIONS": connection.options(self._token(action), environment.postgres_options())}

    @cached_property
    def calls(self) -> RecordedCalls:
        return RecordedCalls(ValueStore(self.store, self.lock))

    @cached_property
    def _told(self) -> list[Resource]:
        """Resources whose changes are told by whoever makes them."""
        history = self.ledger.history
        return [
            self.intents,
            CallsResource(history.latest, lambda id: self.calls.known(history.actions[id])),
            MemoryResource(history.latest, history.timeline),
        ]

    @property
    def outbox(self) -> Outbox:
        """What runs have deferred."""
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
        """Tells webhooks of every event."""
        marks, source = AuditMarks(self.state / "audit"), location.source_of(self.state)
        pause = partial(pause_s, self._manner)
        return Audit(self.journal, marks, SystemClock(), source, self._webhooks, pause)

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
        """Deliver what a run has deferred. It has committed, so nothing that goes wrong here is its failure."""
        try:
            service = self.courier()
            service.run(once=True, run=run)
            self.notices += service.failures
        except TakebackError as error:
            self.notices.append(
                f"what {run} deferred is left to a worker (`takeback outbox worker`): {error.message}"
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
        """A worker of the outbox: see `Workspace.courier`."""
        from takeback.engine.outbox.service import OutboxService  # only who delivers needs it

        if not self.ledger.history.seq:
            # It needs the history for this alone, and nothing of the very many intents that may be in it.
            self.trusted.read_without_intents()
        return OutboxService(
            self.outbox,
            self._delivery,
            SystemClock(),
            self.audit,
            source=str(self.root),
            notifiers=lambda: [*self._notifiers(), *notify],
            health=health,
            concurrency=concurrency,
            listener=listener,
        )

    def _notifiers(self) -> list[str]:
        """Those that the monitor of this workspace tells."""
        from takeback.workflows.monitor import Monitor  # needed for a dead letter, if there is one

        monitor = Monitor(self.root, self.state.parent.parent / "monitor" / self.state.name)
        found: list[str] = monitor.settings()["notify"]
        return found

    @cached_property
    def leases(self) -> Leases:
        """Who may work on what."""
        return Leases(self.journal.leases, self.root, environment.here, self.ledger.refresh, self.recover)

    @cached_property
    def locks(self) -> LockGuard:
        """What actions must keep off, because others have locked it."""
        return LockGuard(self.leases, self.ledger, lambda: self.settings.locks.on_foreign)

    @cached_property
    def rollbacks(self) -> Rollbacks:
        return Rollbacks(self.tracker, self.calls, environment.actor())

    @cached_property
    def databases(self) -> ByPlace:
        """The databases that runs write through Takeback."""
        return ByPlace(
            SqliteDatabases(self.root, self.sqlite.found, self.excluded),
            Servers(self.postgres, self._token),
        )

    @cached_property
    def runs(self) -> Runs:
        """Runs, and what they need of humans."""
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
        """What commands would do here."""
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
        """What lies outside the workspace and is looked after all the same: its repository, databases under guard."""
        return self.sqlite.found.claimed_outside() | self.git.claimed_outside()

    def _limits_outside(self) -> CaptureLimits:
        given = self.settings.outside
        return CaptureLimits(given.capture, given.max_files, given.max_bytes)

    def _judging(self, roots: Sequence[str] = ()) -> Judging:
        """The rules, for one run. `roots` are places outside that it looks at anyway."""
        return Judging(
            self.settings.rules,
            self.root,
            self.settings.tools,
            self.foresight,
            environment.here,
            roots,
        )

    def recover(self) -> None:
        """Finish and settle what a crash left open; `notices` says what was done."""
        self.ledger.refuse_elsewhere()
        with self.lock.held():
            history = self.history
            if not history.open_runs() and not history.has_unended:
                return
            if finished := self.rollbacks.finish():
                self.notices.append(f"finished the {finished.kind} that was cut short. {finished}")
            self.notices += recovery.settle(self.tracker, self.calls)

    def close(self) -> None:
        for resource in self.observed if "observed" in self.__dict__ else ():
            resource.remember()
            resource.close()
        if "store" in self.__dict__:
            self.store.close()
        self.ledger.rest()
        # A journal that cannot be read has told so, and nothing else depends on the note.
        with suppress(TakebackError):
            lost_history.note_head(self.state, self.root, self.journal)
        self.journal.close()


def _agents_settings() -> set[bytes]:
    """The settings of agents in the user's own folders, as they are called and where they really are."""
    found = [os.fsencode(path) for path in agent_files.all_of_user()]
    return {place for path in found for place in (os.path.normpath(path), os.path.realpath(path))}
