"""Mounts for tests, in a process with mounts of its own: whatever is mounted in /tmp stops the views of others."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec

import pytest

P = ParamSpec("P")

_NEWNS = 0x20000
_SKIPPED, _FAILED = 77, 1


def with_own_mounts(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test in a forked process that nobody sees the mounts of; they go with it."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        child = os.fork()
        if not child:
            _be_apart(lambda: test(*args, **kwargs))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == _SKIPPED:
            pytest.skip("this machine allows no mounts")
        assert code == 0, "see the traceback on standard error"

    return run


def _be_apart(do: Callable[[], None]) -> None:
    code = _FAILED
    try:
        if ctypes.CDLL(None).unshare(_NEWNS):
            code = _SKIPPED
        else:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            do()
            code = 0
    except pytest.skip.Exception:
        code = _SKIPPED
    except BaseException:  # noqa: BLE001 (the process ends here; the test fails by its code)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def mounted(*words: str, place: Path) -> Iterator[None]:
    """Mount something for a while; skip the test where that is not allowed."""
    done = subprocess.run(["mount", *words, str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"not on this platform: {done.stderr.decode()}")
    there = os.stat(place)
    try:
        yield
    finally:
        _unmount(there, place)


def _unmount(there: os.stat_result, place: Path) -> None:
    """Unmount it where it is now: a folder above it may have been moved."""
    from takeback.system import mounts

    for mount in mounts.below(os.fsencode(place.parents[2])):
        if os.path.samestat(os.stat(mount.place), there):
            subprocess.run(["umount", "-l", mount.place], check=True)
            return
    raise AssertionError(f"what was mounted at {place} is not there any more")
