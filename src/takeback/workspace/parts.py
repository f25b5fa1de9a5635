"""The parts of a workspace and how they fit together. Each is made when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from pathlib import Path

from takeback.core import events as e
from takeback.core.change import Target
from takeback.core.history import History
from takeback.core.intents import AttemptOutcome, Queued
from takeback.engine.gate.foresight import Foresight
from takeback.engine.gate.rules import Judging
from takeback.engine.ledger import Ledger
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.outbox.delivery import Delivery, Manner, pause_s
from takeback.engine.outbox.resource import OutboxResource
from takeback.engine.outbox.webhooks import Audit, Webhook
from takeback.engine.outbox.worker import Tally, Worker, bury
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.runs import Runs
from takeback.engine.runs.values import ValueStore
from takeback.engine.tracking import own_processes, recovery
from takeback.engine.tracking.signs_of_life import SignsOfLife
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import BackendError, ConflictError, StoreMoved, TakebackError
from takeback.ports.content import Contents
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
from takeback.settings import environment, toml
from takeback.settings.loosening import to_accept
from takeback.storage.content.packs import PackStore
from takeback.storage.content.stored_contents import StoredContents
from takeback.storage.state import acceptance, location
from takeback.storage.state.generation import Generation
from takeback.storage.state.lock import WorkspaceLock
from takeback.storage.state.webhook_marks import AuditMarks
from takeback.system.clock import SystemClock
from takeback.workspace import lost_history
from takeback.workspace.databases import ByPlace
from takeback.workspace.lost_history import Lost
from takeback.workspace.store import content
from takeback.workspace.trusted_settings import (
    CONFIG,
    Held,
    Offer,
    changed_unseen,
    settings_of,
    targets,
    without_intents,
)

BESIDE = "something beside the session that is open"


class Assembly:
    """One protected directory: its state, its settings, and the parts that work on them."""

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal,
        *,
        watching: bool = False,
        progress: Progress = silent,
    ) -> None:
        self.root = root
        self.state = state
        self.journal = journal
        self.ledger = Ledger(journal, self._share)
        self.notices: list[str] = []
        """What was found and settled of an earlier crash, in words, for whoever can tell the user."""
        self._watching = watching
        self._progress = progress

    @property
    def history(self) -> History:
        """What the journal says now."""
        return self.ledger.refresh()

    @property
    def lost(self) -> Lost | None:
        """The history that this directory had before, if it is not this one."""
        return lost_history.lost(self.state, self.root, self.journal)

    # The parts, each made when it is first needed: reading the log opens no content store.

    @cached_property
    def settings(self) -> toml.Config:
        """takeback.toml, as far as it holds: neither an agent nor a folder may loosen its own protection."""
        held = self._held(self.history)
        self._tell(held)
        return held.settings

    @property
    def held(self) -> Held:
        """Which settings hold now, and which wait for a human."""
        return self._held(self.history)

    def _held(self, history: History) -> Held:
        return settings_of(self.root, history, self._contents, acceptance.read(self.state).accepted)

    def _tell(self, held: Held) -> None:
        declined, kept = acceptance.read(self.state).declined, location.read(self.state)
        is_known = not held.since and {one.digest for one in held.pending} <= declined
        notice = "" if is_known else held.notice
        if not notice and held.settings.store.store and not (kept and kept.store):
            notice = (
                f"{toml.FILE} names a store, but the history of this workspace is on this machine: a workspace "
                "stays where it was begun; `takeback store copy` moves it"
            )
        self.notices += [notice] if notice else []

    def _contents(self) -> tuple[Contents, Callable[[bytes], bytes]]:
        return StoredContents(self.store), self.store.get

    def offer(self) -> Offer:
        """takeback.toml as it is now, for a human who may accept it."""
        text = toml.read_text(self.root)
        given = toml.parse_config(text or b"", self.root / toml.FILE)
        accepted = acceptance.read(self.state).accepted
        asked = tuple(one for one in to_accept(given) if one.digest not in accepted)
        held, since = self._held(self.history), BESIDE if self._has_changed_unseen else ""
        return Offer(text, asked, held.since or since, held.text)

    @property
    def _has_changed_unseen(self) -> bool:
        """Whether somebody has written takeback.toml beside a session, and nobody has recorded it yet."""
        history = self.history
        return history.is_in_session and changed_unseen(self.root, history, self._contents)

    def note_settings(self) -> None:
        """Record what a human wrote into takeback.toml, before a session begins: beside one it would be in doubt."""
        with self.lock.held():
            history = self.history
            if not history.is_in_session and changed_unseen(self.root, history, self._contents):
                self.tracker.observe()

    def accept_offer(self, offer: Offer) -> None:
        """A human has seen this, and wants it so. ConflictError where the file has changed meanwhile."""
        with self.lock.held():
            if toml.read_text(self.root) != offer.text:
                raise ConflictError(
                    f"{toml.FILE} has changed since it was shown; nothing was accepted", hint="look again"
                )
            acceptance.note(self.state, accepted=[one.digest for one in offer.asked])
            if self._may_write:
                if offer.since:
                    self.tracker.observe()
                known = self.history.timeline(CONFIG)
                version = known[-1].change.after.id if known else ""
                names = tuple(map(str, offer.asked))
                self.ledger.append([e.ConfigAccepted(version, environment.actor(), toml.FILE, names)])
                for target in targets(self.root)[1:]:
                    self.accept(target)
        self.__dict__.pop("settings", None)

    @property
    def _may_write(self) -> bool:
        """Whether the workspace sits here: to a history that is only looked at nothing is written."""
        seats, seat = self.journal.seats, self.history.moves.seat
        return not (seats and seat and seat.place.id != seats.place.id)

    def accept(self, target: Target) -> None:
        """A human has seen what an action wrote there, and wants it so."""
        if self.history.untrusted_since(target, beside=True):
            latest = self.history.timeline(target)[-1].change.after
            self.ledger.append([e.ConfigAccepted(latest.id, environment.actor(), target.name)])

    @cached_property
    def store(self) -> PackStore:
        """All content: on this machine, and in a bucket besides where one is configured."""
        where = self.state, self._kept, self.journal, self.lock
        return content.store_for(*where, self._progress, self._generation.rise)

    @cached_property
    def _kept(self) -> location.StoreLocation:
        """Where content is kept, as far as this process knows."""
        return location.read(self.state) or location.HERE

    def _refuse_another_bucket(self) -> None:
        """What goes to the bucket of before would not be found where the history is read from now on."""
        if self.journal.seats and not location.is_same_bucket(self._kept, location.read(self.state)):
            raise StoreMoved(
                "the content of this workspace has gone to another bucket meanwhile; nothing was recorded",
                hint="start again what has had it open since before",
            )

    def _share(self, again: bool) -> Collection[int]:  # noqa: FBT001
        """What the ledger asks before it names content: that it is where others find it, too."""
        self._refuse_another_bucket()
        if not self._kept.blobs:
            return ()
        if again:
            self.store.renew()
        return self.store.share()

    @cached_property
    def _generation(self) -> Generation:
        return Generation(self.state / "generation")

    @cached_property
    def _excluded(self) -> Callable[[bytes], bool]:
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
            excluded=self._excluded,
            stated=[f"excluded by {toml.FILE}: {pattern}" for pattern in self.settings.files.exclude],
            claimed=lambda: workflow_folders(self.root),
            claims=self._sqlite.found,
            generation=self._generation,
            watching=self._watching,
            progress=self._progress,
            reserve=Reserve(self.state),
        )

    @cached_property
    def git(self) -> Git:
        return Git(
            self.root,
            self.state,
            self.store,
            StoredContents(self.store),
            generation=self._generation,
            keep_days=self.settings.store.keep_days,
            progress=self._progress,
            shelf=self.store.shelf,
        )

    @cached_property
    def _sqlite(self) -> Sqlite:
        found = KnownDatabases(self.root, self.state)
        contents = StoredContents(self.store)
        return Sqlite(self.state, found, self.store, contents, generation=self._generation)

    @cached_property
    def _outside(self) -> Outside:
        contents = StoredContents(self.store)
        return Outside(
            self.state,
            self.store,
            contents,
            claimed=lambda: {*self._claimed_outside(), os.fsencode(self.state.parent.parent)},
            generation=self._generation,
            progress=self._progress,
        )

    @cached_property
    def observed(self) -> list[Observed]:
        """What is looked at before and after each action, in the order in which it is taken back."""
        # Files last: what the others write into folders does not stay as a folder's time. Outside first: git tells of
        # a worktree there that stays.
        return [self._outside, self._sqlite, self.git, self.files]

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
            named=self._outside,
        )

    @cached_property
    def postgres(self) -> GuardedDatabases:
        """The guarded PostgreSQL databases."""
        return GuardedDatabases(self.state)

    def _token(self, action: str) -> str:
        return self.tracker.token(action)

    def environment_of(self, action: str) -> dict[str, str]:
        """What a command is given besides, so that databases know what it does as this action's."""
        if not self.postgres.living():
            return {}
        return {"PGOPTIONS": connection.options(self._token(action), environment.postgres_options())}

    @cached_property
    def _calls(self) -> RecordedCalls:
        return RecordedCalls(ValueStore(self.store, self.lock))

    @cached_property
    def _told(self) -> list[Resource]:
        """Resources whose changes are told by whoever makes them."""
        history = self.ledger.history
        return [
            self._intents,
            CallsResource(history.latest, lambda id: self._calls.known(history.actions[id])),
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
    def _intents(self) -> OutboxResource:
        return OutboxResource(
            self.outbox,
            self.ledger.history.latest,
            self._call_of,
            lambda: bury(self.outbox),
        )

    def _deliver(self, run: str) -> None:
        """Deliver what a run has deferred. It has committed, so nothing that goes wrong here is its failure."""
        try:
            self.courier().run(once=True, run=run)
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
        told: Callable[[AttemptOutcome], None] = lambda _: None,
        beat: Callable[[Tally], None] = lambda _: None,
        away: Callable[[BackendError], None] = lambda _: None,
    ) -> Worker:
        """A worker that delivers what committed runs have deferred."""
        if not self.ledger.history.seq and "settings" not in self.__dict__:
            # It needs the history for this alone, and nothing of the very many intents that may be in it.
            held = self._held(without_intents(self.journal))
            self._tell(held)
            self.__dict__["settings"] = held.settings
        return Worker(
            self.outbox,
            self._delivery,
            SystemClock(),
            concurrency=concurrency,
            told=told,
            beat=beat,
            away=away,
        )

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
        return Rollbacks(self.tracker, self._calls, environment.actor())

    @cached_property
    def runs(self) -> Runs:
        """Runs, and what they need of humans."""
        return Runs(
            self.tracker,
            self.rollbacks,
            self._calls,
            SystemClock(),
            self.recover,
            self._judging,
            self.root,
            ByPlace(
                SqliteDatabases(self.root, self._sqlite.found, self._excluded),
                Servers(self.postgres, self._token),
            ),
            self._deliver,
            self.leases,
            self.locks,
        )

    @cached_property
    def foresight(self) -> Foresight:
        """What commands would do here."""
        surveyor = OutsideSurveyor(
            self.root, self.state.parent.parent, self._limits_outside, self._claimed_outside
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
        return self._sqlite.found.claimed_outside() | self.git.claimed_outside()

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
            self.notices += recovery.settle(self.tracker, self._calls)
