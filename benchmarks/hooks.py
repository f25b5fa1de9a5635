"""What an event of a coding agent costs, from the start of its process to its exit, on a large tree.

In the same turns: a bare `python -I -S` that sends the event over a Unix socket and gets an answer, which is the
least that a hook called in this way can cost; and `git status` of the same tree. With `--session` also a whole
session of the real Claude Code and a scripted model, with and without Takeback, on the same tree.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from benchmarks import _tree
from takeback.daemon import control, knock
from takeback.daemon.hook_command import hook_command

DAEMON = "the daemon's part"
BEFORE, AFTER, BARE, GIT = "before a tool", "after it", "bare python", "git status"
WITH, WITHOUT = "with Takeback", "without"
EVENT_MAX, SESSION_MAX, MEMORY_MAX_MB = 1.5, 1.25, 150
WARM_UP = 3

BARE_CODE = """
import _socket, sys
here = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
here.connect(sys.argv[1])
here.sendall(sys.stdin.buffer.read())
here.shutdown(_socket.SHUT_WR)
sys.stdout.buffer.write(here.recv(100))
"""
ECHO_CODE = """
import socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
print(flush=True)
while True:
    there, _ = door.accept()
    while there.recv(1 << 16):
        pass
    there.sendall(b"{}")
    there.close()
"""


class Cost:
    """Times and processor times of one kind of process."""

    def __init__(self) -> None:
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []

    def row(self, name: str) -> str:
        wall, cpu = statistics.median(self.wall_ms), statistics.median(self.cpu_ms)
        return f"{name:16}{wall:10.1f} ms{min(self.wall_ms):10.1f} ms{cpu:10.1f} ms"


def run(words: list[str], data: bytes, cwd: Path, env: dict[str, str], cost: Cost | None) -> None:
    """Run a process to its end, and record what it cost."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        begun = time.perf_counter()
        process = subprocess.Popen(words, stdin=file, stdout=subprocess.DEVNULL, cwd=cwd, env=env)
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    if cost is not None:
        cost.wall_ms.append(took * 1e3)
        cost.cpu_ms.append((used.ru_utime + used.ru_stime) * 1e3)


def daemon_ms(home: Path) -> float:
    """Return the CPU time of all threads of the daemon so far, including those that have ended."""
    if not (pid := control.holder(home)):
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")


@contextmanager
def echo(folder: Path) -> Iterator[str]:
    """Start a server that answers the bare python."""
    place = str(folder / "echo.sock")
    words = [sys.executable, "-I", "-S", "-c", ECHO_CODE, place]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield place
        finally:
            server.kill()


def events(tree: Path, home: Path, rounds: int, folder: Path) -> dict[str, Cost]:
    """Measure pairs of events, with one changed file in between, and the others in the same turns."""
    env = os.environ | {"TAKEBACK_HOME": str(home), "CLAUDE_PROJECT_DIR": str(tree)}
    hook = [sys.executable, "-I", "-S", knock.__file__, "claude-code"]
    every = _tree.paths(tree)
    costs: dict[str, Cost] = defaultdict(Cost)
    begun_ms = 0.0

    def event(name: str, turn: int) -> bytes:
        body: dict[str, Any] = {"hook_event_name": name, "session_id": "bench", "cwd": str(tree)}
        body |= {"tool_name": "Bash", "tool_use_id": f"{os.getpid()}-{turn}", "tool_response": {}}
        return json.dumps(body | {"tool_input": {"command": "sed -i s/a/b/ file.txt"}}).encode()

    with echo(folder) as place:
        bare = [sys.executable, "-I", "-S", "-c", BARE_CODE, place]
        for turn in range(rounds + WARM_UP):
            noted = costs if turn >= WARM_UP else defaultdict(Cost)
            before, after = event("PreToolUse", turn), event("PostToolUse", turn)
            run(bare, before, tree, env, noted[BARE])
            run(hook, before, tree, env, noted[BEFORE])
            _tree.edit(tree, _tree.pick(every, 1, turn))
            run(bare, after, tree, env, noted[BARE])
            run(hook, after, tree, env, noted[AFTER])
            if turn == WARM_UP - 1:
                begun_ms = daemon_ms(home)
            if turn % 4 == 0:
                run(["git", "status", "--porcelain"], b"", tree, env, noted[GIT])
    costs[DAEMON].cpu_ms.append((daemon_ms(home) - begun_ms) / rounds / 2)
    return costs


