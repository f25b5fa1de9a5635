"""The command that starts another one inside a fence, and what it noted."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from blake3 import blake3

from takeback.engine.sandbox import boot
from takeback.engine.sandbox.fence import Denial, Fence, noted
from takeback.system.private_files import private_folder, write_whole

FOLDER = "sandbox"
PRELUDE = """\
# Takeback: {action} runs in the sandbox, so the shell is started again inside it.
if [ "$TAKEBACK_FENCED" != {secret} ]; then
  if [ -n "$BASH_EXECUTION_STRING" ]; then
    TAKEBACK_FENCED={secret} exec {start} -- "$BASH" -c "$BASH_EXECUTION_STRING" "$0" "$@"
  elif [ -n "$ZSH_EXECUTION_STRING" ]; then
    TAKEBACK_FENCED={secret} exec {start} -- zsh -c "$ZSH_EXECUTION_STRING" "$0" "$@"
  fi
  echo "takeback: this shell cannot be put into the sandbox: it is neither bash nor zsh. Nothing was started" >&2
  exit 125
fi
unset TAKEBACK_FENCED
"""


def starter() -> tuple[str, ...]:
    """Return the program that starts a command inside a fence. It loads as little of Python as possible."""
    return sys.executable, "-I", "-S", os.path.realpath(boot.__file__)


class Fences:
    """The fences of one workspace, as files in its state: another process starts the command."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def around(self, fence: Fence, log: str, words: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs these words inside a fence. The same fence always has the same file."""
        data = fence.written()
        name = f"{blake3(data).hexdigest()[:16]}.fence"
        path = private_folder(self._folder) / name
        if not path.exists():
            write_whole(path, data)
        return (*starter(), str(path), log, "--", *words)

    def prelude(self, fence: Fence, action: str) -> str:
        """Return a line that puts a shell, which was started with `-c`, into the sandbox before it goes on.

        The shell is started again inside, with everything that it was given: what its caller does around the command
        happens inside, too, and the command itself stays as it was written.
        """
        path = private_folder(self._folder) / f"{action}.sh"
        secret = secrets.token_hex(16)  # so that no command can pretend to be inside
        start = shlex.join(self.around(fence, self.log(action), ())[:-1])
        write_whole(path, PRELUDE.format(action=action, secret=secret, start=start).encode())
        return f". {shlex.quote(str(path))}"

    def log(self, action: str) -> str:
        """Return the file for what is denied to an action."""
        return str(self._folder / f"{action}.denied")

    def tidy(self, since_us: int) -> None:
        """Remove what was noted before a time. A fence that is needed again is written again."""
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.stat().st_mtime_ns // 1000 < since_us:
                path.unlink(missing_ok=True)

    def denied(self, action: str) -> list[Denial]:
        """Return what was denied to an action so far."""
        return noted(self.log(action))
