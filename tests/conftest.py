"""What holds for every test: sweeps wait for --all, nothing is skipped in CI, no test meets real state."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.resources.postgres.world import Server

# A skip hides a promise that nobody checked. Only what the machine cannot do may be left out, and says so.
ALLOWED_SKIP = "not on this platform:"

hypothesis.settings.register_profile("sample", deadline=None, derandomize=True)
hypothesis.settings.register_profile("all", deadline=None, max_examples=1000)

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

_state_number = itertools.count()

# A helper that fails says what it compared, as a test does. The mutants run pytest themselves: they are loaded.
_HELPERS = [path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name != "mutants"]
pytest.register_assert_rewrite("tests.clocks", *(f"tests.{name}" for name in _HELPERS))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run the long sweeps, over every case")


def pytest_configure(config: pytest.Config) -> None:
    # A shell script that starts the tests in the background makes them ignore interrupts, and all their children too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    everything = bool(config.getoption("--all"))
    if everything:
        # Tests that take a sample of their own cases read this while they are collected.
        os.environ["TAKEBACK_TEST_ALL"] = "1"
    hypothesis.settings.load_profile("all" if everything else "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    sweeps = [item for item in items if item.get_closest_marker("sweep")]
    if sweeps:
        config.hook.pytest_deselected(items=sweeps)
        items[:] = [item for item in items if not item.get_closest_marker("sweep")]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    # Now pytest deletes what killed sessions left, and some tests make folders deeper than Python's usual stack.
    sys.setrecursionlimit(20_000)


def _refuse_skip(report: Report) -> Report:
    if os.environ.get("CI", "").lower() != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(ALLOWED_SKIP):
        report.outcome = "failed"
        report.longrepr = f"{reason}\nWith CI=true only '{ALLOWED_SKIP} …' is a reason to skip."
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _refuse_skip((yield))


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give each test a state folder of its own, and a git that does not know the developer's settings."""
    base = tmp_path_factory.getbasetemp()
    number = next(_state_number)
    monkeypatch.setenv("TAKEBACK_HOME", str(base / f"takeback-home-{number}"))
    monkeypatch.setenv("XDG_DATA_HOME", str(base / f"takeback-data-{number}"))
    monkeypatch.delenv("TAKEBACK_ACTION", raising=False)
    # The width of the developer's terminal, which readline puts into the environment too, breaks no lines.
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.org")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One PostgreSQL server for all tests of a process, with a database in it for shared stores."""
    from tests.resources.postgres.world import Server
    from tests.storage.postgres.world import STORE

    made = Server()
    os.environ[STORE] = made.make(schema="")
    yield made
    del os.environ[STORE]
    made.stop()
