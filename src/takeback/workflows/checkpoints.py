"""The checkpoints of a workspace: start, update, resume, complete, list, prune.

They are stored in memory/checkpoints at the root, or in agents/NAME/memory/checkpoints for one agent. Every change
is made under one kernel lock of the workspace, held for one command. NAME.lock beside a checkpoint says who works on
the workflow: it outlives the command, as the work does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from takeback.errors import ConflictError, CorruptionError, LeaseLost, RunBusy, UsageError
from takeback.workflows.disk import failed
from takeback.workflows.owners import (
    TOKEN_VARIABLE,
    agent_here,
    decode_holder,
    describe,
    encode_holder,
    in_words,
    is_of,
    is_same,
    lives,
    renewed,
)
from takeback.workflows.places import AGENTS, PLACE, SUFFIX, CheckpointFile, CheckpointFolders
from takeback.workflows.record import (
    DAY_S,
    advanced,
    encoded,
    is_expired,
    is_over,
    is_unfinished,
    new_record,
    safe_name,
    some,
)
from takeback.workflows.text_limits import check

GUARD = ".lock"
ASIDE = "set-aside"
ASIDE_DAYS = 30.0


class Checkpoints:
    """All checkpoints below one root. Close it, or use it in a `with` block."""

    def __init__(self, root: str = ".", clock: Callable[[], float] = time.time) -> None:
        self._places = CheckpointFolders(root)
        self.root = self._places.root
        self._clock = clock

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._places.close()

    # Looking

    def entries(self) -> list[CheckpointFile]:
        """Return every checkpoint, readable or not."""
        return self._places.entries()

    def get(self, workflow: str) -> CheckpointFile:
        """Return the checkpoint of this workflow. Raise if it is missing or damaged."""
        entry = self._places.find(workflow)
        if entry is None:
            raise UsageError(
                f"there is no workflow {workflow} in {self.root}; nothing was done",
                hint="`list` shows the existing ones; `start` begins one",
            )
        if entry.record is None:
            raise CorruptionError(
                f"{entry.path} cannot be trusted: {entry.reason}. It was left as it is",
                hint="restore it from a copy, or start over with `start --force`, which sets it aside",
            )
        return entry

    def holder(self, entry: CheckpointFile) -> dict[str, Any] | None:
        """Return who holds this workflow, if that process may still be at work."""
        holder = self._last_holder(entry)
        return holder if holder and lives(holder, self._clock()) else None

    def meant(self, owner_pid: int) -> str:
        """Return the workflow to use if none is named: this session's, or the only unfinished one."""
        token = os.environ.get(TOKEN_VARIABLE, "")
        found = [
            e
            for e in self.entries()
            if e.record and is_unfinished(e.record) and not self.has_expired(e.record)
        ]
        holders = [self.holder(entry) for entry in found]
        woken = [e for e, h in zip(found, holders, strict=True) if h and _is_for(h, None, token)]
        mine = [e for e, h in zip(found, holders, strict=True) if h and _is_for(h, owner_pid, token)]
        chosen = woken or mine or found
        if not chosen:
            raise UsageError(
                f"there is no unfinished workflow in {self.root}; nothing was done",
                hint="`list` shows the existing ones; `start` begins one",
            )
        if len(chosen) > 1:
            raise UsageError(
                f"several workflows are unfinished: {some(sorted(e.id for e in chosen))}; nothing was done",
                hint="name one with --workflow",
            )
        if not mine and (holder := self.holder(chosen[0])):
            raise RunBusy(
                f"{chosen[0].id} is held by {in_words(holder)}; nothing was done",
                hint=f"leave it to that process; if you act for it, add --workflow {chosen[0].id}",
            )
        return chosen[0].id

    def has_expired(self, record: dict[str, Any]) -> bool:
        return is_expired(record, self._clock())

    # Changing

    def start(
        self,
        workflow: str,
        *,
        agent: str | None = None,
        step: str | None = None,
        key: str | None = None,
        remaining: list[str] | None = None,
        handoff: str | None = None,
        notes: str = "",
        ttl_days: float = 7,
        force: bool = False,
        per_agent: bool = False,
        owner_pid: int | None = None,
    ) -> dict[str, Any]:
        """Start a workflow, or return it if it was started before: the same id and key mean the same workflow.

        Hold it for the owner, if one is given; raise RunBusy if another living process holds it. Defaults: the key
        is the id of the workflow, the agent is the one that the environment names, and the current step is the
        first remaining one.
        """
        agent = agent_here() if agent is None else agent
        key, remaining = workflow if key is None else key, list(remaining or ())
        if step is None and remaining:
            step, *remaining = remaining
        safe_name(workflow, "the id of a workflow")
        safe_name(agent, "the name of an agent")
        if not step or not key:
            raise UsageError(
                "a workflow needs a step and an idempotency key; nothing was done",
                hint="name its steps with --step or --remaining",
            )
        now_s = self._clock()
        record = new_record(
            workflow,
            agent=agent,
            step=step,
            key=key,
            remaining=remaining,
            handoff=handoff,
            notes=notes,
            ttl_days=ttl_days,
            now_s=now_s,
        )
        check(record)
        if owner_pid is not None:
            describe(owner_pid, now_s)  # a dead owner is refused before anything is written
        with self._alone():
            self._refuse_key_of_another(workflow, key)
            entry = self._places.find(workflow)
            if entry and entry.record and entry.record["idempotencyKey"] == key:
                if owner_pid is not None and self._is_wanted(entry.record, None, lambda _: None):
                    self._take(entry, owner_pid)
                return entry.record
            if entry:
                self._make_way(entry, force=force)
            parts = (AGENTS, agent, *PLACE) if per_agent else PLACE
            folder = entry.folder if entry else self._places.make(*parts)
            fresh = CheckpointFile(folder, workflow, record)
            folder.write(fresh.name, encoded(record))
            if owner_pid is not None:
                self._hold(fresh, owner_pid)
        return record

    def update(
        self,
        workflow: str,
        *,
        complete: str | None = None,
        step: str | None = None,
        status: str | None = None,
        notes: str | None = None,
        owner_pid: int | None = None,
        token: str = "",
        force: bool = False,
    ) -> dict[str, Any]:
        """Record the progress of a workflow, and renew its holder's lease.

        Raise ConflictError if it is declared done while steps are not; `force` ends it anyway.
        """
        self.get(workflow)  # raises before a folder is created
        with self._alone():
            entry = self.get(workflow)
            assert entry.record is not None
            self._keep_hold(entry, owner_pid, token)
            after = advanced(
                entry.record,
                complete=complete,
                step=step,
                status=status,
                notes=notes,
                now_s=self._clock(),
                force=force,
            )
            if after is not entry.record:
                entry.folder.write(entry.name, encoded(check(after, entry.record)))
            if not is_unfinished(after):
                entry.folder.remove(entry.id + GUARD)
        return after

    def complete(
        self, workflow: str, *, owner_pid: int | None = None, token: str = "", force: bool = False
    ) -> dict[str, Any]:
        """Mark a workflow as done and release its lock. The file stays until it expires and is pruned.

        This also completes the last step. With `force`, other steps that were never done stay in the file.
        """
        record = self.get(workflow).record
        if record and record["status"] == "done":
            return record
        return self.update(workflow, status="done", owner_pid=owner_pid, token=token, force=force)

    def resume(
        self,
        workflow: str | None = None,
        *,
        agent: str | None = None,
        owner_pid: int,
        steal: bool = False,
        again: bool = False,
        skipped: Callable[[str], None] = lambda _: None,
    ) -> tuple[dict[str, Any], str] | None:
        """Take the lock of the first unfinished workflow without a holder; return its record and a token.

        If none is free, `again` returns one that this same owner holds, and `steal` takes one that another holds.
        """
        if not (self._places.find(workflow) if workflow else self._places.folders()):
            return None
        with self._alone():
            own: list[CheckpointFile] = []
            held: list[CheckpointFile] = []
            for entry in [self.get(workflow)] if workflow else self.entries():
                if entry.record is None:
                    skipped(f"INVALID {entry.name} {entry.reason}")
                elif self._is_wanted(entry.record, agent, skipped):
                    holder = self.holder(entry)
                    if holder is None:
                        return entry.record, self._hold(entry, owner_pid)
                    if holder.get("token") == os.environ.get(TOKEN_VARIABLE, "-"):
                        return entry.record, str(
                            holder["token"]
                        )  # this process was started for this workflow
                    if again and is_same(holder, owner_pid):
                        own.append(entry)
                        continue
                    held.append(entry)
                    skipped(f"{entry.id} is held by {in_words(holder)}")
            # A held workflow is taken by force only if none was free.
            for entry in [*own, *(held if steal else ())]:
                if entry.record:
                    return entry.record, self._hold(
                        entry, owner_pid, self._last_holder(entry) if own else None
                    )
        return None

    def release(self, workflow: str, token: str) -> None:
        """Release an unfinished workflow, so that another process can resume it."""
        with self._alone():
            entry = self._places.find(workflow)
            holder = entry and self._last_holder(entry)
            if entry and holder and holder.get("token") == token:
                entry.folder.remove(entry.id + GUARD)

    def hand_to(self, workflow: str, token: str, pid: int) -> None:
        """Pass the lock from the holder of the token to another process."""
        with self._alone():
            entry = self.get(workflow)
            holder = self.holder(entry)
            if holder is None or holder.get("token") != token:
                raise LeaseLost(f"{workflow} is no longer held here; nothing was changed")
            self._hold(entry, pid, holder)

    def prune(self, *, dry_run: bool = False, keep_days: float | None = None) -> list[tuple[str, str]]:
        """Clean up expired workflows without a holder. Return each path with what was done: removed, or set aside.

        With `keep_days`, clean up those that were finished or expired more than so many days ago.

        Unfinished work is set aside for 30 more days before it is deleted: a clock that runs ahead for a day must
        not cost anyone their work. Unreadable files are never touched.
        """
        if not self._places.folders():
            return []
        if dry_run:
            return list(self._prune(keep_days, dry_run=True))
        with self._alone():
            return list(self._prune(keep_days, dry_run=False))

    # How

    def _prune(self, keep_days: float | None, *, dry_run: bool) -> Iterator[tuple[str, str]]:
        now_s = self._clock()
        for entry in self.entries():
            if entry.record is None or not is_over(entry.record, now_s, keep_days) or self.holder(entry):
                continue
            unfinished = is_unfinished(entry.record)
            if not dry_run and unfinished:
                self._set_aside(entry)
            elif not dry_run:
                entry.folder.remove(entry.name)
            if not dry_run:
                entry.folder.remove(entry.id + GUARD)
                entry.folder.sync()
            yield entry.path, "set aside" if unfinished else "removed"
        for folder in self._places.folders():
            aside = self._places.quietly((*self._places.parts(folder), ASIDE))
            for name in aside.names() if aside else ():
                # Its mtime is the time of the move: _set_aside renewed it.
                if aside and 0 <= ASIDE_DAYS * DAY_S < now_s - aside.modified_s(name):
                    if not dry_run:
                        aside.remove(name)
                    yield os.path.join(aside.path, name), "removed"

    def _refuse_key_of_another(self, workflow: str, key: str) -> None:
        for other in self.entries():
            if other.record and other.id != workflow and other.record["idempotencyKey"] == key:
                raise ConflictError(
                    f"this idempotency key belongs to workflow {other.id}; nothing was started",
                    hint="a key stands for one piece of work: continue that workflow, or use another key",
                )

    def _make_way(self, entry: CheckpointFile, *, force: bool) -> None:
        """Set the old checkpoint aside, if the caller asked for that and no process works on it."""
        if holder := self.holder(entry):
            raise ConflictError(
                f"{entry.id} is held by {in_words(holder)}; nothing was changed",
                hint="wait until that process is done, or take it over with `resume --steal-lock`",
            )
        if not force and entry.record is None:
            self.get(entry.id)
        if not force:
            raise ConflictError(
                f"{entry.id} was started with another idempotency key; nothing was changed",
                hint="`resume` continues it; `start --force` sets it aside and starts over",
            )
        self._set_aside(entry)

    def _set_aside(self, entry: CheckpointFile) -> None:
        aside = self._places.make(*self._places.parts(entry.folder), ASIDE)
        number = time.time_ns()
        try:
            os.utime(entry.name, (self._clock(),) * 2, dir_fd=entry.folder.fd, follow_symlinks=False)
            entry.folder.move(entry.name, aside, f"{entry.id}.{number}{SUFFIX}")
        except OSError as error:
            raise failed(entry.path, error) from error
        aside.sync()
        entry.folder.sync()

    def _hold(self, entry: CheckpointFile, pid: int, before: dict[str, Any] | None = None) -> str:
        """Make this process the holder. It gets the token of the holder `before`, if that one hands it on."""
        now_s = self._clock()
        holder = renewed(describe(pid, now_s), now_s)
        if before:
            holder["token"] = before["token"]
        entry.folder.write(entry.id + GUARD, encode_holder(holder))
        return str(holder["token"])

    def _take(self, entry: CheckpointFile, owner_pid: int) -> None:
        """Make this process the holder, unless it already is. Raise if another process is."""
        holder = self.holder(entry)
        if holder is None:
            self._hold(entry, owner_pid)
        elif not is_same(holder, owner_pid) and not _is_for(holder, None, os.environ.get(TOKEN_VARIABLE, "")):
            raise RunBusy(
                f"{entry.id} is held by {in_words(holder)}; nothing was changed",
                hint="leave it to that process, or take it over with `resume --steal-lock`",
            )

    def _last_holder(self, entry: CheckpointFile) -> dict[str, Any] | None:
        """Return who held it last, alive or not."""
        try:
            return decode_holder(entry.folder.read(entry.id + GUARD))
        except (FileNotFoundError, CorruptionError):
            return None

    def _keep_hold(self, entry: CheckpointFile, owner_pid: int | None, token: str) -> None:
        """Renew the lease. Check a caller who names a process or token; take any other caller for the holder."""
        holder = self.holder(entry)
        token = token or os.environ.get(TOKEN_VARIABLE, "")
        if holder is None:
            if owner_pid is not None:
                self._hold(entry, owner_pid)
            return
        named = token or owner_pid is not None
        if named and not _is_for(holder, owner_pid, token):
            raise LeaseLost(
                f"{entry.id} is held by {in_words(holder)} now; nothing was changed",
                hint="stop working on it here, or take it back with `resume --steal-lock`",
            )
        entry.folder.write(entry.id + GUARD, encode_holder(renewed(holder, self._clock())))

    def _is_wanted(self, record: dict[str, Any], agent: str | None, skipped: Callable[[str], None]) -> bool:
        if not is_unfinished(record) or (agent and agent != (record["handoffTo"] or record["agentId"])):
            return False
        if is_expired(record, self._clock()):
            skipped(f"{record['workflowId']} expired at {record['expiresAt']}")
            return False
        return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one command at a time work in the whole workspace: keys are unique in all of it."""
        with self._places.make(*PLACE).locked(GUARD):
            yield


def _is_for(holder: dict[str, Any], owner_pid: int | None, token: str) -> bool:
    """Return True if the caller with this token, or this process or one above it, is the holder."""
    return bool(token and holder.get("token") == token) or (
        owner_pid is not None and is_of(holder, owner_pid)
    )
