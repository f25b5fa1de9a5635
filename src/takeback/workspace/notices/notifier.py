"""The notifier of a workspace: it tells each thing that waits for a human once, to everybody who is to be told.

    monitor/<workspace>/told.json

One process sends at a time. What it is about to send is recorded before, and that it was sent after: so nothing is
told twice by two processes, or after a restart. A process that is killed between the two leaves a message of which it
is unknown whether it was received. That message alone is sent again, with the same id and marked as a repetition:
work that waits and is never told of would be worse.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec

from takeback.core.codec import digest
from takeback.errors import BackendError, CorruptionError, RunBusy, TakebackError
from takeback.senders.notifiers import ADDRESSED, NoticeMessage, check_notifier, send, shown
from takeback.settings import environment
from takeback.storage.state.lock import try_lock
from takeback.system import crash_points, durable
from takeback.system.private_files import FILE_MODE, private_folder
from takeback.workflows.lines import log_line
from takeback.workspace.notices import TOLD
from takeback.workspace.notices.waiting import RECORDED, STALE, Notice, text_of

__all__ = ["LOG", "Notifier", "ToldNotices", "Unreached", "begin", "check_notifier", "shown"]

CLAIMED = crash_points.crash_point("notice-claimed")
SENT = crash_points.crash_point("notice-sent")

LOG, TURN, NEXT = "monitor.log", ".lock", ".next"
FORMAT = 2
TURN_WAIT_S = 120.0
"""Longer than one process takes to reach several notifiers that do not answer."""
POLL_S = 0.02

Look = Callable[[], Sequence[Notice]]


class SentNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to one notifier."""

    message: str
    """Its id."""
    sent: bool = False
    failed: bool = False
    """True if the attempt is known to have failed."""


class Unreached(msgspec.Struct, frozen=True):
    """A notifier that could not be reached."""

    to: str
    why: str
    at_us: int

    def __str__(self) -> str:
        return f"{self.to} was not told what waits for you: {self.why}"


class ToldNotices(msgspec.Struct):
    """Who was told of what, for all that still waits."""

    format: int = FORMAT
    told: dict[str, dict[str, SentNotice]] = {}
    """By the key of a notice and the name of a notifier."""
    unreached: dict[str, Unreached] = {}
    """By the name of a notifier."""