def session(tree: Path, home: Path, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Run a session of five tools with the real client."""
    from takeback.agents.settings import apply
    from tests.agents import clients, stories

    def bash(command: str) -> Any:
        return stories.tool("Bash", command=command, description="work")

    steps = [
        stories.tool("Write", file_path=str(tree / "notes.md"), content="plan\n"),
        bash("echo more >> notes.md"),
        bash("mkdir -p made && cp notes.md made/copy.md"),
        bash("rm -r made"),
        bash("rm notes.md"),
    ]
    script: stories.Script = {"five": [*(stories.turn(step) for step in steps), stories.turn(text="Done.")]}
    desk = clients.Desk(tree, folder / "home", {"TAKEBACK_HOME": str(home)})
    desk.home.mkdir()
    desk.scratch.mkdir()
    place = apply.place("claude-code", project=tree, home=desk.home, user=True)
    took: dict[str, list[float]] = defaultdict(list)
    with clients.model(folder, script) as model:
        for turn in range(rounds + 1):
            for kind in (WITHOUT, WITH):
                if kind == WITH:
                    apply.installing("claude-code", place, hook_command("claude-code")).make()
                begun = time.perf_counter()
                clients.claude_code(model, desk, "[scene five] go")
                if turn:
                    took[kind].append(time.perf_counter() - begun)
                if kind == WITH:
                    apply.uninstalling("claude-code", place).make()
    return took


def prepare(folder: Path, given: Path | None, files: int) -> Path:
    tree = _tree.copy(given, folder) if given else _tree.generate(folder, files)
    if not (tree / ".git").exists():
        # Packed, as git does by itself with so many objects; otherwise git might start packing during a measurement.
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"], ["gc", "-q"]):
            named = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]
            subprocess.run(["git", "-C", str(tree), *named, *words], check=True)
    return tree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000, help="how many files the tree has")
    parser.add_argument("--tree", type=Path, help="a tree of your own; it is copied first")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--session", action="store_true", help="also whole sessions of Claude Code")
    parser.add_argument("--folder", type=Path, help="where to work, and to find the tree of an earlier run")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="takeback-bench-"))
    folder.mkdir(exist_ok=True)
    tree, own = prepare(folder, given.tree, given.files), Path(tempfile.mkdtemp(dir=folder))
    home = own / "state"
    try:
        return report(tree, home, own, given.rounds, sessions=given.session)
    finally:
        control.stop(home)
        shutil.rmtree(own if given.folder else folder, ignore_errors=True)


def report(tree: Path, home: Path, own: Path, rounds: int, *, sessions: bool) -> int:
    costs = events(tree, home, rounds, own)
    print(
        f"{len(_tree.files(tree)):,} files, {rounds} rounds   median      fastest    processor (without the daemon)"
    )
    for name in (BARE, BEFORE, AFTER, GIT):
        print(costs[name].row(name))
    print(f"{DAEMON:16}{costs[DAEMON].cpu_ms[0]:36.1f} ms for each event")
    bare = statistics.median(costs[BARE].wall_ms)
    missed = 0
    for name in (BEFORE, AFTER):
        missed += verdict(
            f"{name}, against a bare python", statistics.median(costs[name].wall_ms) / bare, EVENT_MAX
        )
    found = control.status(home)
    assert found is not None
    missed += verdict("memory of the daemon in MB", found.memory_bytes / 1e6, MEMORY_MAX_MB)
    if sessions:
        took = {
            kind: statistics.median(some)
            for kind, some in session(tree, home, max(3, rounds // 8), own).items()
        }
        print(f"a session of five tools: {took[WITHOUT]:.2f} s without, {took[WITH]:.2f} s with Takeback")
        missed += verdict("a whole session, with against without", took[WITH] / took[WITHOUT], SESSION_MAX)
    return 1 if missed else 0


def verdict(what: str, value: float, limit: float) -> bool:
    met = value <= limit
    print(f"{what}: {value:.2f}, goal at most {limit:g}: {'met' if met else 'MISSED'}")
    return not met


if __name__ == "__main__":
    sys.exit(main())
