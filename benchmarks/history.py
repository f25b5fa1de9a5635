"""What a long history costs: the same commands after a thousand events and after a million, in one run.

    python benchmarks/history.py [--quick] [--folder FOLDER]

Two small workspaces with the same files, and journals of different lengths, take turns. A row compares the medians of
the CPU time, or of the peak memory, of whole processes; only ratios carry over to another machine. `--folder` keeps
what was built for the next run.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "src"))

SMALL, LARGE, LARGE_QUICK = 1_000, 1_000_000, 50_000
CPU_MAX, MEMORY_MAX, APPEND_MAX, PROCESS_MAX = 1.5, 1.5, 1.1, 1.3
REBUILD_MIN, SIZE_MAX = 30_000, 0.5
OLDER_PERCENT = 90
"""So much of the journal is older than the limits when it is compacted."""
WARM_UP = 1

TAKEBACK = [sys.executable, "-c", "import sys; from takeback.cli import main; sys.exit(main())"]
KNOCK = HERE.parent / "src/takeback/daemon/knock.py"
WITHOUT_DAEMON = HERE.parent / "src/takeback/daemon/without.py"
OPENING = "import takeback; tb = takeback.open('.'); tb.history; tb.close()"

EVENTS = 10
"""So many calls go through the daemon in each round."""
OLD = "old.txt"
"""A file whose only action comes before everything else."""


class Workspace:
    """A folder with a few files under protection, and a journal with many events."""

    def __init__(self, folder: Path, events: int) -> None:
        self.tree, self.home, self.events = folder / "tree", folder / "home", events
        self.env = os.environ | {"TAKEBACK_HOME": str(self.home), "CLAUDE_PROJECT_DIR": str(self.tree)}
        self.env |= {"PYTHONPATH": str(HERE.parent / "src")}
        self.cpu_ms: dict[str, list[float]] = defaultdict(list)
        self.peak_mb: dict[str, list[float]] = defaultdict(list)

    @property
    def state(self) -> Path:
        (found,) = (self.home / "workspaces").iterdir()
        return found

    def build(self) -> None:
        if (self.home.parent / "ready").exists():
            return
        shutil.rmtree(self.home.parent, ignore_errors=True)
        (self.tree / "src").mkdir(parents=True)
        for number in range(100):
            (self.tree / f"src/file{number}.py").write_text(f"line = {number}\n" * 20)
        (self.tree / OLD).write_text("old\n")
        self.takeback("init")
        self.takeback("run", "--", "sh", "-c", f"echo more >> {OLD}")
        long_history = [sys.executable, str(HERE / "_long_history.py"), str(self.state), str(self.events)]
        subprocess.run(long_history, check=True, env=self.env)
        (self.home.parent / "ready").touch()

    def takeback(self, *words: str, row: str = "") -> None:
        self.run([*TAKEBACK, *words], row=row)

    def run(self, words: list[str], data: bytes = b"", row: str = "") -> None:
        """Run a process to its end, and note what it used under `row`."""
        with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as said:
            file.write(data)
            file.seek(0)
            process = subprocess.Popen(
                words, stdin=file, stdout=said, stderr=said, cwd=self.tree, env=self.env
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            assert process.returncode == 0, (words, said.read().decode())
        if row:
            self.cpu_ms[row].append((used.ru_utime + used.ru_stime) * 1e3)
            self.peak_mb[row].append(used.ru_maxrss / 1024)

    def event(self, name: str, call: str, row: str) -> None:
        """Answer an event of a coding agent, in a process of its own."""
        self.run([sys.executable, "-I", str(WITHOUT_DAEMON), "claude-code"], self._event(name, call), row=row)

    def event_by_daemon(self, name: str, call: str, row: str) -> None:
        """Let the daemon answer an event; note what the daemon used, too."""
        before_ms = self._daemon()[0] if row else 0.0
        self.run([sys.executable, "-I", "-S", str(KNOCK), "claude-code"], self._event(name, call), row=row)
        if row:
            used_ms, resident_mb = self._daemon()
            self.cpu_ms[row][-1] += used_ms - before_ms
            self.peak_mb[row][-1] = resident_mb

    def _event(self, name: str, call: str) -> bytes:
        body: dict[str, Any] = {"hook_event_name": name, "session_id": "bench", "cwd": str(self.tree)}
        body |= {"tool_name": "Bash", "tool_use_id": f"{os.getpid()}-{call}", "tool_response": {}}
        body |= {"tool_input": {"command": "sed -i s/a/b/ file.txt"}}
        return json.dumps(body).encode()

    def _daemon(self) -> tuple[float, float]:
        """Return the CPU time of the daemon so far, of all its threads, and its memory now."""
        from takeback.daemon import control

        pid = control.holder(self.home)
        assert pid, "no daemon answers"
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks * 1e3 / os.sysconf("SC_CLK_TCK"), _memory_mb("VmRSS", pid)

    def stop_daemon(self) -> None:
        from takeback.daemon import control

        control.stop(self.home)


def one_turn(workspace: Workspace, turn: int, *, noted: bool) -> None:
    """Run every command once. What is taken back is there again at the end."""

    def row(name: str) -> str:
        return name if noted else ""

    file = f"src/file{turn}.py"
    workspace.takeback("run", "--", "sh", "-c", f"echo more >> {file}", row=row("run"))
    workspace.takeback("status", row=row("status"))
    workspace.takeback("log", row=row("log"))
    workspace.takeback("save", "a checkpoint", row=row("save"))
    workspace.takeback("undo", row=row("undo"))
    workspace.takeback("redo", row=row("redo"))
    workspace.takeback("undo", "--path", file, row=row("undo --path, a recent file"))
    workspace.takeback("undo", "--path", OLD, row=row("undo --path, an old file"))
    workspace.takeback("redo")
    workspace.event("PreToolUse", f"{turn}", row("hook, before a tool"))
    workspace.event("PostToolUse", f"{turn}", row("hook, after it"))
    for number in range(EVENTS):  # the time of a process is counted in ticks: one event takes less than that
        call = f"{turn}-{number}"
        workspace.event_by_daemon("PreToolUse", call, row("hook and daemon, before a tool"))
        workspace.event_by_daemon("PostToolUse", call, row("hook and daemon, after it"))
    workspace.run([sys.executable, "-c", OPENING], row=row("opening in Python"))


# Parts that run in a process of their own


def appending(states: list[str], count: int) -> dict[str, float]:
    """Return the median of a durable append to each journal in microseconds, in turns."""
    from takeback.core import events as e
    from takeback.engine.ledger import Ledger
    from takeback.storage.index.stored_index import StoredIndex
    from takeback.storage.journal.sqlite.journal import SqliteJournal

    took: dict[str, list[float]] = {state: [] for state in states}
    ledgers = {}
    for state in states:
        journal = SqliteJournal(Path(state) / "journal.db")
        ledgers[state] = Ledger(journal, index=StoredIndex(Path(state), journal))
        ledgers[state].refresh()
    for _ in range(count):
        for state, ledger in ledgers.items():
            begun = time.perf_counter()
            ledger.append([e.CheckpointTaken("an append")])
            took[state].append((time.perf_counter() - begun) * 1e6)
    return {state: statistics.median(some) for state, some in took.items()}


def rebuilding(state: str) -> dict[str, float]:
    """Make the index again; return how many events a CPU second that took, and the sizes of both.

    The floor is to read every record, check its digest and decode it, and nothing else.
    """
    from takeback.engine.ledger import Ledger
    from takeback.storage.index.stored_index import DATABASE, StoredIndex
    from takeback.storage.journal.sqlite.journal import SqliteJournal

    folder = Path(state)
    for path in folder.glob("index.*"):
        path.unlink()
    journal = SqliteJournal(folder / "journal.db")
    begun = time.process_time()
    ledger = Ledger(journal, index=StoredIndex(folder, journal))
    events = ledger.refresh().seq
    ledger.close()
    rate = events / (time.process_time() - begun)
    peak = _memory_mb("VmHWM")
    begun = time.process_time()
    floor = sum(1 for _ in journal.read()) / (time.process_time() - begun)
    journal.close()
    sizes = [(folder / name).stat().st_size for name in (DATABASE, "journal.db")]
    return {"rate": rate, "floor": floor, "index": sizes[0], "journal": sizes[1], "peak": peak}


def compacting(state: str, percent: str) -> dict[str, float]:
    """Compact so many percent of a copy of a journal; return its sizes in bytes, and CPU seconds."""
    from takeback.engine.compaction import Compactor
    from takeback.engine.ledger import Ledger
    from takeback.storage.index.stored_index import StoredIndex
    from takeback.storage.journal.sqlite.journal import SqliteJournal

    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
        folder = Path(name)
        for file in ("journal.db", "journal.anchor"):
            shutil.copy(Path(state) / file, folder / file)
        journal = SqliteJournal(folder / "journal.db")
        ledger = Ledger(journal, index=StoredIndex(folder, journal))
        last = journal.get(ledger.refresh().seq * int(percent) // 100)
        assert last is not None
        found = {
            "events": float(journal.head().count),
            "before": float((folder / "journal.db").stat().st_size),
        }
        compactor = Compactor(ledger, lambda _: False)
        times = [time.process_time()]
        plan = compactor.plan(last.at_us, time.time_ns() // 1000)
        assert plan is not None
        times.append(time.process_time())
        journal.compaction.carry_out(compactor.begin(plan, "bench"))
        times.append(time.process_time())
        journal.compaction.release()
        times.append(time.process_time())
        ledger.refresh()
        times.append(time.process_time())
        found |= {"after": float((folder / "journal.db").stat().st_size), "records": plan.foreseen.records}
        names = ("plan", "replace", "release", "index")
        found |= {name: later - one for name, one, later in zip(names, times, times[1:], strict=False)}
        found["peak"] = _memory_mb("VmHWM")
        ledger.close()
        journal.close()
    return found


def living_long(kind: str, count: int) -> dict[str, float]:
    """Record calls, or defer intents, in one process; return its memory after the first thousand and at the end."""
    import takeback

    act = takeback.action(effect="restorable")(a_call)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
        tree = Path(name) / "tree"
        tree.mkdir()
        tb = takeback.open(tree, home=Path(name) / "home")
        with tb.run("long") as run:
            for number in range(1, count + 1):
                if kind == "intents":
                    run.defer(
                        "email", to="ann@example.org", subject="done", body="done", key=f"mail-{number}"
                    )
                else:
                    run.call(act, number)
                if number == 1_000:
                    found["early"] = _memory_mb("VmRSS")
            found["late"] = _memory_mb("VmRSS")
        tb.close()
    return found


def a_call(number: int) -> int:
    return number


def _memory_mb(which: str, pid: int | str = "self") -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) / 1024
    return 0.0


PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "appending": lambda small, large, count: appending([small, large], int(count)),
    "rebuilding": rebuilding,
    "compacting": compacting,
    "living-long": lambda kind, count: living_long(kind, int(count)),
}


def part(name: str, *words: object) -> dict[str, float]:
    """Run a part alone: its memory is its own."""
    command = [sys.executable, __file__, "--part", name, *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout.splitlines()[-1]))


# The report


class Verdicts:
    """The lines of the report, and how many goals were missed."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, what: str, figures: str, goal: str, *, met: bool) -> None:
        self.missed += not met
        print(f"{what:<38} {figures:<42} {goal:<14} {'met' if met else 'MISSED'}", flush=True)

    def ratio(self, what: str, small: float, large: float, unit: str, limit: float) -> None:
        ratio = large / small
        figures = f"{small:,.0f} → {large:,.0f} {unit} = {ratio:.2f}"
        self.line(what, figures, f"≤ {limit}", met=ratio <= limit)


