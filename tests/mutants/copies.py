"""Faults put into a copy of the checkout, so that the processes that a test starts have them too."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
# A fault may let a loop run for ever. pytest's own limit for one test is shorter, so what ends here is not one test.
LIMIT_S = 1200
# A fault may ask for all the memory that there is. The machine is shared.
LIMIT_BYTES = 4 * 2**30
PASSED, FAILED = 0, (1, 2)  # pytest's codes: a test failed, or could not even be read


def try_in_copies(
    every: Sequence[Mutant], tests: Sequence[str], workers: int
) -> Iterator[tuple[Mutant, bool]]:
    """Return for each fault whether it lives: whether these tests pass with it."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        copies = [Path(folder, str(number)) for number in range(workers)]
        for copy in copies:
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"), symlinks=True)
        if _run(copies[0], tests) != PASSED:
            sys.exit(f"without any fault, these tests fail: {' '.join(tests)}")

        def one(mutant: Mutant) -> tuple[Mutant, bool]:
            copy = copies.pop()
            place = copy / mutant.path.relative_to(ROOT)
            whole = place.read_bytes()
            try:
                place.write_bytes(mutant.applied(whole))
                # Alone first: to collect all the tests takes longer than to run a few.
                near = _near(mutant, tests)
                return mutant, all(_run(copy, some) == PASSED for some in (near, tests) if some)
            finally:
                place.write_bytes(whole)
                copies.append(copy)

        yield from pool.map(one, every)


def _near(mutant: Mutant, tests: Sequence[str]) -> list[str]:
    """Return the tests that have the name of the file: they are the first to find its faults."""
    named = f"test_{mutant.path.stem}*.py"
    return sorted(str(found.relative_to(ROOT)) for test in tests for found in (ROOT / test).rglob(named))


def limit_memory(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))


def _run(copy: Path, tests: Sequence[str]) -> int:
    # A compiled file is believed by its time and size, which a fault need not change.
    env = os.environ | {"PYTHONPATH": f"{copy}/src{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as started:
        limit_memory(started.pid)
        try:
            code = started.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            return FAILED[0]
    if code not in (PASSED, *FAILED):
        raise RuntimeError(
            f"pytest ended with {code}, which says nothing about the fault: {' '.join(command)}"
        )
    return code
