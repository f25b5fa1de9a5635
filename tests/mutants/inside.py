"""Faults put into functions that pytest's own process has read already: a fork for each, and no start of anything.

The tests run once without a fault. They have to pass, and it is noted which of them reach a line, also in a Python
that they start. Then each fault gets a fork, in which its function has other code, and the tests that reach it, the
quickest first. What they start has the fault by way of site/sitecustomize.py.
"""

from __future__ import annotations

import functools
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import pytest

from tests.mutants.copies import limit_memory
from tests.mutants.mutations import Mutant

SITE = Path(__file__).with_name("site")

# Of computing, in one fork, besides what its tests took without a fault, which may let a loop run for ever.
LIMIT_S = 20
# For one that waits for ever.
LIMIT_WAITING_S = 300

BROKEN = 3  # how a fork ends that says nothing about its fault

FOUND, LIVES, HANGS, ELSEWHERE = "found", "lives", "hangs", "not in a function"


class Inside:
    """A plugin of pytest that runs the collected tests for each fault instead of once."""

    def __init__(
        self, every: Sequence[Mutant], workers: int, tell: Callable[[Mutant, str, str], None]
    ) -> None:
        self.every, self.workers, self.tell = every, workers, tell
        self.texts = {mutant.path: mutant.path.read_bytes() for mutant in every}
        self.failed: list[str] = []
        self.why = ""
        self.through: dict[tuple[str, int], set[str]] = {}
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        import hypothesis  # only now: pytest wants to rewrite it while it is read

        # That a test fails is all that counts, not how small the example can be made.
        left_out = (hypothesis.Phase.shrink, hypothesis.Phase.explain)
        phases = [phase for phase in hypothesis.Phase if phase not in left_out]
        hypothesis.settings.register_profile(
            "mutants", hypothesis.settings(), phases=phases, report_multiple_bugs=False
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)
            self.why = report.longreprtext[-2000:]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.unregister(name="terminalreporter")
        self._look(session.items)
        if not self.failed:
            self._try_all(self._fit(session.items))
        return True

    def _fit(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Return the tests that pass in a fork without a fault: the others would find every fault there is."""
        unfit = items[0].config._tmp_path_factory.getbasetemp() / "unfit"  # type: ignore[attr-defined]
        child = os.fork()
        if not child:
            try:
                with unfit.open("w", encoding="utf-8") as told:
                    self._enter_fork("control", items)
                    for item in sorted(items, key=lambda one: self.seconds[one.nodeid]):
                        _run(item, item.session)
                        if self.failed:
                            told.write(f"{item.nodeid}\0{self.why}\1")
                            self.failed.clear()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        found = dict(one.split("\0") for one in unfit.read_text(encoding="utf-8").split("\1") if one)
        for name, why in found.items():
            sys.stderr.write(f"left out, it fails in a fork without a fault: {name}\n{why}\n")
        return [item for item in items if item.nodeid not in found]

    def _look(self, items: list[pytest.Item]) -> None:
        """Run the tests without a fault."""
        measured = coverage.Coverage(
            data_file=None, include=sorted({str(m.path) for m in self.every}), config_file=False
        )
        files = sorted({str(mutant.path) for mutant in self.every})
        folder = _told_to_started(items[0], "look", files="\n".join(files))
        caches = _caches(files)
        measured.start()
        for place, item in enumerate(items, start=1):
            measured.switch_context(item.nodeid)
            for cache in caches:  # what an earlier test has asked for, this one does not reach
                cache.cache_clear()
            _run(item, items[place] if place < len(items) else item.session)
            for reached in _taken(folder / "reached"):
                number, _, path = reached.partition(" ")
                self.through.setdefault((path, int(number)), set()).add(item.nodeid)
        measured.stop()
        data = measured.get_data()
        for file in data.measured_files():
            for number_of_line, tests in data.contexts_by_lineno(file).items():
                self.through.setdefault((file, number_of_line), set()).update(set(tests) - {""})
        for found in gc.get_objects():
            if isinstance(found, functools._lru_cache_wrapper):
                found.cache_clear()

    def _try_all(self, items: list[pytest.Item]) -> None:
        functions = _functions({str(mutant.path) for mutant in self.every})
        running: dict[int, tuple[Mutant, float]] = {}
        base: Path = items[0].config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for number, mutant in enumerate(self.every):
            while len(running) >= self.workers:
                self._one_ends(running, base)
            others = list(_changed(mutant, self.texts[mutant.path], functions))
            chosen = self._chosen(mutant, items)
            if not others or not chosen:
                self.tell(mutant, LIVES if others else ELSEWHERE, "")
                continue
            child = os.fork()
            if not child:
                self._test(number, mutant, others, chosen)
            seconds = sum(self.seconds[item.nodeid] for item in chosen)
            running[child] = mutant, time.monotonic() + LIMIT_WAITING_S + 3 * seconds
        while running:
            self._one_ends(running, base)

    def _chosen(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        file = str(mutant.path)
        names = self.through.get((file, mutant.line), set()) | self.through.get(
            (file, mutant.statement), set()
        )
        return sorted((i for i in items if i.nodeid in names), key=lambda item: self.seconds[item.nodeid])

    def _test(
        self,
        number: int,
        mutant: Mutant,
        others: list[tuple[FunctionType, CodeType]],
        chosen: Sequence[pytest.Item],
    ) -> None:
        code = BROKEN
        try:
            basetemp = self._enter_fork(f"mutant-{number}", chosen)
            text = mutant.applied(self.texts[mutant.path]).decode()
            _told_to_started(chosen[0], "fault", fault=f"{mutant.path}\n{text}")
            for function, other in others:
                function.__code__ = other
            for item in chosen:
                _run(item, item.session)
                if self.failed:
                    break
            code = 1 if self.failed else 0
            (basetemp / FOUND).write_text("".join(self.failed), encoding="utf-8")
        finally:
            os._exit(code)

    def _enter_fork(self, name: str, chosen: Sequence[pytest.Item]) -> Path:
        """Give this fork limits, a group and a folder for its tests, and return the folder."""
        os.setpgid(0, 0)
        limit_s = LIMIT_S + int(2 * sum(self.seconds[item.nodeid] for item in chosen))
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        limit_memory(os.getpid())
        # What the process before the fork had open is lost here, which pytest would blame on the test.
        sys.unraisablehook = lambda _: None
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        factory = chosen[0].config._tmp_path_factory  # type: ignore[attr-defined]
        basetemp: Path = factory.getbasetemp() / name
        factory._basetemp = basetemp
        basetemp.mkdir()
        return basetemp

    def _one_ends(self, running: dict[int, tuple[Mutant, float]], base: Path) -> None:
        while True:
            for child, (mutant, until) in running.items():
                late = time.monotonic() > until
                if late:
                    os.killpg(child, signal.SIGKILL)
                pid, status = os.waitpid(child, 0 if late else os.WNOHANG)
                if pid:
                    del running[child]
                    code = os.waitstatus_to_exitcode(status)
                    if code == BROKEN:
                        raise RuntimeError(f"the tests could not even begin with this fault: {mutant.key}")
                    note = base / f"mutant-{self.every.index(mutant)}" / FOUND
                    by = note.read_text(encoding="utf-8") if note.exists() else ""
                    self.tell(mutant, LIVES if code == 0 else FOUND if code == 1 else HANGS, by)
                    return
            time.sleep(0.005)


def _run(item: pytest.Item, after: pytest.Item | pytest.Session) -> None:
    """Run a test, and tear down what the one after it does not need. What the session needs stays."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def _told_to_started(item: pytest.Item, name: str, **texts: str) -> Path:
    """Let every Python that a test starts from now on read these texts first, in a folder of this name."""
    folder: Path = item.config._tmp_path_factory.getbasetemp() / name  # type: ignore[attr-defined]
    folder.mkdir()
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    path = [str(SITE), *filter(str(SITE).__ne__, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ |= {"TAKEBACK_MUTANTS": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, path))}
    if commands := sys.modules.get("tests.world.cli"):
        commands._nursery.clear()  # what it has read, it has read without this
    return folder


def _caches(files: Sequence[str]) -> list[functools._lru_cache_wrapper[object]]:
    """Return the caches of functions in these files."""
    found = [found for found in gc.get_objects() if isinstance(found, functools._lru_cache_wrapper)]
    codes = ((cache, getattr(cache.__wrapped__, "__code__", None)) for cache in found)  # classes have none
    return [cache for cache, code in codes if code and code.co_filename in files]


def _taken(file: Path) -> list[str]:
    """Return the lines of a file that others append to, and begin it anew."""
    try:
        file = file.rename(file.with_suffix(".taken"))
    except FileNotFoundError:
        return []
    return file.read_text(encoding="utf-8").splitlines()


def _functions(files: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Return every function of these files that somebody may call."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename in files:
            code = function.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(function)
    return found


def _changed(
    mutant: Mutant, text: bytes, functions: dict[tuple[str, str, int], list[FunctionType]]
) -> Iterator[tuple[FunctionType, CodeType]]:
    """Return the functions in which the fault is, each with the code that it has then."""
    file = str(mutant.path)
    whole = compile(mutant.applied(text), file, "exec", dont_inherit=True)
    for code in _codes(whole):
        for function in functions.get((file, code.co_qualname, code.co_firstlineno), ()):
            # Code without a super() that was there needs another closure: then the module has to be read anew.
            if function.__code__ != code and function.__code__.co_freevars == code.co_freevars:
                yield function, code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)


def try_inside(
    every: Sequence[Mutant], tests: Sequence[str], workers: int, tell: Callable[[Mutant, str, str], None]
) -> None:
    """Tell of each fault whether these tests find it, and the first that does."""
    plugin = Inside(every, workers, tell)
    # Forks and collections of garbage find what tests left open; that is not what is asked here.
    quiet = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning", "-W", "ignore::ResourceWarning")
    options = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *quiet)
    code = pytest.main([*options, *tests], plugins=[plugin])
    if plugin.failed or code != pytest.ExitCode.OK:
        sys.exit(f"without any fault, these tests fail: {' '.join(plugin.failed) or tests}")
