"""The settings that hold: takeback.toml without edits by agents, and without loosening that no human has accepted.

An agent must not loosen its own protection, and neither must a folder by the file that it comes with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.core.change import Target
from takeback.core.codec import digest
from takeback.core.events import ConfigAccepted, Mark
from takeback.core.history import History
from takeback.core.trust import untrusted_since
from takeback.engine.ledger import Ledger
from takeback.errors import ConflictError
from takeback.ports.content import Contents
from takeback.settings import environment, toml
from takeback.settings.loosening import Setting, holding, to_accept
from takeback.storage.state import acceptance, location
from takeback.storage.state.lock import WorkspaceLock

CONFIG = Target("files", toml.FILE)
ACCEPT = "takeback init --accept-config"
BESIDE = "something outside the open session"
SHOWN_MAX = 5

# What reads the recorded versions of a file is loaded where one is asked for: mostly it is the file itself.
if TYPE_CHECKING:
    from takeback.resources.files.entry import FileEntry

Kept = Callable[[], tuple[Contents, Callable[[bytes], bytes]]]
"""All content, and all blobs."""


class Held(msgspec.Struct, frozen=True):
    """The settings that hold, and those of the file that do not."""

    settings: toml.Config
    pending: tuple[Setting, ...] = ()
    """Settings that no human has accepted yet: their defaults hold instead."""
    since: str = ""
    """The action, or the change outside a session, whose edit of the file does not hold."""
    text: bytes | None = None
    """The file that they come from."""

    @property
    def notice(self) -> str:
        """A message for the human; empty if the whole file holds."""
        if self.since:
            return (
                f"{toml.FILE} was changed by {self.since}; the earlier settings hold until you accept the change "
                f"with `{ACCEPT}`"
            )
        if not self.pending:
            return ""
        shown = ", ".join(map(str, self.pending[:SHOWN_MAX]))
        more = f" and {len(self.pending) - SHOWN_MAX} more" if len(self.pending) > SHOWN_MAX else ""
        return (
            f"{toml.FILE} has settings that you have not accepted, so their defaults hold: "
            f"{shown}{more}. Look at them, then: `{ACCEPT}`"
        )


class Offer(msgspec.Struct, frozen=True):
    """takeback.toml as shown to a human, who accepts exactly this text."""

    text: bytes | None
    asked: tuple[Setting, ...] = ()
    since: str = ""
    """What wrote the file after a human did: then the whole file has to be accepted."""
    before: bytes | None = None
    """The text that holds until then."""

    @property
    def diff(self) -> list[str]:
        """The difference to what holds now, line by line."""
        old, new = ((text or b"").decode(errors="replace").splitlines() for text in (self.before, self.text))
        return list(unified_diff(old, new, "holds now", toml.FILE, lineterm=""))

    @property
    def digest(self) -> str:
        return digest(self.text or b"")


class TrustedSettings:
    """The settings of one workspace: which of them hold, and which a human accepts."""

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
        """The settings that held when they were first read, or last accepted."""
        if self._settings is None:
            self._settings = self._noticed(self.held)
        return self._settings

    @property
    def held(self) -> Held:
        """The settings that hold now, and those that wait for a human."""
        return self._held(self._ledger.refresh())

    def _held(self, history: History) -> Held:
        return settings_of(self._root, history, self._contents, acceptance.read(self._state).accepted)

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
        """Return takeback.toml as it is now, for a human to accept."""
        text = toml.read_text(self._root)
        given = toml.parse_config(text or b"", self._root / toml.FILE)
        accepted = acceptance.read(self._state).accepted
        asked = tuple(one for one in to_accept(given) if one.digest not in accepted)
        held, since = self.held, BESIDE if self._has_changed_unseen else ""
        return Offer(text, asked, held.since or since, held.text)

    @property
    def _has_changed_unseen(self) -> bool:
        """Whether takeback.toml was changed outside the open session, and that is not recorded yet."""
        history = self._ledger.refresh()
        return history.is_in_session and changed_unseen(self._root, history, self._contents)

    def note(self) -> None:
        """Record a human's edit of takeback.toml before a session begins: during one, its author is in doubt."""
        with self._lock.held():
            history = self._ledger.refresh()
            if not history.is_in_session and changed_unseen(self._root, history, self._contents):
                self._observe()

    def accept_offer(self, offer: Offer) -> None:
        """Accept what a human was shown. Raise ConflictError if the file has changed meanwhile."""
        with self._lock.held():
            if toml.read_text(self._root) != offer.text:
                raise ConflictError(
                    f"{toml.FILE} has changed since it was shown; nothing was accepted",
                    hint="look at it again",
                )
            acceptance.note(self._state, accepted=[one.digest for one in offer.asked])
            if self._may_write:
                if offer.since:
                    self._observe()
                known = next(self._ledger.refresh().latest_entries(CONFIG), None)
                version = known.change.after.id if known else ""
                names = tuple(map(str, offer.asked))
                self._ledger.append([ConfigAccepted(version, environment.actor(), toml.FILE, names)])
                for target in targets(self._root)[1:]:
                    self.accept(target)
        self._settings = None

    @property
    def _may_write(self) -> bool:
        """Whether the workspace sits here. A history that is only read from here is not written to."""
        seats, seat = self._ledger.journal.seats, self._ledger.refresh().moves.seat
        return not (seats and seat and seat.place.id != seats.place.id)

    def accept(self, target: Target) -> None:
        """Accept what an action wrote to this target, after a human has seen it."""
        history = self._ledger.refresh()
        if untrusted_since(history, target, beside=True):
            latest = history.latest(target)
            self._ledger.append([ConfigAccepted(latest.id, environment.actor(), target.name)])


