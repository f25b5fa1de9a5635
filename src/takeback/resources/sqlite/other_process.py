"""Reading and writing a database in another process, if this process has it open.

SQLite's locks belong to a process. If a process opens and closes a database that it already has open, the locks of
the other connection are dropped, unless both use the same copy of SQLite; and Python's copy is not ours. So a
database that is open in this process is read and written in another process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core.codec import text_of
from takeback.errors import BackendError
from takeback.resources.sqlite import damaged, reading, writing
from takeback.resources.sqlite.own_files import descriptors
from takeback.resources.sqlite.reading import Taken
from takeback.system import processes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_MORE_S = 600.0
_END_S = 10.0


class DatabaseAccess:
    """Reads and writes databases: here, or in a helper process for those that this process has open.

    The helper is started when it is first needed, and ends with this process or when `close` is called.
    """

    def __init__(self) -> None:
        self._helper: _Helper | None = None
        self._turn = threading.Lock()
        self.started = 0
        """How many helpers have been started."""

    def close(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()

    def take(self, path: bytes, to: bytes, wait_s: float) -> Taken:
        """Read an image; see reading.take."""
        if not descriptors(path):
            return reading.take(path, to, wait_s)
        return msgspec.convert(self._elsewhere("take", path, to, wait_s), Taken)

    def tables(self, path: bytes) -> dict[str, list[str]] | None:
        """Read the names of tables and columns; see reading.tables."""
        if not descriptors(path):
            return reading.tables(path)
        return msgspec.convert(self._elsewhere("tables", path), dict[str, list[str]] | None)

    def is_locked(self, path: bytes, wait_s: float) -> bool:
        """Return whether it is locked; see reading.is_locked. Returns False if the lock may be our own."""
        try:
            return not descriptors(path) and reading.is_locked(path, wait_s)
        except OSError:
            # Gone meanwhile, or we may not read it.
            return False

    def put(self, path: bytes, image: bytes, expected: str, scratch: bytes, *, wal: bool) -> str:
        """Overwrite a database; see writing.put."""
        if not descriptors(path):
            return writing.put(path, image, expected, scratch, wal=wal)
        return str(self._elsewhere("put", path, image, expected, scratch, wal=wal))

    def move(self, path: bytes, base: bytes, goal: bytes) -> str:
        """Apply a difference; see writing.move."""
        if not descriptors(path):
            return writing.move(path, base, goal)
        return str(self._elsewhere("move", path, base, goal))

    def remove(self, path: bytes, expected: str, scratch: bytes, visible: bytes) -> str:
        """Remove a database; see writing.remove."""
        if not descriptors(path):
            return writing.remove(path, expected, scratch, visible)
        return str(self._elsewhere("remove", path, expected, scratch, visible))

    def empty(self, path: bytes, expected: str, scratch: bytes) -> str:
        """Empty a database; see writing.empty."""
        if not descriptors(path):
            return writing.empty(path, expected, scratch)
        return str(self._elsewhere("empty", path, expected, scratch))

    def fill(self, path: bytes, image: bytes) -> str:
        """Fill an empty file; see writing.fill."""
        if not descriptors(path):
            return writing.fill(path, image)
        return str(self._elsewhere("fill", path, image))

    def replace(self, path: bytes, expected: str, image: bytes, mode: int, uid: int, gid: int) -> str:
        """Replace a damaged database; see damaged.replace."""
        if not descriptors(path):
            return damaged.replace(path, expected, image, mode, uid, gid)
        return str(self._elsewhere("replace", path, expected, image, mode, uid, gid))

    def _elsewhere(self, name: str, *given: Any, **named: Any) -> Any:
        """Call one of the functions of the helper."""
        if not self._turn.acquire(blocking=False):
            # Another thread, or code that a signal has interrupted, waits for an answer and must not get this one.
            with closing(DatabaseAccess()) as apart:
                return apart._elsewhere(name, *given, **named)
        try:
            return self._asked(name, given, named)
        finally:
            self._turn.release()

    def _asked(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self._helper is not None and not self._helper.is_usable():
            self.close()
        try:
            if self._helper is None:
                self._helper = _Helper()
                self.started += 1
            done, found = self._helper.ask((name, given, named))
        except (OSError, EOFError, subprocess.SubprocessError) as error:
            raise _failed(given[0], self._why_ended(error)) from error
        except BaseException:
            # Interrupted: its answer would be taken for the answer to the next question.
            self._why_ended(None)
            raise
        if not done:
            raise _failed(given[0], str(found))
        return found

    def _why_ended(self, error: BaseException | None) -> str:
        """Give up a helper that cannot be used any more, and return why."""
        helper, self._helper = self._helper, None
        return (helper.kill() if helper else "") or str(error)


class _Helper:
    """The other process. It answers one question at a time."""

    def __init__(self) -> None:
        from multiprocessing.connection import Pipe

        self._owner = _who()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it is read when the process has failed
        self._line, theirs = Pipe()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        # It does not belong to the call during which it is started.
        environment.pop(processes.VARIABLE, None)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
                # Otherwise an interrupt from the keyboard would end it as well.
                start_new_session=True,
            )
        except BaseException:
            self._line.close()
            self._errors.close()
            raise
        finally:
            theirs.close()
        # Also at the exit of this process: its parent may wait until all of its descendants are gone.
        self._ending = weakref.finalize(self, _end, os.getpid(), self._line, self._process)

    def is_usable(self) -> bool:
        """Return False if it has ended, or if this process is not the one that started it, as the same user."""
        return self._owner == _who() and self._process.poll() is None

    def ask(self, question: tuple[str, tuple[Any, ...], dict[str, Any]]) -> tuple[bool, Any]:
        self._line.send_bytes(msgspec.msgpack.encode(question))
        if not self._line.poll(_MORE_S):
            raise TimeoutError(f"it has not answered within {_MORE_S:.0f} s")
        done, found = msgspec.msgpack.decode(self._line.recv_bytes())
        return bool(done), found

    def end(self) -> None:
        self._ending()
        self._errors.close()

    def kill(self) -> str:
        """Kill it, and return the last line of what it said about an error."""
        self._process.kill()
        self._ending()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()
        self._errors.close()
        return said.rpartition("\n")[2]


def _who() -> tuple[int, ...]:
    return os.getpid(), os.geteuid(), os.getegid()


def _end(owner: int, line: Connection, process: subprocess.Popen[bytes]) -> None:
    """Close the line, at whose end a helper exits."""
    line.close()
    if owner != os.getpid():
        process.returncode = 0  # a copy made by a fork; the process itself belongs to its parent
        return
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failed(path: bytes, why: str) -> BackendError:
    return BackendError(
        f"{text_of(path)} is open in this process, and a second process could not access it: {why[:300]}",
        hint="close the connection in this process, and try again",
    )


def _main() -> None:
    from multiprocessing.connection import Connection

    # Started during a call, but not a background process of that call.
    processes.put_brand(processes.this_process(), processes.new_brand())
    os.chdir("/")
    functions: dict[str, Callable[..., Any]] = {
        "take": reading.take,
        "tables": reading.tables,
        "put": writing.put,
        "move": writing.move,
        "remove": writing.remove,
        "empty": writing.empty,
        "fill": writing.fill,
        "replace": damaged.replace,
    }
    line = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):
        while True:
            name, given, named = msgspec.msgpack.decode(line.recv_bytes())
            try:
                answer: tuple[bool, Any] = True, functions[name](*given, **named)
            except Exception as error:  # noqa: BLE001 - the process that asked raises it
                answer = False, str(error) or type(error).__name__
            line.send_bytes(msgspec.msgpack.encode(answer))
    # At once: what waits for the end of our parent waits for our end as well.
    os._exit(0)


if __name__ == "__main__":
    _main()
