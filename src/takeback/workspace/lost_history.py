"""Whether the history of a workspace is the one that it had: what was removed has to be missed."""

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

FRESH = "takeback init --fresh"


class Lost(msgspec.Struct, frozen=True):
    """A history that was there and is not any more."""

    root: str
    state: Path
    since_us: int
    noted: int = 0
    """So many records it had, where there is an older or another history with the same beginning; else zero."""

    def __str__(self) -> str:
        if self.noted:
            return (
                f"the history of {self.root} is older than what was recorded: record {self.noted:,} of it is missing "
                f"or another one, so {self.state} was cut or replaced by an older copy, and what came since cannot "
                "be taken back"
            )
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since_us / 1e6))
        return (
            f"{self.root} has been protected since {since}, and the history from then is gone: {self.state} was "
            "removed or replaced, so nothing of it can be taken back"
        )

    @property
    def hint(self) -> str:
        return f"restore that folder from a backup; or go on without it: {FRESH}"

    @property
    def error(self) -> CorruptionError:
        return CorruptionError(str(self), hint=self.hint)


def lost(state: Path, root: Path, journal: Journal | None) -> Lost | None:
    """The history that this directory had before, if the journal is not the one of it."""
    known = _known(state, root)
    if known is None:
        return None
    try:
        first = journal.get(1) if journal else None
    except CorruptionError:
        first = None
    if journal is None or first is None or first.digest != known.began:
        return Lost(os.fspath(root), state, known.since_us)
    return None if _has(journal, known) else Lost(os.fspath(root), state, known.since_us, known.count)


def _has(journal: Journal, known: Witness) -> bool:
    """Whether the journal goes at least as far as what is noted. One that goes further is normal."""
    try:
        last = journal.get(known.count) if known.count else None
    except CorruptionError:
        return True  # it is there, and damaged: whoever reads it says so
    return not known.count or bool(last and last.digest == known.head)


def note_head(state: Path, root: Path, journal: Journal) -> None:
    """Note how far the history goes, as far as it is durable. One that is missed stays noted as it was."""
    known = _known(state, root)
    if known is None:
        return
    now = journal.durable_head()
    if now.count > known.count and lost(state, root, journal) is None:
        remember(msgspec.structs.replace(known, count=now.count, head=now.digest))


def register(state: Path, root: Path, journal: Journal, *, anew: bool = False) -> None:
    """Note the history of a workspace elsewhere. One that is missed stays noted, until a human goes on `anew`."""
    known = None if anew else _known(state, root)
    first = None if known or _is_shared(state) else journal.get(1)
    if first is not None:
        remember(witness.made(root, state, identity(root), first.digest, first.at_us))


def _is_shared(state: Path) -> bool:
    """Whether the history is in a store elsewhere: it does not go with the state folder."""
    kept = location.read(state)
    return bool(kept and kept.store)


def forget(state: Path) -> None:
    """A human goes on without the history that was noted."""
    witness.remove(environment.witness_folder(), state)


def known_of(state: Path) -> Witness | None:
    """What is noted of a state folder."""
    return witness.read(environment.witness_folder(), state)


def recall(note: Witness) -> None:
    """Write a note again that is gone, for a process that has had this history open."""
    if known_of(Path(os.fsdecode(path_of(note.state)))) is None:
        remember(note)


def remember(note: Witness) -> None:
    """Write a note, if that is possible: nothing else depends on it."""
    try:
        witness.write(environment.witness_folder(), note)
    except BackendError:
        # A data folder that cannot be written keeps nobody from working; `doctor` tells of it.
        return


def _known(state: Path, root: Path) -> Witness | None:
    """What is noted of this very directory."""
    known, here = None if _is_shared(state) else known_of(state), identity(root)
    is_another = known and known.identity and here and known.identity != here
    return None if is_another else known