def settings_of(root: Path, history: History, contents: Kept, accepted: Collection[str]) -> Held:
    """Return the settings that hold. Content is read only if needed."""
    text, since = _trusted(root, history, contents)
    given = toml.parse_config(text or b"", root / toml.FILE)
    pending = tuple(one for one in to_accept(given) if one.digest not in accepted)
    return Held(holding(given, accepted), pending, since, text)


def unaccepted(root: Path, state: Path) -> list[Setting]:
    """Return the settings in takeback.toml that need a human and have not been accepted."""
    accepted = acceptance.read(state).accepted
    return [one for one in to_accept(toml.read_config(root)) if one.digest not in accepted]


def declined(state: Path) -> Collection[str]:
    """Return the digests of settings that a human declined."""
    return acceptance.read(state).declined


def decline(state: Path, digests: Iterable[str]) -> None:
    """Note that a human declined these, so that nobody is asked about them again."""
    acceptance.note(state, declined=digests)


def targets(root: Path) -> list[Target]:
    """Return what is accepted with the settings: the file, and its target if it is a link into the workspace."""
    path = root / toml.FILE
    led = _led(root, os.readlink(path)) if path.is_symlink() else None
    return [CONFIG, led] if led else [CONFIG]


def _led(root: Path, link: str) -> Target | None:
    """Return the target of such a link in the workspace, or None if it leads outside."""
    path = os.path.relpath(os.path.normpath(root / link), root)
    return None if path.startswith("..") else Target(CONFIG.resource, path)


def _trusted(root: Path, history: History, contents: Kept) -> tuple[bytes | None, str]:
    """Return the file without edits by agents, and what has edited it since."""
    running = [action for action in history.open_actions() if action.is_tool]
    if running:
        # It may be writing the file now.
        marks = [m for m in running[0].began.marks if m.resource == CONFIG.resource]
        return (_recorded(root, history, marks[0], contents) if marks else toml.read_text(root)), ""
    recorded = history.marks.get(CONFIG.resource)
    for target in targets(root):
        if recorded and (entry := untrusted_since(history, target, beside=True)):
            from takeback.resources.files.entry import entry_of

            return _text(root, history, recorded, entry_of(entry.change.before), contents), entry.action
    if recorded and history.is_in_session:
        # A background process may have written the file on disk just now, without a record yet.
        return _recorded(root, history, recorded, contents), ""
    return toml.read_text(root), ""


def changed_unseen(root: Path, history: History, contents: Kept) -> bool:
    """Return True if the file differs from the last record of it."""
    recorded = history.marks.get(CONFIG.resource)
    return recorded is not None and _recorded(root, history, recorded, contents) != toml.read_text(root)


def _recorded(root: Path, history: History, mark: Mark, contents: Kept) -> bytes | None:
    return _text(root, history, mark, _entry(mark, CONFIG, contents), contents)


def _text(root: Path, history: History, mark: Mark, entry: FileEntry | None, contents: Kept) -> bytes | None:
    """Return the text of the settings. For a link, read its target: as recorded, or as it is now if it is outside."""
    from takeback.resources.files.entry import FILE, LINK, entry_of, version_of
    from takeback.resources.files.resource import file_text

    if entry is not None and entry.kind == LINK:
        link = os.fsdecode(entry.content)
        led = _led(root, link)
        if led is None:
            return toml.read_text(root, link)
        written = untrusted_since(history, led, beside=True)
        entry = entry_of(written.change.before) if written else _entry(mark, led, contents)
    return file_text(contents()[0], version_of(entry)) if entry and entry.kind == FILE else None


def _entry(mark: Mark, target: Target, contents: Kept) -> FileEntry | None:
    from takeback.resources.files.resource import tree_of
    from takeback.resources.files.tree import deltas

    return deltas.lookup(tree_of(mark.state), os.fsencode(target.name), contents()[1])
