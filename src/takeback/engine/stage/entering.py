"""Doing something inside a view: in a forked process, which enters the view's namespaces and never comes back.

The process knows all that this one knows, so nothing is imported or started again; only its result returns. While
any process is inside, whoever comes later joins it: the kernel shows a view in one place at a time.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec

from takeback import errors
from takeback.core.codec import path_of
from takeback.engine.stage.card import COPY, StageCard
from takeback.engine.stage.folder import StageFolder
from takeback.errors import BackendError, CorruptionError, RunBusy, TakebackError
from takeback.system import crash_points, namespaces
from takeback.system.processes import VARIABLE
from takeback.system.signals import Forwarding

R = TypeVar("R")

HOME_VARIABLE, STAGE_VARIABLE = "TAKEBACK_HOME", "TAKEBACK_STAGE"
_NAMESPACES = "namespaces"
_DIED = 125

ENTERED = crash_points.crash_point("stage-entered")
LEFT = crash_points.crash_point("stage-left")


class _Raised(msgspec.Struct, frozen=True):
    """An error that is to be raised again outside."""

    kind: str
    message: str
    hint: str
    how: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """What came of it: a result, an error of ours, or the refusal of the kernel."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    raised: _Raised | None = None
    refused: str = ""


class KernelRefused(BackendError):
    """The kernel does not let this process have what a view needs."""


def inside(
    folder: StageFolder, do: Callable[[], R], kind: type[R], *, network: str = "", waits: bool = False
) -> R:
    """Return what `do` returns inside the view. Raise KernelRefused if the view cannot be entered.

    With `waits` it is a command, and our signals are for it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    with Forwarding() if waits else _nothing() as signals:
        child = os.fork()
        if not child:
            os.close(reader)
            _be_inside(folder, do, writer, network)
        os.close(writer)
        if signals is not None:
            signals.to(lambda number: os.kill(child, number))
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
    if not data:
        code = os.waitstatus_to_exitcode(status)
        raise BackendError(
            f"the process inside the view {folder.path.name} ended early ({code}); the view is as it left it",
            hint=f"`takeback stage diff {folder.path.name}` shows what is there",
        )
    answer = msgspec.msgpack.decode(data, type=_Answer)
    if answer.refused:
        raise KernelRefused(f"the view {folder.path.name} cannot be entered: {answer.refused}")
    if answer.raised:
        raise _rebuilt(answer.raised)
    return msgspec.msgpack.decode(answer.result, type=kind)


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _be_inside(folder: StageFolder, do: Callable[[], Any], writer: int, network: str) -> None:
    """Enter, work, answer, end. Nothing of the parent may run here: no exit handlers."""
    code = _DIED
    try:
        answer = _answer(folder, do, network)
        with os.fdopen(writer, "wb") as out:
            out.write(msgspec.msgpack.encode(answer))
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)


def _answer(folder: StageFolder, do: Callable[[], Any], network: str) -> _Answer:
    try:
        card = folder.card
        enter(folder, card, network)
        crash_points.reach(ENTERED)
        _look_like_inside(folder, card)
    except OSError as error:
        what = f" ({error.filename})" if error.filename else ""
        return _Answer(refused=f"{error.strerror}{what}")
    except RunBusy as error:
        return _Answer(raised=_Raised(type(error).__name__, error.message, error.hint))
    try:
        result = do()
        crash_points.reach(LEFT)
        return _Answer(msgspec.Raw(msgspec.msgpack.encode(result)))
    except TakebackError as error:
        return _Answer(
            raised=_Raised(type(error).__name__, error.message, error.hint, getattr(error, "how", ""))
        )


def enter(folder: StageFolder, card: StageCard, network: str = "") -> None:
    """Enter a view, in a process that was forked for it. Raise OSError if the kernel refuses.

    Raise RunBusy if processes inside have another network than the one that is asked for.
    """
    if card.kind == COPY:
        return
    fd = os.open(folder.home / _NAMESPACES, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        name, _, has = os.read(fd, 64).decode().partition(" ")
        if found := namespaces.inside(name, _bound(folder, card)):
            if network and has and network != has:
                raise RunBusy(
                    f"processes are still running in the view {card.name}, with the network {has}; "
                    f"the command was not run, because it is to have the network {network}",
                    hint="end them, and try again",
                )
            namespaces.join(found[0])
        else:
            namespaces.enter(folder.isolation(card, network))
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{namespaces.namespace_of()} {network or card.network}".encode(), 0)
    finally:
        os.close(fd)


def _look_like_inside(folder: StageFolder, card: StageCard) -> None:
    """Be in the view's folder, with the variables by which programs find its state.

    An action outside is not one in here.
    """
    os.chdir(_below(card, os.getcwd()))
    os.environ.pop(VARIABLE, None)
    os.environ[STAGE_VARIABLE] = card.name
    os.environ[HOME_VARIABLE] = os.fsdecode(path_of(card.home))
    if card.kind == COPY:
        os.environ["TMPDIR"] = str(folder.path / "tmp")
    os.environ["PWD"] = os.getcwd()


def _below(card: StageCard, here: str) -> str:
    """Return the folder of the view that stands for this one; its root for one elsewhere."""
    root, seen = (os.fsdecode(path_of(path)) for path in (card.root, card.seen_at))
    inner = os.path.relpath(here, root)
    return seen if inner.startswith("..") else os.path.join(seen, inner)


def living(folder: StageFolder) -> list[int]:
    """Return the processes that are inside the view now; in a copy, those that began there."""
    try:
        card = folder.card
    except CorruptionError:  # whether it is this view's process cannot be told, so all count
        card = None
    if card and card.kind == COPY:
        return _began_in(card)
    try:
        name = (folder.home / _NAMESPACES).read_text().partition(" ")[0]
    except FileNotFoundError:
        return []
    return namespaces.inside(name, _bound(folder, card)) if card else namespaces.members(name)


def _began_in(card: StageCard) -> list[int]:
    """Return the processes whose environment names the home of this view, other than this one."""
    wanted = b"\0%s=%s\0" % (HOME_VARIABLE.encode(), path_of(card.home))
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if wanted in b"\0" + file.read():
                found.append(int(name))
    return sorted(found)


def _bound(folder: StageFolder, card: StageCard) -> tuple[str, str]:
    return str(folder.home), os.fsdecode(path_of(card.home))


def refuse_living(folder: StageFolder, what: str) -> None:
    """Raise RunBusy if processes are at work in the view."""
    if found := living(folder):
        pids = ", ".join(map(str, found[:8]))
        raise RunBusy(
            f"processes are still running in the view {folder.path.name} ({pids}), so it was not {what}",
            hint="end them, and try again",
        )


def _rebuilt(raised: _Raised) -> TakebackError:
    kind = getattr(errors, raised.kind, BackendError)
    error: TakebackError = kind(raised.message, raised.hint)
    if raised.how:
        error.how = raised.how  # type: ignore[attr-defined]
    return error
