"""A machine to throw away: `python -m tests.sandbox.throwaway FOLDER -- COMMAND…`

The command sees folders of its own as /srv, /tmp, /var/tmp and /dev/shm; everything else is read-only, and there is
no network. So a command that destroys what it can reach destroys only the world of one test. The sandbox under test
is inside. It has temporary folders, which are writable, and other folders, which are not.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from takeback.system import landlock, namespaces

NEEDS_A_MACHINE = pytest.mark.skipif(
    os.geteuid() != 0 or bool(namespaces.why_refused()) or landlock.version() < landlock.SIGNALS,
    reason="not on this platform: only root can have such a machine, with Landlock of version 6",
)
CHECKOUT = Path(__file__).parents[2]
PLACES = {"srv": "/srv", "tmp": "/tmp", "vartmp": "/var/tmp", "shm": "/dev/shm"}
_OF_THE_REAL_ONE = (16, 17, 22, 25)
"""Modules, raw access, reboot and the clock: not even by mistake."""


class Machine:
    """One such machine, with a workspace in /srv/work/ws, a neighbour in /srv/work/other and a home in /srv/home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in PLACES:
            (folder / name).mkdir(parents=True)
        self.root, self.other, self.home = (
            folder / "srv" / name for name in ("work/ws", "work/other", "home")
        )
        for path in (self.root, self.other, self.home):
            path.mkdir(parents=True)
        (self.root / "a.txt").write_text("one\n")
        (self.other / "f").write_text("theirs")
        (self.home / ".bashrc").write_text("# theirs\n")
        for needed in _seen_by_python():
            if needed.startswith("/tmp/"):
                (folder / "tmp" / needed.removeprefix("/tmp/")).mkdir(parents=True, exist_ok=True)

    def line(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "tests.sandbox.throwaway", str(self.folder), "--", *words]

    def env(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": "/srv/home", "TAKEBACK_HOME": "/srv/state", "PYTHONPATH": f"{CHECKOUT}/src:{CHECKOUT}"}
        return (
            kept
            | own
            | {"NO_COLOR": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PYTHONSAFEPATH": "1"}
            | dict(more)
        )

    def do(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the workspace of this machine."""
        return subprocess.run(
            self.line(words),
            cwd=CHECKOUT,
            env=self.env(more),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=100,
            stdin=subprocess.DEVNULL,
        )

    def takeback(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.do(sys.executable, "-m", "takeback", *words, **more)


def _seen_by_python() -> list[str]:
    """Return the folders that Python itself needs, with the checkout."""
    found = [CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)]
    return sorted({os.path.realpath(path) for path in found})


def main() -> None:
    folder, _, *words = sys.argv[1:]
    own = [(f"{folder}/{name}", place) for name, place in PLACES.items()]
    needed = [(path, path) for path in _seen_by_python() if path.startswith("/tmp/")]
    namespaces.enter(
        namespaces.Isolation(
            bound=(*own, *needed),
            protected=tuple(path for path, _ in needed),
            network="loopback",
            as_root=True,
        )
    )
    for number in _OF_THE_REAL_ONE:
        ctypes.CDLL(None).prctl(24, number, 0, 0, 0)
    os.chdir("/srv/work/ws")
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
