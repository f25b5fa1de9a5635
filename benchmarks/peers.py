"""How other tools take checkpoints and restore: their own commands, replayed without the overhead of their runtime.

Run by itself it measures them alone: `python peers.py --files 5000`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import _tree

# A process inherits its parent's peak memory, so the parent of a measured process must be small.
WEIGH = """
import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
sys.stderr.write(f"\\n{usage.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Peer:
    """A system that keeps checkpoints of `tree` in `store`."""

    name = ""

    def __init__(self, tree: Path, store: Path) -> None:
        self.tree = tree
        self.store = store
        self.peak_kb = 0
        """The most memory that one of its processes took while it was weighed."""
        self.weighing = False

    def first(self) -> None:
        """Set up, and take the first checkpoint."""
        raise NotImplementedError

    def checkpoint(self) -> None:
        raise NotImplementedError

    def restore(self, paths: list[str]) -> None:
        """Go back to the last checkpoint; `paths` are those that changed since."""
        raise NotImplementedError

    def seed(self) -> None:
        """Reach the same state as `first`, as quickly as possible."""
        self.first()

    def call(self, *command: str, given: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        if self.weighing:
            command = (sys.executable, "-I", "-S", "-c", WEIGH, *command)
        done = subprocess.run(
            command, cwd=self.tree, env=os.environ | self.environment(), input=given, capture_output=True
        )
        if self.weighing:
            said, _, weight = done.stderr.rpartition(b"\n")
            done.stderr = said
            self.peak_kb = max(self.peak_kb, int(weight))
        if done.returncode not in ok:
            raise RuntimeError(f"{command} exited with {done.returncode}: {done.stderr.decode()[-500:]}")
        return done.stdout

    def weigh(self, paths: list[str]) -> None:
        """Take a checkpoint and restore, measuring only memory."""
        self.weighing = True
        _tree.edit(self.tree, paths)
        self.checkpoint()
        _tree.edit(self.tree, paths)
        self.restore(paths)
        self.weighing = False

    def environment(self) -> dict[str, str]:
        return {}

    def available(self) -> bool:
        return bool(shutil.which("git"))


class Git(Peer):
    """The common part of shadow repositories: a git folder elsewhere, with the tree as its work tree."""

    settings: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        who = {
            f"GIT_{role}_{what}": "bench@x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        return who | {
            "GIT_DIR": str(self.store / ".git"),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
        }

    def git(self, *args: str, given: bytes = b"", ok: tuple[int, ...] = (0,)) -> str:
        return os.fsdecode(self.call("git", *args, given=given, ok=ok)).strip()

    def set_up(self) -> None:
        self.store.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        # A garbage collection in the background would slow down the next measurement; without it they are faster.
        for setting in ("gc.auto=0", *self.settings):
            self.git("config", *setting.split("="))


class TunedGit(Git):
    """Git with everything switched on that makes large trees fast."""

    name = "tuned git"
    settings = (
        "feature.manyFiles=true",
        "index.version=4",
        "core.untrackedCache=true",
        "core.preloadIndex=true",
        "core.looseCompression=1",
    )

    def first(self) -> None:
        self.set_up()
        self.checkpoint()

    def checkpoint(self) -> None:
        self.git("add", "-A")
        self.snapshot = self.git("write-tree")

    def restore(self, paths: list[str]) -> None:
        del paths  # it looks at everything
        self.git("read-tree", "--reset", "-u", self.snapshot)


class Gemini(Git):
    """Gemini CLI: add, status, commit; restore and clean."""

    name = "Gemini CLI"

    def first(self) -> None:
        self.set_up()
        self.git("commit", "-q", "--allow-empty", "-m", "Initial commit")
        self.checkpoint()

    def checkpoint(self) -> None:
        self.git("add", ".")
        status = self.git("status", "--porcelain", "-b", "-u", "--null")
        if len(status.strip("\0").split("\0")) > 1:
            self.git("commit", "-q", "-m", "snapshot", "--no-verify")
        self.snapshot = self.git("rev-parse", "HEAD")

    def restore(self, paths: list[str]) -> None:
        del paths  # it looks at everything
        self.git("restore", "--source", self.snapshot, ".")
        self.git("clean", "-f", "-d")


class Opencode(Git):
    """opencode: lists what changed, asks what is ignored, adds just that, and writes a tree."""

    name = "opencode"
    settings = ("core.autocrlf=false", "core.longpaths=true", "core.symlinks=true", "core.fsmonitor=false")
    large_bytes = 2 * 1024 * 1024
    listing = ("-c", "core.quotepath=false")

    def first(self) -> None:
        self.set_up()
        self.checkpoint()

    def seed(self) -> None:
        """Its own first add names each file, which takes minutes for a large tree."""
        self.set_up()
        self.git("add", "-A")
        self.checkpoint()

    def checkpoint(self) -> None:
        with ThreadPoolExecutor(2) as both:
            changed = both.submit(self.git, *self.listing, "diff-files", "--name-only", "-z", "--", ".")
            others = both.submit(
                self.git, *self.listing, "ls-files", "--others", "--exclude-standard", "-z", "--", "."
            )
        names = list(dict.fromkeys([*changed.result().split("\0"), *others.result().split("\0")]))
        names = [name for name in names if name]
        if names:
            given = os.fsencode("\0".join(names))
            ignored = self.git("check-ignore", "--no-index", "--stdin", "-z", given=given, ok=(0, 1))
            wanted = [
                name for name in names if name not in set(ignored.split("\0")) and not self._large(name)
            ]
            given = os.fsencode("\0".join(wanted))
            self.git("add", "--all", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul", given=given)
        self.snapshot = self.git("write-tree")

    def _large(self, name: str) -> bool:
        try:
            return (self.tree / name).lstat().st_size > self.large_bytes
        except OSError:
            return False

    def restore(self, paths: list[str]) -> None:
        for start in range(0, len(paths), 100):
            some = paths[start : start + 100]
            if len(some) > 1:
                self.git("ls-tree", "--name-only", self.snapshot, "--", *some)
            self.git("checkout", self.snapshot, "--", *some)


class Restic(Peer):
    """restic, if it is installed: a backup program without undo."""

    name = "restic"

    def environment(self) -> dict[str, str]:
        return {
            "RESTIC_PASSWORD": "bench",
            "RESTIC_REPOSITORY": str(self.store),
            "RESTIC_CACHE_DIR": f"{self.store}-cache",
        }

    def available(self) -> bool:
        return bool(shutil.which("restic"))

    def first(self) -> None:
        self.call("restic", "init", "--quiet")
        self.checkpoint()

    def checkpoint(self) -> None:
        # By its full path: a backup of "." would name the files from the root, and restore would not find them.
        self.call("restic", "backup", "--quiet", str(self.tree))

    def restore(self, paths: list[str]) -> None:
        chosen = [f"--include={self.tree / path}" for path in paths]
        self.call("restic", "restore", "--quiet", "latest", "--target", "/", *chosen)


PEERS: tuple[type[Peer], ...] = (TunedGit, Gemini, Opencode, Restic)


def median_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3


def measure(peer: Peer, every: list[str], rounds: int) -> str:
    """Measure one peer alone: its first checkpoint, then checkpoint/restore for 0, 1 and 100 changes."""
    begun = time.perf_counter()
    peer.seed()
    said = [f"{peer.name:11} first {time.perf_counter() - begun:6.2f} s"]
    for count in (0, 1, 100):
        taken, restored = [], []
        for turn in range(rounds):
            chosen = _tree.pick(every, count, turn)
            _tree.edit(peer.tree, chosen)
            begun = time.perf_counter()
            peer.checkpoint()
            taken.append(time.perf_counter() - begun)
            _tree.edit(peer.tree, chosen)
            begun = time.perf_counter()
            if count:
                peer.restore(chosen)
            restored.append(time.perf_counter() - begun)
        said.append(f"{count} changed {median_ms(taken):.0f}/{median_ms(restored):.0f} ms")
    peer.weigh(_tree.pick(every, 100, rounds))
    return "  ".join([*said, f"peak {peer.peak_kb // 1024} MB"])


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--files", type=int, default=5000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "takeback-bench")
    given = options.parse_args()
    tree = _tree.generate(given.work, given.files)
    every = _tree.paths(tree)
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        for kind in PEERS:
            peer = kind(tree, Path(folder) / kind.__name__)
            print(
                measure(peer, every, given.rounds) if peer.available() else f"{peer.name}: not installed",
                flush=True,
            )


if __name__ == "__main__":
    main()
