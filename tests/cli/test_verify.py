"""`takeback verify` continues where the last one ended; `--all` begins with the first record."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import apsw
import pytest

from takeback.core.codec import digest
from tests.storage import journal_tampering as t
from tests.world.cli import Workspace

SOUND = "complete, in order and unaltered"


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.human("a", "mine")
    for number in range(3):
        made.agent(f"echo {number} > made")
    return made


def state_of(world: Workspace) -> Path:
    (state,) = world.home.glob("workspaces/*")
    return state


def journal_of(world: Workspace) -> Path:
    return state_of(world) / "journal.db"


def edit(world: Workspace, seq: int) -> None:
    """Change a record, but not its digest."""
    db = apsw.Connection(str(journal_of(world)))
    db.execute(
        "UPDATE events SET body = replace(CAST(body AS TEXT), '\"v\":', '\"v\" :') WHERE seq = ?", (seq,)
    )
    assert db.changes() == 1
    db.close()


def count(world: Workspace) -> int:
    db = apsw.Connection(str(journal_of(world)))
    found = db.execute("SELECT max(seq) FROM events").get
    db.close()
    assert isinstance(found, int)
    return found


def test_it_says_what_it_covered(world: Workspace) -> None:
    first = count(world)
    assert f"Verified records 1–{first} of {first}: {SOUND}." in world.do("verify").stdout
    assert f"No records since the last verification: 1–{first} were verified" in world.do("verify").stdout
    world.agent("rm made")
    second = count(world)
    said = world.do("verify").stdout
    assert f"Verified records {first + 1}–{second} of {second}: {SOUND}; 1–{first} were verified" in said
    for option in ("--all", "--deep"):
        assert f"Verified records 1–{second} of {second}: {SOUND}." in world.do("verify", option).stdout


def test_json_says_what_it_covered(world: Workspace) -> None:
    whole = world.do("verify", "--json").json
    last = count(world)
    assert whole["events"] == last
    assert whole["covered"] == {"first": 1, "last": last, "earlier_at": None, "note": ""}
    world.agent("rm made")
    part = world.do("verify", "--json").json["covered"]
    assert (part["first"], part["last"]) == (last + 1, count(world))
    assert part["earlier_at"].startswith("20")


def test_what_is_new_is_read_and_what_was_verified_is_left_to_all(world: Workspace) -> None:
    world.do("verify")
    last = count(world)
    world.agent("rm made")
    edit(world, last + 1)
    assert f"event {last + 1}: changed since it was written" in world.do("verify", code=5).stderr
    assert f"event {last + 1}: changed since it was written" in world.do("verify", "--all", code=5).stderr


def test_all_finds_what_was_altered_before(world: Workspace) -> None:
    world.do("verify")
    edit(world, 3)
    for option in ("--all", "--deep"):
        assert "event 3: changed since it was written" in world.do("verify", option, code=5).stderr


def test_a_changed_end_is_found_and_said(world: Workspace) -> None:
    world.do("verify")
    last = count(world)
    edit(world, last)
    done = world.do("verify", code=5)
    assert f"event {last}: changed since it was written" in done.stderr
    assert f"Began with the first record: the journal does not have the record {last}" in done.stdout


def test_a_cut_journal_is_found(world: Workspace) -> None:
    world.do("verify")
    last = count(world)
    t.tamper_file(journal_of(world), t.delete(last, last))
    assert f"event {last}: missing" in world.do("verify", code=5).stderr


def test_records_that_were_cut_since_are_found(world: Workspace) -> None:
    world.do("verify")
    before = count(world)
    world.agent("rm made")
    t.tamper_file(journal_of(world), t.delete(before + 1, 1000))
    assert "missing: written" in world.do("verify", code=5).stderr


def test_an_anchor_that_is_gone_is_found(world: Workspace) -> None:
    world.do("verify")
    (state_of(world) / "journal.anchor").unlink()
    assert "journal.anchor is missing" in world.do("verify", code=5).stderr


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "cannot be read"),
        (b"[1, 2]", "cannot be read"),
        (b"\xff" * 9000, "cannot be read"),
        (json.dumps({"format": 9, "count": 2, "digest": "b3:", "at_us": 1}).encode(), "not in a format"),
        (json.dumps({"format": 1, "count": 0, "digest": "", "at_us": 1}).encode(), "not in a format"),
        (
            json.dumps({"format": 1, "count": 2, "digest": digest(b"x"), "at_us": 1}).encode(),
            "does not have the",
        ),
        (json.dumps({"format": 1, "count": 2**70, "digest": "b3:", "at_us": 1}).encode(), "not in a format"),
        (
            json.dumps({"format": 1, "count": 2**62, "digest": "b3:", "at_us": 1}).encode(),
            "does not have the",
        ),
    ],
)
def test_a_position_that_does_not_fit_is_ignored_and_said(
    world: Workspace, content: bytes, said: str
) -> None:
    last = count(world)
    path = state_of(world) / "verified.json"
    path.write_bytes(content)
    done = world.do("verify")
    assert f"Verified records 1–{last} of {last}: {SOUND}." in done.stdout
    assert "Began with the first record: " in done.stdout and said in done.stdout
    assert "No records since" in world.do("verify").stdout


def test_nothing_is_kept_where_something_is_wrong(world: Workspace) -> None:
    edit(world, 3)
    world.do("verify", code=5)
    assert not (state_of(world) / "verified.json").exists()


def test_the_position_is_private_and_whole(world: Workspace) -> None:
    world.do("verify")
    path = state_of(world) / "verified.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_bytes())["count"] == count(world)
    assert [file.name for file in path.parent.glob("verified*")] == ["verified.json"]
