"""A folder for a trial, which is removed with the process that made it, however that process ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import BackendError

# It waits for a line, or for the end of the process that would write it: kill -9 closes the pipe, too. A daemon that
# was just starting at that moment needs some seconds to write its lock file.
KEEPER = """\
trap '' HUP INT TERM
folder=$(mktemp -d) && echo "$folder" || exit 1
read -r word || sleep 6
read -r pid < "$folder/state/daemon.lock" && grep -q takeback "/proc/$pid/cmdline" && kill -9 "$pid"
rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
"""


@contextmanager
def scratch() -> Iterator[Path]:
    """Create a folder that is removed after this block, and stop the daemon that was started for the state in it."""
    with subprocess.Popen(
        ["/bin/sh", "-c", KEEPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as keeper:
        assert keeper.stdin and keeper.stdout
        made = keeper.stdout.readline().rstrip("\n")
        if not made:
            raise BackendError(
                "no temporary folder could be created, so nothing was tried",
                hint="make room in /tmp, or set TMPDIR",
            )
        try:
            yield Path(made)
        finally:
            keeper.stdin.write("done\n")
            keeper.stdin.flush()
