"""Put each small fault into the code and see whether the tests find it: `./dev test --mutants [SUBJECT | FILE]...`.

A subject is some files and the tests that have to pin them. A fault that no test finds is a promise that nothing
holds, or it changes nothing: then equivalent.toml lists it, with the reason. The run fails for a fault that lives and
is not listed, and for one that is listed and does not live.

Each fault gets a process of its own, forked from a Python that has read pytest, and a copy of the sources.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import coverage

from tests.mutants.mutations import Mutant, mutants

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LISTED = Path(__file__).with_name("equivalent.toml")
# A fault may let a loop run for ever; no test that finds one takes as long.
LIMIT_S = 120


@dataclass(frozen=True)
class Subject:
    """Some files, and the tests that pin them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    by_line: bool = False  # whether coverage may choose the tests: only where nothing runs in other processes


SUBJECTS = {
    "core": Subject(("core",), ("tests/core",), by_line=True),
    "rollback": Subject(
        ("engine/rollback.py", "engine/recovery.py"),
        ("tests/engine", "tests/world/test_conflicts.py", "tests/world/test_crash.py", "tests/runs"),
    ),
    "restore": Subject(
        ("resources/files/restore.py", "resources/files/exchange.py"),
        ("tests/world", "tests/resources"),
    ),
}


@dataclass
class Tests:
    """The tests of a subject, quickest first, and which of them pass through a line."""

    paths: tuple[str, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    through: dict[tuple[str, int], set[str]] = field(default_factory=dict)

    def of(self, mutant: Mutant) -> list[str]:
        if not self.through:
            return list(self.paths)
        name = str(mutant.path)
        found = self.through.get((name, mutant.line), set()) | self.through.get(
            (name, mutant.statement), set()
        )
        # What runs at import has no test of its own, so whatever touches the file is asked.
        named = found - {""} or {
            t for (file, _), tests in self.through.items() if file == name for t in tests if t
        }
        return sorted(named, key=lambda test: self.seconds.get(test, 0.0))


def look(subject: Subject) -> Tests:
    """Run the tests once without any fault. They have to pass, and coverage notes which line each of them reaches."""
    if not subject.by_line:
        return Tests(subject.tests)
    with tempfile.TemporaryDirectory() as folder:
        report, data = Path(folder, "report.xml"), Path(folder, "coverage")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n0",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
        ]
        command += ["--cov=takeback.core", "--cov-context=test", "--cov-report=", *subject.tests]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(data)}, check=True)
        read = coverage.CoverageData(str(data))
        read.read()
        tests = Tests(subject.tests)
        for file in read.measured_files():
            for line, contexts in read.contexts_by_lineno(file).items():
                tests.through[file, line] = {context.partition("|")[0] for context in contexts}
        for case in ElementTree.parse(report).iter("testcase"):
            node = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
            tests.seconds[node] = float(case.attrib["time"])
    return tests


def lives(mutant: Mutant, copy: Path, chosen: Sequence[str]) -> bool:
    """Return whether these tests pass with this fault in this copy of the sources."""
    place = copy / mutant.path.relative_to(SOURCE)
    whole = place.read_bytes()
    place.write_bytes(mutant.applied(whole))
    try:
        child = os.fork()
        if not child:
            _test(copy, chosen)
        return _exit_code(child) == 0
    finally:
        place.write_bytes(whole)


def _test(copy: Path, chosen: Sequence[str]) -> None:
    """Run these tests in this process, which ends with their code."""
    import pytest

    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.path.insert(0, str(copy))
    # A compiled file is believed by its time and size, which a fault need not change.
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    code = 1
    try:
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen])
    finally:
        os._exit(int(code))


def _exit_code(child: int) -> int:
    """Wait for a child, which ends itself or is ended with all it started."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tried(every: Sequence[Mutant], tests: Tests, workers: int) -> Iterator[tuple[Mutant, bool]]:
    """Try each fault, several at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        copies = [Path(folder, str(number)) for number in range(workers)]
        for copy in copies:
            shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))

        def one(mutant: Mutant) -> tuple[Mutant, bool]:
            copy = copies.pop()
            try:
                return mutant, lives(mutant, copy, tests.of(mutant))
            finally:
                copies.append(copy)

        yield from pool.map(one, every)


def listed() -> dict[str, dict[str, str]]:
    """Return, for each file, the faults that change nothing, with the reason."""
    return tomllib.loads(LISTED.read_text(encoding="utf-8")) if LISTED.exists() else {}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev test --mutants", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument(
        "subjects", nargs="*", default=["core"], metavar="SUBJECT | FILE", help=", ".join(SUBJECTS)
    )
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    chosen = parser.parse_args(arguments)
    wrong = 0
    for name in chosen.subjects:
        subject = SUBJECTS.get(name) or next(s for s in SUBJECTS.values() if name.startswith(s.files))
        files = (name,) if name not in SUBJECTS else subject.files
        wrong += _judged(subject, files, chosen.n)
    return 1 if wrong else 0


def _judged(subject: Subject, files: Sequence[str], workers: int) -> int:
    import pytest  # noqa: F401  read once, before the first fork

    places = [SOURCE / "takeback" / file for file in files]
    paths = [p for place in places for p in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    every = [mutant for path in paths for mutant in mutants(path)]
    known, tests, wrong, alive = listed(), look(subject), 0, 0
    seen: set[tuple[str, str]] = set()
    for number, (mutant, living) in enumerate(tried(every, tests, workers), start=1):
        file = mutant.path.relative_to(SOURCE / "takeback").as_posix()
        reason = known.get(file, {}).get(mutant.key)
        alive += living
        if living and reason is None:
            wrong += 1
            print(f"{number}/{len(every)} lives: {file}:{mutant.line} {mutant.key}", flush=True)
        elif living:
            seen.add((file, mutant.key))
    names = {path.relative_to(SOURCE / "takeback").as_posix() for path in paths}
    for file, keys in known.items():
        for key in keys if file in names else ():
            if (file, key) not in seen:
                wrong += 1
                print(f"is listed as equivalent and does not live: {file} {key}")
    print(f"{len(every)} faults, {len(every) - alive} found, {len(seen)} explained, {wrong} to look at")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
