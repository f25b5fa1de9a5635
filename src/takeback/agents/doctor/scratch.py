"""A folder for a trial, which goes away with whoever made it, however that one ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import BackendError

# It waits for a word, or for the end of the one who would say it: a kill -9 closes the pipe too. A daemon that was
# just being started when that happened needs a moment to show itself.
KEEPER = """\
trap '' HUP INT TERM
folder=$(mktemp -d) && echo "$folder" || exit 1
read -r word || sleep 6
read -r pid < "$folder/state/daemon.lock" && grep -q takeback "/proc/$pid/cmdline" && kill -9 "$pid"
rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
"""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone after this block, with the daemon that was started for the state in it."""
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
                "no temporary folder could be made, so nothing was tried",
                hint="make room in /tmp, or set TMPDIR",
            )
        try:
            yield Path(made)
        finally:
            keeper.stdin.write("done\n")
            keeper.stdin.flush()