def report(folder: Path, large_events: int, rounds: int, lasting: int) -> int:
    verdicts = Verdicts()
    small, large = (Workspace(folder / f"{n}", n) for n in (SMALL, large_events))
    for workspace in (small, large):
        workspace.build()
    print(f"{'':<38} {f'after {SMALL:,} → after {large_events:,} events':<42} goal")
    rebuilt = part("rebuilding", large.state)
    rate = rebuilt["rate"]
    figures = f"{rate:,.0f}/s of CPU, floor {rebuilt['floor']:,.0f}/s, {rebuilt['peak']:.0f} MB"
    verdicts.line("making the index again", figures, f"≥ {REBUILD_MIN:,}", met=rate >= REBUILD_MIN)
    share = rebuilt["index"] / rebuilt["journal"]
    figures = f"{rebuilt['index'] / 1e6:,.0f} of {rebuilt['journal'] / 1e6:,.0f} MB = {share:.2f}"
    verdicts.line("index, against the journal", figures, f"≤ {SIZE_MAX}", met=share <= SIZE_MAX)
    print_compaction(part("compacting", large.state, OLDER_PERCENT))
    for turn in range(rounds + WARM_UP):
        for workspace in (small, large) if turn % 2 else (large, small):
            one_turn(workspace, turn, noted=turn >= WARM_UP)
    for workspace in (small, large):
        workspace.stop_daemon()
    median = statistics.median
    for row, times in small.cpu_ms.items():
        middle = statistics.mean if "daemon" in row else median
        verdicts.ratio(f"{row}: CPU", middle(times), middle(large.cpu_ms[row]), "ms", CPU_MAX)
    for row, peaks in small.peak_mb.items():
        verdicts.ratio(f"{row}: memory", median(peaks), median(large.peak_mb[row]), "MB", MEMORY_MAX)
    took = part("appending", small.state, large.state, 100 * rounds)
    verdicts.ratio("a durable append", took[str(small.state)], took[str(large.state)], "µs", APPEND_MAX)
    for kind, what in (("actions", "recorded"), ("intents", "deferred")):
        found = part("living-long", kind, lasting)
        name = f"a process, {lasting:,} {kind} {what}"
        verdicts.ratio(name, found["early"], found["late"], "MB", PROCESS_MAX)
    return 1 if verdicts.missed else 0


def print_compaction(found: dict[str, float]) -> None:
    """Print what compacting the older part of the large journal saves and takes; there is no goal for it."""
    sizes = f"{found['before'] / 1e6:,.1f} → {found['after'] / 1e6:,.1f} MB"
    print(
        f"compacting {OLDER_PERCENT} % of {found['events']:,.0f} events: {found['records']:,.0f} records, "
        f"{sizes}; CPU seconds: {found['plan']:.1f} to plan it, {found['replace']:.1f} to replace them, "
        f"{found['release']:.1f} to shorten the file, {found['index']:.1f} to make the index again; "
        f"{found['peak']:,.0f} MB of memory",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{LARGE_QUICK:,} events, and fewer rounds")
    parser.add_argument("--folder", type=Path, help="where to work, and to find what an earlier run built")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(PARTS[given.part[0]](*given.part[1:])))
        return 0
    folder = given.folder or Path(tempfile.mkdtemp(prefix="takeback-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if given.quick:
            return report(folder, LARGE_QUICK, rounds=3, lasting=10_000)
        return report(folder, LARGE, rounds=7, lasting=100_000)
    finally:
        if not given.folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
