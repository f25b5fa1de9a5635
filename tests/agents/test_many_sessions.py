"""Eight sessions at once, in one project and in eight; the daemon is killed while they are at work.

Nothing may be lost, and each change is of whoever made it, or of one of several, which is said.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.workspace.opening import open_workspace
from tests.world.picture import Picture, differences, picture

from . import clients, stories
from .hooked import Hooked
from .protection import Protected, daemon_pid, end_daemon, protected

pytestmark = pytest.mark.timeout(900)

SESSIONS = 8
CALLS = 4
KILLS = 3
NAMES = [f"s{number}" for number in range(SESSIONS)]


def furnish(project: Path, name: str) -> None:
    """Something for a session to change and to remove."""
    (project / name).mkdir()
    (project / name / "log").write_text("begin\n")
    (project / name / "old.txt").write_text("old\n")


def commands(name: str) -> list[str]:
    return [
        f"echo {number} > {name}/f{number}; echo {number} >> {name}/log; rm -f {name}/old.txt {name}/f{number - 2}"
        for number in range(CALLS)
    ]


def work(session: Hooked, name: str, count: Callable[[], None]) -> None:
    session.begin()
    session.prompt(1)
    for command in commands(name):
        assert session.shell(command)
        count()
    session.end()


class Killer:
    """Kills the daemon whenever some more calls were made."""

    def __init__(self, state: Path, calls: int) -> None:
        self._state = state
        self._at = [calls * (number + 1) // (KILLS + 1) for number in range(KILLS)]
        self._made = 0
        self._changed = threading.Condition()
        self.killed: set[int] = set()
        self._thread = threading.Thread(target=self._run)

    def count(self) -> None:
        with self._changed:
            self._made += 1
            self._changed.notify_all()

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        for calls in self._at:
            with self._changed:
                self._changed.wait_for(lambda calls=calls: self._made >= calls, timeout=300)  # type: ignore[misc]
            deadline = time.monotonic() + 60
            while not (pid := end_daemon(self._state)) and time.monotonic() < deadline:
                time.sleep(0.001)
            self.killed.add(pid)


def together(works: Sequence[tuple[Hooked, str]], state: Path) -> None:
    """All sessions at once, and the daemon is killed again and again."""
    assert daemon_pid(state), "without a daemon there is nothing to kill"
    with (
        Killer(state, len(works) * CALLS) as killer,
        ThreadPoolExecutor(len(works)) as pool,
    ):
        list(pool.map(lambda one: work(one[0], one[1], killer.count), works))
    assert len(killer.killed - {0}) == KILLS
    assert [session.answers for session, _ in works] == [[]] * len(works), "each call was protected, silently"


def calls_of_agents(history: History) -> dict[str, RecordedAction]:
    """What the sessions did. What `takeback install` wrote is recorded too, and is the human's."""
    return {id: action for id, action in history.actions.items() if action.is_tool and not action.is_own}


def authors(history: History) -> Counter[str]:
    """How many changes are of one, and how many of one of several. Each has the right one among them."""
    found: Counter[str] = Counter()
    calls = calls_of_agents(history)
    begin = min(action.seq for action in calls.values())
    sessions = {id: history.runs[call.stream].began.session for id, call in calls.items()}
    for action in history.actions.values():
        for change in action.changes:
            name = str(change.target).partition("/")[0]
            if name not in NAMES or action.seq < begin:
                continue
            assert action.id in calls, f"{change.target} is nobody's: {action}"
            assert not change.in_doubt, (change, action)
            told = {sessions[id] for id in (action.id, *change.shared_with)}
            assert name in told, f"{change.target} is said to be by {told}"
            found["one" if len(told) == 1 else "one of several"] += 1
    return found


def no_call_is_missing(history: History) -> None:
    calls = calls_of_agents(history).values()
    assert Counter(history.runs[a.stream].began.session for a in calls) == (
        dict.fromkeys(NAMES, CALLS) | {"first": 1}
    )
    assert {action.life.value for action in calls} == {"done"}, calls


def look(project: Path) -> Picture:
    return picture(os.fsencode(project))


def test_in_one_project(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        also = project.also("codex")
        for name in NAMES:
            furnish(project.project, name)
        before = project.look()
        first = Hooked(project, "first")
        first.begin()
        assert first.shell("echo first > first.txt")
        first.end()
        with_first = project.look()
        works = [(Hooked((project, also)[number % 2], name), name) for number, name in enumerate(NAMES)]
        together(works, project.world.home)
        after = project.look()

        with open_workspace(project.project, home=project.world.home, watching=False) as opened:
            history = opened.history
            runs = {run.began.session: run.id for run in history.runs.values() if run.began.detached}
            counted = authors(history)
            assert sum(counted.values()) >= SESSIONS * CALLS
            no_call_is_missing(history)
            del runs["first"]
            assert set(runs) == set(NAMES)
        for name, run in runs.items():
            alone(project, name, run, after)
        project.undo(*runs.values())
        assert project.changes_since(with_first) == []
        project.undo()
        assert project.changes_since(before) == []


def alone(project: Protected, name: str, run: str, after: Picture) -> None:
    """One of the sessions is taken back alone: all of it and nothing else, or it is refused."""
    done = project.takeback("undo", run, "--preview", "--json", code=None)
    assert done.code in (0, 3), done
    targets = {item["target"] for item in done.json["items"]} if done.code == 0 else set()
    assert {target.partition("/")[0] for target in targets} <= {name}
    assert differences(after, project.look()) == []


def test_in_eight_projects(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with ExitStack() as stack:
        projects = [stack.enter_context(protected(tmp_path / n, "claude-code", state=state)) for n in NAMES]
        for name, project in zip(NAMES, projects, strict=True):
            furnish(project.project, name)
        before = [project.look() for project in projects]
        assert Hooked(projects[0], "first").shell("true")  # now there is a daemon
        works = [(Hooked(project, name), name) for name, project in zip(NAMES, projects, strict=True)]
        together(works, state)
        for name, project, begin in zip(NAMES, projects, before, strict=True):
            with open_workspace(project.project, home=state, watching=False) as opened:
                counted = authors(opened.history)
                runs = [r.id for r in opened.history.runs.values() if r.began.session == name]
                assert counted["one of several"] == 0
                assert opened.undo(*runs).verdict == "clean"
            assert project.changes_since(begin) == []


@pytest.mark.sweep  # eight real clients are too much for every run
def test_real_clients_in_one_project(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        for name in NAMES:
            furnish(project.project, name)
        before = project.look()
        script = {
            name: [
                stories.turn(stories.tool("Bash", command=command, description="work"))
                for command in commands(name)
            ]
            for name in NAMES
        }
        with clients.model(tmp_path, script) as model, ThreadPoolExecutor(SESSIONS) as pool:
            list(pool.map(lambda name: clients.claude_code(model, project.desk, f"[scene {name}] go"), NAMES))
        with open_workspace(project.project, home=project.world.home, watching=False) as opened:
            assert len(calls_of_agents(opened.history)) == SESSIONS * CALLS
            sessions = [run.id for run in opened.history.runs.values() if run.began.detached]
            assert opened.undo(*sessions).verdict == "clean"
        assert project.changes_since(before) == []
