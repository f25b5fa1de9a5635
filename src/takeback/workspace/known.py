"""What is known of a workspace without looking at it: its journal, its history, the settings that hold, and its lock.

Most commands only read. For these the parts that look, capture and put back are not loaded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from takeback.core.history import History
from takeback.engine.ledger import Ledger
from takeback.errors import StoreMoved, TakebackError, UsageError
from takeback.ports.journal import Journal
from takeback.ports.progress import Progress
from takeback.settings import environment, toml
from takeback.storage.index.stored_index import StoredIndex
from takeback.storage.state import location
from takeback.storage.state.lock import WorkspaceLock
from takeback.workspace import lost_history
from takeback.workspace.lost_history import Lost
from takeback.workspace.trusted_settings import TrustedSettings

if TYPE_CHECKING:
    from takeback.storage.content.memory import MemoryBlobs
    from takeback.workspace.parts import WorkspaceParts

FORGETTING = "forgetting"
"""A file in the state folder, there from before content is forgotten until all of it is removed."""


class KnownWorkspace:
    """One protected directory as its journal and its settings tell of it; `parts` has all that works on it."""

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal,
        *,
        watching: bool,
        progress: Progress,
        blobs: MemoryBlobs | None,
    ) -> None:
        self.root = root
        self.state = state
        self.journal = journal
        self.notices: list[str] = []
        """Messages for the user, such as what was settled after a crash."""
        self.watching = watching
        self.progress = progress
        self.blobs = blobs
        # What lives in memory ends with the process, and so do the answers to questions about it.
        index = None if blobs else StoredIndex(state, journal)
        self.ledger = Ledger(journal, self._share, index, progress, self.notices.append)
        self.ledger.waits = self.begin_telling

    @cached_property
    def parts(self) -> WorkspaceParts:
        """The parts that work on the directory: all of them are loaded with the first."""
        from takeback.workspace.parts import WorkspaceParts

        return WorkspaceParts(self)

    @property
    def history(self) -> History:
        """What the journal says now."""
        return self.ledger.refresh()

    @property
    def lost(self) -> Lost | None:
        """The history that this directory had before, if it is not this one."""
        return lost_history.lost(self.state, self.root, self.journal)

    @cached_property
    def called(self) -> str:
        """The name that tells its actions from those of all other workspaces, and of all views of this one."""
        home = self.state.parent.parent
        if not environment.is_view(home):
            return self.state.name
        from takeback.engine.stage.card import view_mark  # few processes are inside a view

        return f"{self.state.name}{view_mark(home)}"

    @property
    def source(self) -> str:
        """The source of the events, for others."""
        return location.source_of(self.state)

    @property
    def settings(self) -> toml.Config:
        """The settings of takeback.toml that hold: neither an agent nor a folder may loosen its own protection."""
        return self.trusted.settings

    @cached_property
    def trusted(self) -> TrustedSettings:
        """The settings that hold, and which of them a human has accepted."""
        return TrustedSettings(
            self.root,
            self.state,
            self.ledger,
            self.lock,
            contents=lambda: (self.parts.contents, self.parts.store.get),
            observe=self._observe,
            notices=self.notices,
        )

    @property
    def notifiers(self) -> list[str]:
        """Everybody who is told what waits for a human: from takeback.toml, and from `takeback monitor install`."""
        from takeback.workspace.notices.monitor import chosen_at_install  # needed only if something waits

        return [*self.settings.notify.to, *chosen_at_install(self.state)]

    @property
    def unreached(self) -> list[str]:
        """Which notifiers were not reached the last time, and why."""
        from takeback.workspace.notices import TOLD, folder_of

        if not os.path.exists(folder_of(self.state) / TOLD):
            return []  # mostly nobody was to be told anything
        return [str(one) for one in self.parts.notifier().read().unreached.values()]

    def begin_telling(self) -> None:
        """Let a process of its own tell of what waits for a human. Nothing that fails here fails the caller."""
        if self.blobs is not None:
            return  # no other process could read a history in memory, or answer what waits in it
        try:
            if self.notifiers:
                from takeback.workspace.notices.notifier import begin

                begin(self.root, self.state.parent.parent)
        except (TakebackError, OSError) as error:
            self.notices.append(f"nobody was told that something waits for you: {error}")

    def _observe(self) -> None:
        self.parts.tracker.observe()

    @cached_property
    def lock(self) -> WorkspaceLock:
        """Held for marks, rollbacks and garbage collection; not for the length of a run."""
        return WorkspaceLock(self.state / "lock", refuse=self._refuse_another_bucket)

    @property
    def has_stages(self) -> bool:
        """Whether there may be views of it."""
        return os.path.exists(self.state / "stages")

    @property
    def is_forgetting(self) -> bool:
        """Whether content was to be forgotten, and not all of it is certain to be removed."""
        return os.path.exists(self.state / FORGETTING)

    @cached_property
    def kept(self) -> location.StoreLocation:
        """Where content is kept, as far as this process knows."""
        return location.read(self.state) or location.HERE

    def _refuse_another_bucket(self) -> None:
        """Raise StoreMoved if the bucket has changed: content in the old one would not be found by the history."""
        if self.journal.seats and not location.is_same_bucket(self.kept, location.read(self.state)):
            raise StoreMoved(
                "the content of this workspace was moved to another bucket meanwhile; nothing was recorded",
                hint="restart the programs that had the workspace open before the move",
            )

    def _share(self, again: bool) -> Collection[int]:  # noqa: FBT001
        """Copy content to the bucket before an event names it, so that other machines find it, too."""
        self._refuse_another_bucket()
        if not self.kept.blobs:
            return ()
        if again:
            self.parts.store.renew()
        return self.parts.store.share()

    def close(self) -> None:
        """Close the journal, and the parts where there are any."""
        if "parts" in self.__dict__:
            self.parts.close()
        self.ledger.rest()
        self.ledger.close()
        # A journal that cannot be read has told so, and nothing else depends on the note.
        with suppress(TakebackError):
            lost_history.note_head(self.state, self.root, self.journal)
        self.journal.close()

    # A history that is gone

    def refuse_older(self) -> None:
        """Raise if the history was truncated: undo would take an older action for the last one."""
        if (gone := self.lost) and gone.noted:
            self.notices.clear()  # the error says the same
            raise gone.error

    def refuse_lost(self) -> None:
        """Raise if this directory had another history, or nothing was ever recorded in this one."""
        if gone := self.lost:
            self.notices.clear()  # the error says the same
            raise gone.error
        if not self.history.seq:
            raise lost_history.nothing_recorded(self.state)

    @contextmanager
    def missing_told(self) -> Iterator[None]:
        """Report a lost history instead of an unknown id: the id may be in that history."""
        try:
            yield
        except UsageError as error:
            if gone := self.lost:
                raise gone.error from error
            raise
