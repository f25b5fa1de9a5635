"""Kill -9 at every crash point, and at random moments while four processes append.

Afterwards every event that was acknowledged is there once and in order, no batch is there in part, `check`
finds nothing, and the next writer goes on.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from takeback.core.events import CheckpointTaken, RunBegan, StepBegan
from takeback.storage.journal.anchor import Anchor
from takeback.testing import crash
from tests.crash.journal_worker import AnyJournal, open_journal
from tests.crash.points import declared

POINTS = sorted(point for point in declared() if point.startswith("journal-"))
GANG = 4
SAMPLE = 15
MOMENTS = 200


def test_every_point_is_known() -> None:
    assert [point.removeprefix("journal-") for point in POINTS] == [
        "anchored",
        "before-begin",
        "catching-up",
        "committed",
        "inside",
        "migrating",
    ]


@pytest.mark.parametrize("nth", [1, 2, 5])
@pytest.mark.parametrize(
    "point", [point for point in POINTS if point not in ("journal-migrating", "journal-catching-up")]
)
def test_killed_at_a_crash_point(point: str, nth: int, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    killed = crash.run(point, nth, ["tests.crash.journal_worker:append_some", path, "6"])
    assert killed.returncode == crash.KILLED, killed.stderr
    # What is on the disk but was not said yet counts as well: the kill came after the commit.
    batches = nth if point in ("journal-committed", "journal-anchored") else nth - 1
    assert assert_whole(path, killed.stdout) == batches


@pytest.mark.parametrize("nth", [2, 7])
@pytest.mark.parametrize("point", ["journal-inside", "journal-committed", "disk-sync", "journal-anchored"])
def test_threads_that_share_a_commit_are_killed(point: str, nth: int, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    killed = crash.run(point, nth, ["tests.crash.journal_worker:append_in_threads", path, "12", "8"])
    assert killed.returncode == crash.KILLED, killed.stderr
    assert_whole(path, killed.stdout)


def test_killed_while_the_anchor_catches_up(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    crash.run("never", 1, ["tests.crash.journal_worker:append_some", path, "6"])
    anchor = path.with_suffix(".anchor")
    anchor.write_bytes(anchor.read_bytes()[:300])
    killed = crash.run("journal-catching-up", 1, ["tests.crash.journal_worker:append_some", path, "6"])
    assert killed.returncode == crash.KILLED, killed.stderr
    assert killed.stdout == ""
    assert assert_whole(path, "") == 7


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_killed_at_a_random_moment(seed: int, tmp_path: Path) -> None:
    kill_a_gang(seed, tmp_path / "journal.db")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(SAMPLE, MOMENTS))
def test_killed_at_many_random_moments(seed: int, tmp_path: Path) -> None:
    kill_a_gang(seed, tmp_path / "journal.db")


def kill_a_gang(seed: int, path: str | Path) -> None:
    """Let four processes append, and kill them: by turns from the very start, all at once, or one first."""
    chance = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.journal_worker", str(path), str(GANG)],
        stdout=subprocess.PIPE,
        env=crash.child_environment(),
        start_new_session=True,
    ) as gang:
        assert gang.stdout
        said = b""
        if seed % 3:
            said = read_until_all_work(gang.stdout.fileno())
            time.sleep(chance.uniform(0, 0.08))
        else:
            time.sleep(chance.uniform(0.05, 0.3))
        if said and seed % 3 == 2:
            first = chance.choice(sorted(workers_in(said)))
            os.kill(int(first.removeprefix("p")), signal.SIGKILL)
            time.sleep(chance.uniform(0, 0.03))
        os.killpg(gang.pid, signal.SIGKILL)
        said += gang.stdout.read()
    assert_whole(path, said.decode())


def read_until_all_work(fd: int) -> bytes:
    said = b""
    while len(workers_in(said)) < GANG:
        more = os.read(fd, 1 << 16)
        assert more, "a worker died by itself"
        said += more
    return said


def workers_in(said: bytes) -> set[str]:
    return {line.split()[0].decode() for line in said.splitlines()}


def assert_whole(path: str | Path, said: str) -> int:
    """Hold the journal against what its writers said; returns how many batches it holds."""
    journal = open_journal(path)
    assert list(journal.check()) == []
    records = {record.seq: record for record in journal.read()}
    assert list(records) == list(range(1, len(records) + 1))
    spoken: dict[str, list[int]] = defaultdict(list)
    for line in said.splitlines():
        worker, _, seq, digest = line.split()
        assert records[int(seq)].digest == digest
        spoken[worker].append(int(seq))
    assert all(seqs == sorted(set(seqs)) for seqs in spoken.values())
    batches = assert_batches(journal)
    assert_goes_on(journal)
    return batches


def assert_batches(journal: AnyJournal) -> int:
    """Every worker's batches are whole, each once, without a gap."""
    batches = 0
    for run in [record for record in journal.read() if isinstance(record.event, RunBegan)]:
        steps = [r.event.name for r in journal.read(stream=run.stream) if isinstance(r.event, StepBegan)]
        turns = len(steps) // 2
        name = run.event.name if isinstance(run.event, RunBegan) else ""
        assert steps == [f"{name} {turn} {half}" for turn in range(turns) for half in "ab"]
        batches += 1 + turns
    return batches


def assert_goes_on(journal: AnyJournal) -> None:
    (record,) = journal.append([CheckpointTaken()], stream="w")
    assert list(journal.check()) == []
    journal.close()
    known, findings = Anchor(journal.anchor.path).read()
    assert findings == []
    # Who was killed between commit and anchor while others went on may have left its lines out for ever.
    left_out = set(range(1, record.seq + 1)) - set(known)
    assert len(left_out) <= 2 * GANG and not left_out & set(range(record.seq - 40, record.seq + 1))
