"""Which settings hold: takeback.toml as no agent wrote it, and of it what a human has accepted where that is needed.

An agent must not loosen its own protection, and a folder must not bring its own loosening along.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from difflib import unified_diff
from pathlib import Path
from typing import get_args

import msgspec

from takeback.core.change import Target
from takeback.core.codec import digest
from takeback.core.events import ConfigAccepted, Mark
from takeback.core.history import History
from takeback.core.intents import IntentEvent
from takeback.engine.ledger import Ledger
from takeback.errors import ConflictError
from takeback.ports.content import Contents
from takeback.ports.journal import Journal
from takeback.resources.files.entry import FILE, LINK, FileEntry, entry_of, version_of
from takeback.resources.files.resource import file_text, tree_of
from takeback.resources.files.tree import deltas
from takeback.settings import environment, toml
from takeback.settings.loosening import Setting, holding, to_accept
from takeback.storage.state import acceptance, location
from takeback.storage.state.lock import WorkspaceLock

CONFIG = Target("files", toml.FILE)
ACCEPT = "takeback init --accept-config"
BESIDE = "something beside the session that is open"
SHOWN_MAX = 5

Kept = Callable[[], tuple[Contents, Callable[[bytes], bytes]]]
"""All content, and all blobs."""


class Held(msgspec.Struct, frozen=True):
    """The settings that hold, and what of the file does not."""

    settings: toml.Config
    pending: tuple[Setting, ...] = ()
    """What nobody has accepted yet: the default holds in its place."""
    since: str = ""
    """The action, or the change beside a session, whose edit of the file does not hold."""
    text: bytes | None = None
    """The file from which they are."""

    @property
    def notice(self) -> str:
        """What a human has to know of it; nothing where the file holds as it is."""
        if self.since:
            return (
                f"{toml.FILE} was changed by {self.since}; the settings from before it hold until you accept "
                f"the change with `{ACCEPT}`"
            )
        if not self.pending:
            return ""
        shown = ", ".join(map(str, self.pending[:SHOWN_MAX]))
        more = f" and {len(self.pending) - SHOWN_MAX} more" if len(self.pending) > SHOWN_MAX else ""
        return (
            f"{toml.FILE} has settings that you have not accepted, so the defaults hold in their place: "
            f"{shown}{more}. Look at them, then: `{ACCEPT}`"
        )


class Offer(msgspec.Struct, frozen=True):
    """takeback.toml as a human is shown it, to be accepted exactly so."""

    text: bytes | None
    asked: tuple[Setting, ...] = ()
    since: str = ""
    """What wrote the file since a human did: the whole of it has to be accepted."""
    before: bytes | None = None
    """The file that holds until then."""

    @property
    def diff(self) -> list[str]:
        """What would hold otherwise than now, line by line."""
        old, new = ((text or b"").decode(errors="replace").splitlines() for text in (self.before, self.text))
        return list(unified_diff(old, new, "holds now", toml.FILE, lineterm=""))

    @property
    def digest(self) -> str:
        return digest(self.text or b"")


class TrustedSettings:
    """The settings of one workspace: which of them hold, and what a human accepts of the others."""

    def __init__(
        self,
        root: Path,
        state: Path,
        ledger: Ledger,
        lock: WorkspaceLock,
        *,
        contents: Kept,
        observe: Callable[[], object],
        notices: list[str],
    ) -> None:
        self._root = root
        self._state = state
        self._ledger = ledger
        self._lock = lock
        self._contents = contents
        self._observe = observe
        self._notices = notices
        self._settings: toml.Config | None = None

    @property
    def settings(self) -> toml.Config:
        """The settings that held when they were first asked for, or last accepted."""
        if self._settings is None:
            self._settings = self._noticed(self.held)
        return self._settings

    @property
    def held(self) -> Held:
        """Which settings hold now, and which wait for a human."""
        return self._held(self._ledger.refresh())

    def _held(self, history: History) -> Held:
        return settings_of(self._root, history, self._contents, acceptance.read(self._state).accepted)

    def read_without_intents(self) -> None:
        """Read the settings by a history without intents, where nobody has asked for them yet."""
        if self._settings is None:
            self._settings = self._noticed(self._held(without_intents(self._ledger.journal)))

    def _noticed(self, held: Held) -> toml.Config:
        declined, kept = acceptance.read(self._state).declined, location.read(self._state)
        is_known = not held.since and {one.digest for one in held.pending} <= declined
        notice = "" if is_known else held.notice
        if not notice and held.settings.store.store and not (kept and kept.store):
            notice = (
                f"{toml.FILE} names a store, but the history of this workspace is on this machine: a workspace "
                "stays where it was begun; `takeback store copy` moves it"
            )
        self._notices += [notice] if notice else []
        return held.settings

    def offer(self) -> Offer:
        """takeback.toml as it is now, for a human who may accept it."""
        text = toml.read_text(self._root)
        given = toml.parse_config(text or b"", self._root / toml.FILE)
        accepted = acceptance.read(self._state).accepted
        asked = tuple(one for one in to_accept(given) if one.digest not in accepted)
        held, since = self.held, BESIDE if self._has_changed_unseen else ""
        return Offer(text, asked, held.since or since, held.text)

    @property
    def _has_changed_unseen(self) -> bool:
        """Whether somebody has written takeback.toml beside a session, and nobody has recorded it yet."""
        history = self._ledger.refresh()
        return history.is_in_session and changed_unseen(self._root, history, self._contents)

    def note(self) -> None:
        """Record what a human wrote into takeback.toml, before a session begins: beside one it would be in doubt."""
        with self._lock.held():
            history = self._ledger.refresh()
            if not history.is_in_session and changed_unseen(self._root, history, self._contents):
                self._observe()

    def accept_offer(self, offer: Offer) -> None:
        """Accept what a human has been shown. ConflictError where the file has changed meanwhile."""
        with self._lock.held():
            if toml.read_text(self._root) != offer.text:
                raise ConflictError(
                    f"{toml.FILE} has changed since it was shown; nothing was accepted", hint="look again"
                )
            acceptance.note(self._state, accepted=[one.digest for one in offer.asked])
            if self._may_write:
                if offer.since:
                    self._observe()
                known = self._ledger.refresh().timeline(CONFIG)
                version = known[-1].change.after.id if known else ""
                names = tuple(map(str, offer.asked))
                self._ledger.append([ConfigAccepted(version, environment.actor(), toml.FILE, names)])
                for target in targets(self._root)[1:]:
                    self.accept(target)
        self._settings = None

    @property
    def _may_write(self) -> bool:
        """Whether the workspace sits here: to a history that is only looked at nothing is written."""
        seats, seat = self._ledger.journal.seats, self._ledger.refresh().moves.seat
        return not (seats and seat and seat.place.id != seats.place.id)

    def accept(self, target: Target) -> None:
        """Accept what an action wrote there, which a human has seen."""
        history = self._ledger.refresh()
        if history.untrusted_since(target, beside=True):
            latest = history.timeline(target)[-1].change.after
            self._ledger.append([ConfigAccepted(latest.id, environment.actor(), target.name)])


def settings_of(root: Path, history: History, contents: Kept, accepted: Collection[str]) -> Held:
    """The settings that hold. Content is asked for only where it is needed."""
    text, since = _trusted(root, history, contents)
    given = toml.parse_config(text or b"", root / toml.FILE)
    pending = tuple(one for one in to_accept(given) if one.digest not in accepted)
    return Held(holding(given, accepted), pending, since, text)


def targets(root: Path) -> list[Target]:
    """What is accepted with the settings: the file, and where it is a link into the workspace what it leads to."""
    path = root / toml.FILE
    led = _led(root, os.readlink(path)) if path.is_symlink() else None
    return [CONFIG, led] if led else [CONFIG]


def _led(root: Path, link: str) -> Target | None:
    """Where such a link leads in the workspace; None where it leads out of it."""
    path = os.path.relpath(os.path.normpath(root / link), root)
    return None if path.startswith("..") else Target(CONFIG.resource, path)


def _trusted(root: Path, history: History, contents: Kept) -> tuple[bytes | None, str]:
    """The file as no agent wrote it, and what wrote it since."""
    running = [action for action in history.open_actions() if action.is_tool]
    if running:
        # It may be writing the file now.
        marks = [m for m in getattr(running[0].began, "marks", ()) if m.resource == CONFIG.resource]
        return (_recorded(root, history, marks[0], contents) if marks else toml.read_text(root)), ""
    recorded = history.marks.get(CONFIG.resource)
    for target in targets(root):
        if recorded and (entry := history.untrusted_since(target, beside=True)):
            return _text(root, history, recorded, entry_of(entry.change.before), contents), entry.action
    if recorded and history.is_in_session:
        # What is on disk may be what something in the background wrote just now: nobody has recorded it yet.
        return _recorded(root, history, recorded, contents), ""
    return toml.read_text(root), ""


def changed_unseen(root: Path, history: History, contents: Kept) -> bool:
    """Whether the file is another one than was last recorded."""
    recorded = history.marks.get(CONFIG.resource)
    return recorded is not None and _recorded(root, history, recorded, contents) != toml.read_text(root)


def _recorded(root: Path, history: History, mark: Mark, contents: Kept) -> bytes | None:
    return _text(root, history, mark, _entry(mark, CONFIG, contents), contents)


def _text(root: Path, history: History, mark: Mark, entry: FileEntry | None, contents: Kept) -> bytes | None:
    """What the settings read as. Of a link, what it leads to: as recorded, or outside the workspace as it is now."""
    if entry is not None and entry.kind == LINK:
        link = os.fsdecode(entry.content)
        led = _led(root, link)
        if led is None:
            return toml.read_text(root, link)
        written = history.untrusted_since(led, beside=True)
        entry = entry_of(written.change.before) if written else _entry(mark, led, contents)
    return file_text(contents()[0], version_of(entry)) if entry and entry.kind == FILE else None


def _entry(mark: Mark, target: Target, contents: Kept) -> FileEntry | None:
    return deltas.lookup(tree_of(mark.state), os.fsencode(target.name), contents()[1])


def without_intents(journal: Journal) -> History:
    """Enough of the history to tell which settings hold."""
    intents = get_args(IntentEvent)
    return History.of(record for record in journal.read() if not isinstance(record.event, intents))