class Notifier:
    """Tells of what waits for a human in one workspace."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        to: Sequence[str],
        look: Look,
        kinds: Sequence[str] = RECORDED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`folder` keeps the record, `to` are the notifiers, and `look` returns all that waits of these `kinds`."""
        self.to = list(dict.fromkeys(to))
        self.waiting = look
        self._folder = folder
        self._root = root
        self._kinds = kinds
        self._clock = clock

    def tell(self, *, wait: bool = True) -> list[str]:
        """Tell everybody what they have not been told. Return what failed, as text; it is tried again the next time.

        Without `wait` nothing is done if another process is about to look: it finds the same.
        """
        if not self.to and not (self._folder / LOG).exists():
            return []  # nobody is to be told, and there is no monitor to keep a log for
        private_folder(self._folder)
        with self._turn(wait=wait) as is_ours:
            if not is_ours:
                return []
            present = {notice.key: notice for notice in self.waiting()}
            told = self.read()
            # What does not wait any more is not needed: it never comes back under the same key.
            told.told = {
                key: known
                for key, known in told.told.items()
                if key in present or key.partition("\n")[0] not in self._kinds
            }
            self._log_new(told, present)
            names = {_name(text): text for text in self.to}
            told.unreached = {name: one for name, one in told.unreached.items() if name in names}
            failed = [why for name, text in names.items() for why in self._tell(told, present, name, text)]
            self._write(told)
        return failed

    def test(self) -> dict[str, str]:
        """Send each notifier a message that this is a test. Return for each, as shown, what failed, or ""."""
        message = NoticeMessage(f"test-{uuid4()}", f"{self._root}: this is a test of `takeback notify test`")
        found = {}
        for text in self.to:
            try:
                send(_addressed(text), message)
            except TakebackError as error:
                found[shown(text)] = f"{error.message}{'; ' + error.hint if error.hint else ''}"
            else:
                found[shown(text)] = ""
        return found

    def read(self) -> ToldNotices:
        """Return the record of who was told of what."""
        path = self._folder / TOLD
        try:
            found = msgspec.json.decode(path.read_bytes())
            is_older = isinstance(found, dict) and "format" not in found
            return _converted(found) if is_older else msgspec.convert(found, ToldNotices)
        except FileNotFoundError:
            return ToldNotices()
        except (OSError, msgspec.DecodeError) as error:
            raise CorruptionError(
                f"{path} cannot be read ({error}); nobody was told",
                hint="remove it; then what waits now is told again",
            ) from error

    def _tell(self, told: ToldNotices, present: dict[str, Notice], name: str, text: str) -> list[str]:
        """Send one notifier what it lacks: first each message that may have been received, then all that is new."""
        batches: dict[SentNotice, list[Notice]] = {}
        fresh = SentNotice(str(uuid4()))
        for key, notice in present.items():
            known = told.told.get(key, {}).get(name, fresh)
            if not known.sent:
                batches.setdefault(known, []).append(notice)
        return [why for batch in batches.items() if (why := self._send(told, name, text, *batch))]

    def _send(self, told: ToldNotices, name: str, text: str, known: SentNotice, found: list[Notice]) -> str:
        """Send one message. Return why that failed, or ""."""
        keys = [notice.key for notice in found]
        is_new = name not in told.told.get(keys[0], {})
        message = self._message(known, found, again=not is_new)
        self._note(told, name, keys, SentNotice(known.message))
        crash_points.reach(CLAIMED)
        try:
            send(_addressed(text), message)
        except TakebackError as error:
            told.unreached[name] = Unreached(shown(text), error.message, int(self._clock() * 1e6))
            self._log("failed", to=shown(text), why=error.message)
            self._note(told, name, keys, SentNotice(known.message, failed=True))
            return error.message
        crash_points.reach(SENT)
        told.unreached.pop(name, None)
        self._note(told, name, keys, SentNotice(known.message, sent=True))
        self._log("sent", to=shown(text), about=[notice.id for notice in found])
        return ""

    def _note(self, told: ToldNotices, name: str, keys: list[str], state: SentNotice) -> None:
        for key in keys:
            told.told.setdefault(key, {})[name] = state
        self._write(told)

    def _message(self, known: SentNotice, found: list[Notice], *, again: bool) -> NoticeMessage:
        text = text_of(self._root, found)
        if again and not known.failed:
            text += "\n(this may be a repetition: the process that sent it first was killed)"
        return NoticeMessage(known.message, text, [notice.data for notice in found], again)

    def _log_new(self, told: ToldNotices, present: dict[str, Notice]) -> None:
        fresh = [notice for key, notice in present.items() if LOG not in told.told.get(key, {})]
        if fresh:
            self._log("alert", findings=[notice.data for notice in fresh])
        for notice in fresh:
            told.told.setdefault(notice.key, {})[LOG] = SentNotice("", sent=True)

    def _log(self, what: str, **details: object) -> None:
        log_line(str(self._folder / LOG), {"what": what, **details}, self._clock())

    def _write(self, told: ToldNotices) -> None:
        path = self._folder / TOLD
        try:
            durable.replace(path, msgspec.json.encode(told) + b"\n")
        except OSError as error:
            raise BackendError(f"{path} cannot be written: {error.strerror}; nobody was told") from error

    @contextmanager
    def _turn(self, *, wait: bool) -> Iterator[bool]:
        """Yield True once no other process sends; without `wait`, False if another one already waits for its turn."""
        following = self._take(NEXT, TURN_WAIT_S if wait else 0.0)
        if following < 0 and not wait:
            yield False
            return
        try:
            turn = self._take(TURN, TURN_WAIT_S) if following >= 0 else -1
        finally:
            if following >= 0:
                os.close(following)  # the next process may wait from here on: we look only now
        if turn < 0:
            raise RunBusy(f"another process is sending the notices of {self._root}; nobody was told")
        try:
            yield True
        finally:
            os.close(turn)

    def _take(self, name: str, wait_s: float) -> int:
        """Return a file that is locked until it is closed, or -1 if another process kept the lock so long."""
        fd = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        deadline = time.monotonic() + wait_s
        while not try_lock(fd):
            if time.monotonic() >= deadline:
                os.close(fd)
                return -1
            time.sleep(POLL_S)
        return fd


def begin(root: Path, home: Path) -> None:
    """Let a process of its own tell of what waits in this workspace. Return at once."""
    if not sys.executable:
        return  # an embedded Python; the worker or the monitor tells of it
    words = [sys.executable, "-P", "-m", "takeback", "-C", os.fspath(root), "notify", "send"]
    null = subprocess.DEVNULL
    child = subprocess.Popen(
        words,
        stdin=null,
        stdout=null,
        stderr=null,
        cwd="/",  # the folder of this process may be gone
        env=environment.environment_of_sender(home),
        start_new_session=True,
    )
    # So that no dead process stays until this one ends.
    threading.Thread(target=child.wait, name="takeback-notices", daemon=True).start()


def _addressed(text: str) -> str:
    """Return a notifier with the values of its variables."""
    kind, _, target = text.partition(":")
    return f"{kind}:{environment.expanded(target, 'a notifier')}" if kind in ADDRESSED else text


def _name(text: str) -> str:
    """Return a name for a notifier that contains no secret."""
    return digest(text.encode()).partition(":")[2][:16]


def _converted(old: dict[str, list[str]]) -> ToldNotices:
    """Return the record of a monitor before version 2: file and state of a workflow, and whom it had told."""
    found = ToldNotices()
    for key, names in old.items():
        file, _, state = key.rpartition(" ")
        known = {LOG if name == "log" else _name(name): SentNotice("", sent=True) for name in names}
        found.told[f"{STALE}\n{file}\n{state}"] = known
    return found
