"""The pytest plugin: a fresh workspace, and chaos for agents. It does nothing until a test asks for a fixture.

    @pytest.mark.takeback_chaos(at="every call", faults=["exception", "answer lost"])
    def test_trip(takeback_chaos):
        takeback_chaos(plan_trip, world=calendar.rooms, service=calendar.counts)

It is loaded by every pytest beside which Takeback is installed, so it imports nothing until it is used.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from takeback.testing.chaos import Chaos
    from takeback.workspace.workspace import Workspace

CHAOS = "takeback_chaos"
WORKSPACE = "takeback_workspace"
_OPTIONS = ("at", "faults", "store", "rounds_max", "seed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("takeback")
    group.addoption(
        "--takeback-round", default="", metavar="ROUND", help="run only this round of a chaos test"
    )
    group.addoption("--takeback-seed", type=int, default=None, metavar="N", help="the seed of chaos tests")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{CHAOS}(at, faults, store, rounds_max, seed): run an agent with one fault at each place in turn",
    )
    config.addinivalue_line("markers", f'{WORKSPACE}(store): where a fresh workspace is, "memory" or "disk"')


@pytest.fixture
def takeback_workspace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workspace]:
    """Return a fresh workspace: in memory, or on disk with @pytest.mark.takeback_workspace(store="disk")."""
    from takeback.workspace.opening import open_workspace

    marker = request.node.get_closest_marker(WORKSPACE)
    store = _given(marker, ("store",)).get("store", "memory")
    if store not in ("memory", "disk"):
        raise pytest.UsageError(f"{store!r} is not a store; use memory or disk")
    folder = tmp_path_factory.mktemp("takeback")
    (root := folder / "work").mkdir()
    if store == "memory":
        opened = open_workspace(root, store="memory", watching=False)
    else:
        opened = open_workspace(root, home=folder / "state", watching=False)
    with opened:
        yield opened


@pytest.fixture
def takeback_chaos(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chaos]:
    """Return the chaos kit with the options of the test's marker: call it with an agent and its witnesses."""
    from takeback.errors import UsageError
    from takeback.testing.chaos import Chaos

    options = _given(request.node.get_closest_marker(CHAOS), _OPTIONS)
    if (seed := request.config.getoption("--takeback-seed")) is not None:
        options["seed"] = seed
    used = options.get("seed", 0)

    def repeat(name: str) -> str:
        return shlex.join(
            ["pytest", request.node.nodeid, "--takeback-round", name, "--takeback-seed", str(used)]
        )

    only = request.config.getoption("--takeback-round")
    try:
        chaos = Chaos(tmp_path_factory.mktemp("chaos"), only=only, repeat=repeat, **options)
    except UsageError as error:
        raise pytest.UsageError(f"{error.message}; {error.hint}") from None
    yield chaos
    if not chaos.used:
        pytest.fail("the test asked for chaos and ran no agent: call takeback_chaos(agent, …)", pytrace=False)


def _given(marker: pytest.Mark | None, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a marker. Raise UsageError for one that is not known."""
    if marker is None:
        return {}
    unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in known)]
    if unknown:
        raise pytest.UsageError(f"{marker.name} has no option {unknown[0]}; it has {', '.join(known)}")
    return dict(marker.kwargs)
