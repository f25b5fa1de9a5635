"""Forgetting: removing the content of a path from every stored version.

Only stored history is touched, never the workspace. What is removed is recorded first, by name: from that record on,
earlier records no longer keep the content (engine/prune.py), so any clean-up on any machine removes it. Then it is
removed here and in the bucket. A file in the state folder marks the time in between. If the process dies there, the
next command that may write finishes the work.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import folds
from takeback.core.change import Target
from takeback.core.codec import path_of
from takeback.core.intents import GONE, IntentDeferred, IntentState
from takeback.core.lifecycle import Life
from takeback.core.record import Record, contents_named
from takeback.core.selection import Filter
from takeback.engine import prune
from takeback.engine.rollback.paths import AtPaths, at_paths, path_filter
from takeback.engine.stage.folder import StageFolders
from takeback.errors import BackendError, ContentGone, RefusedError, UsageError
from takeback.ports.content import StoredContent
from takeback.settings import environment
from takeback.storage.content.names import DIGEST_BYTES
from takeback.system import crash_points, durable
from takeback.workspace.known import FORGETTING
from takeback.workspace.parts import WorkspaceParts
from takeback.workspace.refusal import refuse_busy_actions

QUOTE_BYTES_MIN, QUOTE_BYTES_MAX = 8, 1 << 20
"""Content of other sizes is not looked for in arguments and results of calls."""
NAMES_MAX = 5
SETTLED = (IntentState.DELIVERED, *GONE)
UNFINISHED = (Life.OPEN, Life.INTERRUPTED, Life.HANDED_OVER)

NOTED = crash_points.crash_point("forget-noted")
RECORDED = crash_points.crash_point("forget-recorded")
REMOVED = crash_points.crash_point("forget-removed")


class ForgottenPath(msgspec.Struct, frozen=True):
    """A path, and how many of its stored contents are forgotten."""

    path: str
    contents: int


class Forgotten(msgspec.Struct, frozen=True):
    """What was forgotten, or would be."""

    paths: tuple[ForgottenPath, ...]
    shared: tuple[ForgottenPath, ...]
    """Other paths with some of the same content."""
    calls: int
    """How many calls had arguments or a result with this content, or about these paths."""
    needed: tuple[str, ...]
    """Those of them that could no longer be sent, taken back or resumed."""
    present: tuple[str, ...]
    """The paths that still have the content in the workspace. The next capture stores it again."""
    quoted: tuple[str, ...]
    """Records, and calls with arguments or a result, that have the content or a line of it: they stay as they are."""
    conversations: tuple[str, ...]
    """Threads of agent frameworks in whose conversations the content is, or a line of it: they stay as well."""
    has_git: bool
    """The workspace is a repository, whose objects are not covered."""
    done: bool = False
    bytes_freed: int = 0
    bucket_bytes_freed: int = 0


class _Found:
    """All stored content of the chosen paths, and what else has some of it."""

    def __init__(self) -> None:
        self.chosen: dict[str, set[bytes]] = defaultdict(set)
        self.shared: dict[str, set[bytes]] = defaultdict(set)
        self.sizes: dict[bytes, int] = {}
        self.blobs: set[bytes] = set()
        self.values: set[bytes] = set()

    @property
    def names(self) -> set[bytes]:
        """The names of everything that goes: an event lists them."""
        return {name for found in (self.chosen, self.shared) for some in found.values() for name in some}


class Forgetting:
    """Forgetting content of one workspace."""

    def __init__(self, parts: WorkspaceParts) -> None:
        self._parts = parts
        self._contents = parts.contents

    def preview(self, paths: Collection[str]) -> Forgotten:
        """Return what would be forgotten, by what is recorded. Nothing is changed."""
        chosen = self._filter(paths)
        with self._parts.lock.held():
            return self._report(self._find(chosen))

    def forget(self, paths: Collection[str], *, shared: Collection[str] | None = ()) -> Forgotten:
        """Remove the content of these paths from every stored version, and record that.

        `shared` are other paths that may lose content, because they have the same; None stands for all.
        """
        chosen, parts = self._filter(paths), self._parts
        if shared is not None and chosen.is_everything:
            raise RefusedError(
                "all stored content of every file of the workspace would be removed. Nothing was forgotten",
                hint="if you mean that: takeback forget --yes PATH…",
            )
        with parts.lock.held():
            parts.recover()
            refuse_views(parts.state)
            # Until the next look, nothing else could take the changes of a running action back.
            refuse_busy_actions(parts.history, done="forgotten")
            found = self._allowed(chosen, shared)
            if not found.names:
                return self._report(found)
            # The present is recorded first, so that its other content counts as needed.
            parts.tracker.save(f"before forgetting {named(found.chosen)}", environment.actor())
            found = self._allowed(chosen, shared)
            report = self._report(found)
            durable.replace(parts.state / FORGETTING, b"")
            crash_points.reach(NOTED)
            names = sorted(name.hex() for name in found.names | found.values)
            parts.ledger.append(
                [
                    e.ContentForgotten(
                        tuple(sorted(found.chosen)),
                        tuple(names),
                        tuple(sorted(found.shared)),
                        environment.actor(),
                    )
                ]
            )
            parts.journal.sync()
            crash_points.reach(RECORDED)
            freed, shared_freed, left = self._remove(found.blobs | found.values)
            if left:
                raise BackendError(
                    f"it is recorded that this content is forgotten, but not all of it could be removed: {left}",
                    hint="`takeback verify --deep` shows what is damaged; the next command tries again",
                    retryable=True,
                )
            return msgspec.structs.replace(
                report, done=True, bytes_freed=freed, bucket_bytes_freed=shared_freed
            )

    def _allowed(self, chosen: Filter, shared: Collection[str] | None) -> _Found:
        """Return what is to be forgotten. Raise RefusedError if other paths have some of it that may not lose it."""
        found = self._find(chosen)
        if shared is not None and (more := sorted(found.shared.keys() - set(shared))):
            raise RefusedError(
                f"{named(more)} {'has' if len(more) == 1 else 'have'} the same content, which would be removed, "
                "too. Nothing was forgotten",
                hint="to remove it from all of them: takeback forget --yes PATH…",
            )
        if shared is not None and (calls := self._needing(found.values)):
            raise RefusedError(
                f"{named(calls)} could no longer be sent, taken back or resumed: what was stored for that names a "
                "path or quotes its content, and would be removed. Nothing was forgotten",
                hint="`takeback show ID` shows them; to remove it all the same: takeback forget --yes PATH…",
            )
        return found

    def finish(self) -> str:
        """Remove what a killed process was to remove. Return a message. The caller holds the lock."""
        names: set[bytes] = set()
        for seq in self._parts.history.forgets[-1:]:
            record = self._parts.journal.get(seq)
            if record and isinstance(record.event, e.ContentForgotten):
                names = {name[:DIGEST_BYTES] for name in record.event.names}
        left = self._remove(names)[2]
        if left:
            return f"not all content that was forgotten could be removed: {left}"
        return "finished the interrupted forgetting: its content is removed"

    # Finding

    def _filter(self, paths: Collection[str]) -> AtPaths:
        if not paths:
            raise UsageError("name the paths whose content is to be forgotten; nothing was changed")
        for path in paths:
            try:
                path_filter(self._parts.root, self._parts.history, [path])
            except UsageError:
                # A file that was only ever seen, and is gone now, was never changed as far as is recorded.
                chosen = at_paths(self._parts.root, [path])
                if not any(chosen(Target(resource, one.path)) for resource, one in self._stored()):
                    raise
        return at_paths(self._parts.root, paths)

    def _find(self, chosen: Filter) -> _Found:
        found, stored = _Found(), list(self._stored())
        for resource, one in stored:
            if chosen(Target(resource, one.path)):
                found.chosen[one.path].add(one.name)
                found.sizes[one.name] = one.size
        for name, size in found.sizes.items():
            with suppress(ContentGone):
                found.blobs.update(self._contents.blobs(name, size))
        known: dict[bytes, bool] = dict.fromkeys(found.sizes, True)
        for _, one in stored:
            if one.path not in found.chosen and self._shares(one, found.blobs, known):
                found.shared[one.path].add(one.name)
        found.values = self._values(found)
        return found

    def _stored(self) -> Iterator[tuple[str, StoredContent]]:
        """Yield everything that is stored of any path, once each, with its resource."""
        parts = self._parts
        marks = prune.kept_marks(parts.journal.read(), parts.tracker.observed)
        for holder in (parts.files, parts.sqlite, parts.outside):
            kept = marks.get(holder.name, [])
            seen = dict.fromkeys(holder.contents(parts.progress("Looking for the content", kept, len(kept))))
            missing = parts.store.missing({one.name[:DIGEST_BYTES] for one in seen})
            yield from ((holder.name, one) for one in seen if one.name[:DIGEST_BYTES] not in missing)

    def _shares(self, one: StoredContent, blobs: Collection[bytes], known: dict[bytes, bool]) -> bool:
        """Return whether content has a part in common with what is forgotten."""
        if one.name not in known:
            known[one.name] = False
            with suppress(ContentGone):
                known[one.name] = any(name in blobs for name in self._contents.blobs(one.name, one.size))
        return known[one.name]

    def _values(self, found: _Found) -> set[bytes]:
        """Return the arguments and results of calls that quote the content, or name a path that has it."""
        texts, paths = self._texts(found), set[str]()
        for path in found.chosen:
            absolute = os.path.join(os.fsencode(self._parts.root), path_of(path))
            paths |= {path, os.fsdecode(absolute)}
        values = set()
        for name in contents_named(self._parts.journal.read()):
            with suppress(ContentGone, msgspec.DecodeError):
                value = msgspec.json.decode(self._parts.store.get(name))
                if any(text in paths or any(quote in text for quote in texts) for text in _strings(value)):
                    values.add(name)
        return values

    def _needing(self, values: Collection[bytes]) -> list[str]:
        """Return the calls and messages that need one of these values, by their ids."""
        found = {}
        for record in self._parts.journal.read() if values else ():
            full = getattr(record.event, "full", "")
            if full and bytes.fromhex(full) in values:
                found[_name_of(record)] = record
        return [id for id, record in found.items() if self._is_needed(id, record)]

    def _is_needed(self, id: str, record: Record) -> bool:
        history = self._parts.history
        if isinstance(record.event, IntentDeferred):
            return history.intents.every[id].state not in SETTLED
        run = history.runs.get(record.stream)
        if run and run.life in UNFINISHED and not run.began.detached:
            return True  # a session of an agent is not resumed from what is stored here
        return any(entry.target.resource == "calls" for entry in history.live(id))

    def _texts(self, found: _Found) -> set[str]:
        """Return the forgotten contents that are text and short enough to be quoted."""
        texts = set()
        for name, size in found.sizes.items():
            with suppress(ContentGone, UnicodeDecodeError):
                if QUOTE_BYTES_MIN <= size <= QUOTE_BYTES_MAX:
                    texts.add(self._contents.read(name, size).decode().strip())
        return {text for text in texts if len(text) >= QUOTE_BYTES_MIN}

    def _report(self, found: _Found) -> Forgotten:
        names = found.names
        marks = self._parts.history.marks
        present = {
            one.path
            for holder in (self._parts.files, self._parts.sqlite)
            if holder.name in marks
            for one in holder.contents([marks[holder.name]])
            if one.name in names
        }
        return Forgotten(
            tuple(ForgottenPath(path, len(some)) for path, some in sorted(found.chosen.items())),
            tuple(ForgottenPath(path, len(some)) for path, some in sorted(found.shared.items())),
            len(found.values),
            tuple(self._needing(found.values)),
            tuple(sorted(present)),
            tuple(dict.fromkeys(self._quoted(found))),
            self._conversations(found),
            (self._parts.state / "git").exists(),
        )

    def _quoted(self, found: _Found) -> Iterator[str]:
        """Yield what still has forgotten text, as a whole or a line of it: records, and calls whose values stay."""
        # As they stand in a record: between quotes, and escaped.
        quotes = [msgspec.json.encode(text)[1:-1] for text in self._lines(found)]
        for record in self._parts.journal.read() if quotes else ():
            bodies = [msgspec.json.encode(record.event)]
            if (full := getattr(record.event, "full", "")) and (
                name := bytes.fromhex(full)
            ) not in found.values:
                with suppress(ContentGone):
                    bodies.append(self._parts.store.get(name))
            if any(quote in body for body in bodies for quote in quotes):
                yield _name_of(record)

    def _conversations(self, found: _Found) -> tuple[str, ...]:
        """Return the threads of agent frameworks that quote forgotten text, as a whole or a line of it."""
        parts = self._parts
        if not (lines := self._lines(found)) or not parts.has_conversations:
            return ()
        # As frameworks write text: as it is, or in JSON, with other letters escaped or not.
        forms = {
            form
            for line in lines
            for form in (line.encode(), msgspec.json.encode(line)[1:-1], json.dumps(line)[1:-1].encode())
        }
        return tuple(sorted(parts.conversations.quoting(forms)))

    def _lines(self, found: _Found) -> set[str]:
        """Return the forgotten texts, and each line of them, if it is long enough to be told from other text."""
        texts = {line.strip() for text in self._texts(found) for line in (text, *text.splitlines())}
        return {text for text in texts if len(text) >= QUOTE_BYTES_MIN}

    # Removing

    def _remove(self, blobs: Collection[bytes]) -> tuple[int, int, str]:
        """Remove everything that no record needs. Return what was freed, here and in the bucket, and what is left."""
        parts, store = self._parts, self._parts.store
        parts.generation.rise()
        live, seen, before = self._needed(), parts.history.seq, store.size_bytes()
        swept = store.sweep(live, thorough=True, progress=parts.progress)
        freed = before - store.size_bytes()

        def again() -> set[bytes]:
            return live if parts.history.seq == seen else self._needed()

        shared = store.sweep_shared(live, again, thorough=True, progress=parts.progress)
        left = set(blobs) - live
        left -= store.missing(left)
        crash_points.reach(REMOVED)
        why = swept.stopped or shared.stopped
        if left:
            return freed, shared.bytes_freed, f"{len(left):,} pieces are left{f' ({why})' if why else ''}"
        if why or swept.findings or shared.findings:
            found = why or (swept.findings or shared.findings)[0].what
            return freed, shared.bytes_freed, f"old content may be left: {found}"
        (parts.state / FORGETTING).unlink(missing_ok=True)
        durable.sync_folder(parts.state)
        return max(0, freed), shared.bytes_freed, ""

    def _needed(self) -> set[bytes]:
        """Return the names of all content that the history needs, whatever the limits say."""
        parts, limits = self._parts, prune.RetentionLimits(0, 0, 0)
        values = contents_named(parts.journal.read())
        return prune.needed(
            parts.journal.read(), (), parts.tracker.observed, limits, 0, parts.progress, values
        )


def named(paths: Collection[str]) -> str:
    """Return paths as text, not too many of them."""
    shown = sorted(paths)
    more = f" and {len(shown) - NAMES_MAX:,} more" if len(shown) > NAMES_MAX else ""
    return ", ".join(shown[:NAMES_MAX]) + more


def _name_of(record: Record) -> str:
    if isinstance(record.event, IntentDeferred):
        return record.id
    return folds.owner(record.event) or record.id or f"record {record.seq}"


def _strings(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            pending += [*one, *one.values()]
        elif isinstance(one, list):
            pending += one


def refuse_views(state: Path) -> None:
    """Raise RefusedError if there are views: each has the content that was stored when it was made."""
    if names := StageFolders(state).names():
        raise RefusedError(
            f"the views {', '.join(names)} have the same content, and would keep it. Nothing was forgotten",
            hint="accept or drop them first: `takeback stage list`",
        )
