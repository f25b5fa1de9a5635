"""Put each small fault into the code and see whether the tests find it: `./dev test --mutants [SUBJECT | FILE]...`.

A subject is some files and the tests that have to pin them. A fault that no test finds is a promise that nothing
holds, or it changes nothing: then equivalent.toml lists it, with the reason. The run fails for a fault that lives and
is not listed, and for one that is listed and does not live.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.copies import ROOT, try_in_copies
from tests.mutants.inside import ELSEWHERE, HANGS, LIVES, try_inside
from tests.mutants.mutations import Mutant, mutants

SOURCE = ROOT / "src" / "takeback"
LISTED = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Subject:
    """Some files, and the tests that pin them, none with a service that a fork cannot use, such as a bucket."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    one_by_one: bool = False  # they share a service, which each test empties


SUBJECTS = {
    "core": Subject(("core",), ("tests/core",)),
    "rollback": Subject(
        ("engine/rollback/rollback.py", "engine/tracking/recovery.py"),
        (
            "tests/engine",
            "tests/world/test_conflicts.py",
            "tests/runs",
            "tests/threads",
            "tests/resources/sqlite",
        ),
        one_by_one=True,
    ),
    "restore": Subject(
        ("resources/files/put_back/restore.py", "system/exchange.py"),
        (
            "tests/engine",
            "tests/world",
            "tests/resources",
            "--ignore=tests/resources/postgres",
            "tests/agents/test_settings_race.py",
        ),
    ),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev test --mutants", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument(
        "subjects", nargs="*", default=["core"], metavar="SUBJECT | FILE", help=", ".join(SUBJECTS)
    )
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    parser.add_argument("-k", action="append", metavar="TEXT", help="try only faults that are called so")
    parser.add_argument("-t", "--tests", action="append", help="these tests instead of those of the subject")
    parser.add_argument("-v", action="store_true", help="name the test that finds each")
    chosen = parser.parse_args(arguments)
    wrong = 0
    for name in chosen.subjects:
        subject = SUBJECTS.get(name) or next((s for s in SUBJECTS.values() if name.startswith(s.files)), None)
        if subject is None:
            parser.error(f"{name} is neither a subject nor a file of one")
        if chosen.tests:
            subject = Subject(subject.files, tuple(chosen.tests))
        workers = 1 if subject.one_by_one else chosen.n
        files = subject.files if name in SUBJECTS else (name,)
        wrong += _judged(subject, files, workers, chosen.k or (), verbose=chosen.v)
    return 1 if wrong else 0


def _judged(
    subject: Subject, files: Sequence[str], workers: int, called: Sequence[str], *, verbose: bool
) -> int:
    """Try every fault of these files, say what is to be looked at, and return how many that are."""
    places = [SOURCE / file for file in files]
    paths = [p for place in places for p in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    every = [
        mutant
        for path in paths
        for mutant in mutants(path)
        if not called or any(text in mutant.key for text in called)
    ]
    results: dict[Mutant, str] = {}

    def tell(mutant: Mutant, result: str, by: str) -> None:
        results[mutant] = result
        if verbose:
            _say(f"{result}: {_file(mutant)}:{mutant.line} {mutant.key}{by and f' by {by}'}")
        if result == LIVES and mutant.key not in listed().get(_file(mutant), ()):
            _say(f"these tests let it live: {_file(mutant)}:{mutant.line} {mutant.key}")
        if len(results) % 100 == 0:
            _say(f"{len(results):,} of {len(every):,} faults tried")

    try_inside(every, subject.tests, workers, tell)
    # A fault outside of any function has done its harm when a module is read.
    read = [mutant for mutant in every if results[mutant] == ELSEWHERE]
    alive = {mutant for mutant in every if results[mutant] == LIVES}
    if read:
        _say(f"{len(read):,} faults to try in copies of the checkout")
        alive |= {mutant for mutant, lives in try_in_copies(read, subject.tests, workers) if lives}
    known = {(file, key) for file, keys in listed().items() for key in keys}
    living = {(_file(mutant), mutant.key): mutant for mutant in every if mutant in alive}
    for name in sorted(living.keys() - known):
        print(f"lives: {name[0]}:{living[name].line} {name[1]}")
    stale = {name for name in known - living.keys() if name[0] in {_file(mutant) for mutant in every}}
    for file, key in sorted(() if called else stale):
        print(f"is listed as equivalent and does not live: {file} {key}")
    for mutant in (m for m in every if results[m] == HANGS):
        print(f"found, for it ran into the limit of time: {_file(mutant)}:{mutant.line} {mutant.key}")
    wrong = len(living.keys() - known) + (0 if called else len(stale))
    found, explained = len(every) - len(alive), len(living.keys() & known)
    print(f"{len(every)} faults, {found} found, {explained} explained, {wrong} to look at")
    return wrong


def _say(text: str) -> None:
    """Tell who waits how far it is; standard output has the result."""
    print(text, file=sys.stderr, flush=True)


def _file(mutant: Mutant) -> str:
    return mutant.path.relative_to(SOURCE).as_posix()


def listed() -> dict[str, dict[str, str]]:
    """Return, for each file, the faults that change nothing, with the reason."""
    return tomllib.loads(LISTED.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
