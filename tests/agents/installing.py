"""Makes the real clients of coding agents available to tests: fetched once, by the locks beside this file.

They are large (some 700 MB unpacked from PyPI, 450 MB from npm), so they lie in a cache that all checkouts share, and
not in the repository: `TAKEBACK_TEST_CLIENTS`, else the user's cache folder. Both locks hold hashes, and no host.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NODE_VERSION_MIN = 20
UNUSED_S_MAX = 30 * 86400.0
FETCH_S_MAX = 600.0


def cache() -> Path:
    named = os.environ.get("TAKEBACK_TEST_CLIENTS")
    return Path(named) if named else Path(platformdirs.user_cache_dir("takeback-test-clients"))


def wheel_clients() -> Path:
    """The folder that the wheels of Claude Code and Codex were unpacked into."""
    if os.uname().sysname != "Linux" or os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("not on this platform: there is no wheel of this client for it")
    return installed("wheels", [HERE / "clients.txt"], _install_wheels)


def node_clients() -> Path:
    """The folder `node_modules` with Gemini CLI and opencode."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        pytest.skip("not on this platform: there is no npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < NODE_VERSION_MIN:
        pytest.skip(f"not on this platform: node is {version.strip()}, and {NODE_VERSION_MIN} is needed")
    locks = [HERE / "node/package.json", HERE / "node/package-lock.json"]
    return installed("node", locks, _install_node) / "node_modules"


def installed(name: str, locks: Sequence[Path], install: Callable[[Path], None]) -> Path:
    """The folder with what these locks name; installed now, if it is not there yet."""
    digest = hashlib.sha256(b"\0".join(lock.read_bytes() for lock in locks)).hexdigest()[:12]
    place = cache() / f"{name}-{digest}"
    with alone(cache() / f"{name}.lock"):
        if not place.exists():
            fresh = cache() / f"{name}-fresh"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            install(fresh)
            fresh.rename(place)  # whole or not at all
        os.utime(place)
        for other in cache().glob(f"{name}-*"):
            if other.stat().st_mtime < time.time() - UNUSED_S_MAX:  # of a checkout that has moved on
                shutil.rmtree(other)
    return place


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _install_wheels(place: Path) -> None:
    """With pip of the Python below the environment, or with the uv that made the environment."""
    options = [
        "--quiet",
        "--require-hashes",
        "--no-deps",
        "--target",
        str(place),
        "-r",
        str(HERE / "clients.txt"),
    ]
    base = getattr(sys, "_base_executable", None) or sys.executable
    pip = [base, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", *options]
    uv = next(iter([*(map(str, (ROOT / ".tools").glob("uv-*/bin/uv"))), shutil.which("uv")]), None)
    env = os.environ | {"PIP_USER": "0"}
    done = subprocess.run(pip, capture_output=True, text=True, env=env, timeout=FETCH_S_MAX)
    if done.returncode and uv:
        fetch = [uv, "pip", "install", *options]
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=FETCH_S_MAX)
    assert done.returncode == 0, f"the clients could not be fetched: {done.stderr[-2000:]}"


def _install_node(place: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, place)
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=FETCH_S_MAX,
    )
    assert done.returncode == 0, f"the clients could not be fetched: {done.stderr[-2000:]}"


if __name__ == "__main__":
    for folder in (wheel_clients(), node_clients()):
        sys.stdout.write(f"{folder}\n")
