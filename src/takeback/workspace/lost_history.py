"""Finding out whether a workspace's history was removed, cut or replaced."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from takeback.core.codec import path_of
from takeback.errors import BackendError, CorruptionError
from takeback.ports.journal import Journal
from takeback.settings import environment
from takeback.storage.state import location, witness
from takeback.storage.state.registry import identity
from takeback.storage.state.witness import Witness

__all__ = [
    "FRESH",
    "Lost",
    "Witness",
    "forget",
    "known_of",
    "lost",
    "note_head",
    "recall",
    "register",
    "remember",
]

FRESH = "takeback init --fresh"


class Lost(msgspec.Struct, frozen=True):
    """A history that existed and is gone."""

    root: str
    state: Path
    since_us: int
    noted: int = 0
    """The number of its records, if the present history begins alike but is older or differs; otherwise zero."""

    def __str__(self) -> str:
        if self.noted:
            return (
                f"the history of {self.root} is older than what was recorded: its record {self.noted:,} is missing "
                f"or differs. {self.state} was truncated or replaced by an older copy, so later actions cannot be "
                "taken back"
            )
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since_us / 1e6))
        return (
            f"{self.root} has been protected since {since}, but that history is gone: {self.state} was "
            "removed or replaced, so nothing in it can be taken back"
        )

    @property
    def hint(self) -> str:
        return f"restore that folder from a backup; or continue without it: {FRESH}"

    @property
    def error(self) -> CorruptionError:
        return CorruptionError(str(self), hint=self.hint)


def lost(state: Path, root: Path, journal: Journal | None) -> Lost | None:
    """Return the history that this directory had before, if the journal is not that one."""
    known = _known(state, root, journal)
    return _missing(known, state, root, journal) if known else None


def _missing(known: Witness, state: Path, root: Path, journal: Journal | None) -> Lost | None:
    try:
        first = journal.get(1) if journal else None
    except CorruptionError:
        first = None
    if journal is None or first is None or first.digest != known.began:
        return Lost(os.fspath(root), state, known.since_us)
    return None if _has(journal, known) else Lost(os.fspath(root), state, known.since_us, known.count)


def _has(journal: Journal, known: Witness) -> bool:
    """Return True if the journal has the last noted record. It normally has more."""
    try:
        last = journal.get(known.count) if known.count else None
    except CorruptionError:
        return True  # the record is damaged, not missing: reading it reports that
    return not known.count or bool(last and last.digest == known.head)


def note_head(state: Path, root: Path, journal: Journal) -> None:
    """Note the last durable record of the history. The note about a lost history stays unchanged."""
    known = _known(state, root, journal)
    if known is None:
        return
    now = journal.durable_head()
    if now.count > known.count and _missing(known, state, root, journal) is None:
        remember(msgspec.structs.replace(known, count=now.count, head=now.digest))


def register(state: Path, root: Path, journal: Journal, *, anew: bool = False) -> Lost | None:
    """Note the history of a workspace apart from its state. Return the history that is noted there and lost.

    A lost one stays noted until a human starts `anew`.
    """
    if known := None if anew else _known(state, root, journal):
        return _missing(known, state, root, journal)
    first = None if _is_shared(state, journal) else journal.get(1)
    if first is not None:
        remember(witness.made(root, state, identity(root), first.digest, first.at_us))
    return None


def _is_shared(state: Path, journal: Journal | None) -> bool:
    """Return True if the history is in a shared store: it is not lost with the state folder."""
    if journal is not None:
        return journal.seats is not None
    kept = location.read(state)
    return bool(kept and kept.store)


def forget(state: Path) -> None:
    """Remove the note, because a human continues without that history."""
    witness.remove(environment.witness_folder(), state)


def known_of(state: Path) -> Witness | None:
    """Return the note about a state folder, if any."""
    return witness.read(environment.witness_folder(), state)


def recall(note: Witness) -> None:
    """Write a missing note again, for a process that has this history open."""
    if known_of(Path(os.fsdecode(path_of(note.state)))) is None:
        remember(note)


def remember(note: Witness) -> None:
    """Write a note if possible: nothing else depends on it."""
    try:
        witness.write(environment.witness_folder(), note)
    except BackendError:
        # Work goes on even if the data folder cannot be written; `doctor` reports it.
        return


def _known(state: Path, root: Path, journal: Journal | None) -> Witness | None:
    """Return the note about exactly this directory."""
    known = None if _is_shared(state, journal) else known_of(state)
    here = identity(root) if known and known.identity else ""
    is_another = known and here and known.identity != here
    return None if is_another else known


def nothing_recorded(state: Path) -> CorruptionError:
    """Return the error for a journal in which nothing is left."""
    return CorruptionError(
        f"the journal in {state} is empty: what was recorded is gone. Nothing was taken back",
        hint=f"restore that folder from a backup; or continue without it: {FRESH}",
    )
