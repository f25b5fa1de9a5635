"""scripts/checkpoint_tool.py keeps to its interface, and says in a sentence what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.processes import give_up_root

from .helpers import ALONE, TOOL, living, place, read, record, rewrite, run, start

FIELDS = {
    "schemaVersion", "workflowId", "agentId", "status", "currentStep", "completedSteps", "remainingSteps",
    "handoffTo", "notes", "idempotencyKey", "updatedAt", "expiresAt", "checkpointHash",
}  # fmt: skip


def test_a_workflow_from_start_to_done(tmp_path: Path) -> None:
    begun = start(tmp_path, "w1", "--remaining", "two", "three", "--handoff", "b", "--notes", "hello")
    assert begun.keys() == FIELDS
    assert (begun["currentStep"], begun["completedSteps"]) == ("one", [])
    assert (begun["remainingSteps"], begun["handoffTo"]) == (["two", "three"], "b")
    went_on = record(run(tmp_path, "update", "--workflow", "w1", "--complete", "one", "--step", "two"))
    assert (went_on["completedSteps"], went_on["currentStep"]) == (["one"], "two")
    assert record(run(tmp_path, "resume")) == went_on
    run(tmp_path, "update", "--workflow", "w1", "--complete", "two", "--step", "three")
    done = record(run(tmp_path, "complete", "--workflow", "w1"))
    assert (done["status"], done["completedSteps"]) == ("done", ["one", "two", "three"])
    assert done["remainingSteps"] == []
    assert read(tmp_path, "w1") == done, "the file stays until it is pruned"
    assert run(tmp_path, "resume").stdout == "NO_CHECKPOINT\n"


def test_the_hash_is_that_of_the_sorted_compact_json(tmp_path: Path) -> None:
    found = start(tmp_path, "w1", "--notes", "grün")
    claimed = found.pop("checkpointHash")
    compact = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
    assert claimed == hashlib.sha256(compact).hexdigest()


def test_a_file_of_the_restart_recovery_skill_is_read(tmp_path: Path) -> None:
    """As its own tool writes it: other order, indented, a lock that holds only a time."""
    body = {
        "schemaVersion": "1.0",
        "workflowId": "nightly run",
        "agentId": "main",
        "status": "in_progress",
        "currentStep": "b",
        "completedSteps": ["a"],
        "remainingSteps": ["b", "c"],
        "handoffTo": None,
        "notes": "",
        "idempotencyKey": "k",
        "updatedAt": "2026-01-02T03:04:05.678901+00:00",
        "expiresAt": "2999-01-02T03:04:05.678901+00:00",
    }
    blob = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    folder = tmp_path / "memory/checkpoints"
    folder.mkdir(parents=True)
    (folder / "CHECKPOINT_SCHEMA.json").write_text("{}")
    whole = body | {"checkpointHash": hashlib.sha256(blob).hexdigest()}
    (folder / "nightly run.json").write_text(json.dumps(whole, indent=2))
    (folder / "nightly run.lock").write_text("2026-01-02T03:04:05.678901+00:00")
    assert run(tmp_path, "list").stdout.startswith("nightly run\tin_progress\tb\t2026-01-02")
    assert record(run(tmp_path, "resume")) == whole
    after = record(run(tmp_path, "update", "--workflow", "nightly run", "--complete", "b"))
    assert (after["completedSteps"], after["remainingSteps"]) == (["a", "b"], ["c"])


def test_what_stood_in_a_file_before_does_not_keep_it_from_being_completed(tmp_path: Path) -> None:
    """The skill allows longer texts, and looks for no secrets."""
    start(tmp_path, "w1")
    long, hush = "s" * 300, "the token" + ": abcdefghijk"
    later = [f"step {number}" for number in range(1_100)]
    rewrite(
        tmp_path, "w1", updated_s=time.time(), currentStep=long, remainingSteps=[long, *later], notes=hush
    )
    after = record(run(tmp_path, "update", "--workflow", "w1", "--complete", long, "--step", later[1]))
    assert (after["completedSteps"], after["remainingSteps"], after["notes"]) == ([long], later, hush)
    for words in (("--notes", hush + "l"), ("--step", "t" * 300), ("--step", hush)):
        before = place(tmp_path, "w1").read_bytes()
        done = run(tmp_path, "update", "--workflow", "w1", *words, code=3 if hush in words[1] else 2)
        assert "nothing was written" in done.stderr and place(tmp_path, "w1").read_bytes() == before
    refused = run(tmp_path, "complete", "--workflow", "w1", code=3)
    assert "and 1,090 more" in refused.stderr and len(refused.stderr) < 500
    run(tmp_path, "complete", "--workflow", "w1", "--force")
    assert (read(tmp_path, "w1")["status"], len(read(tmp_path, "w1")["remainingSteps"])) == ("done", 1_100)


def test_the_name_of_the_schema_is_no_id(tmp_path: Path) -> None:
    for id in ("CHECKPOINT_SCHEMA", "checkpoint_schema"):
        assert "name is reserved for the schema" in run(tmp_path, "start", *_words(id), code=2).stderr
    assert not (tmp_path / "memory").exists()


def test_completing_a_step_twice_changes_nothing(tmp_path: Path) -> None:
    start(tmp_path, "w1", "--remaining", "two", "three")
    run(tmp_path, "update", "--workflow", "w1", "--complete", "one")
    run(tmp_path, "update", "--workflow", "w1", "--complete", "two")
    before = place(tmp_path, "w1").read_bytes()
    for words in (("--complete", "one"), ("--complete", "one", "--step", "two"), ("--complete", "two")):
        run(tmp_path, "update", "--workflow", "w1", *words)
        assert place(tmp_path, "w1").read_bytes() == before
    run(tmp_path, "complete", "--workflow", "w1")
    before = place(tmp_path, "w1").read_bytes()
    run(tmp_path, "complete", "--workflow", "w1")
    run(tmp_path, "update", "--workflow", "w1", "--complete", "one")
    assert place(tmp_path, "w1").read_bytes() == before
    assert "is done" in run(tmp_path, "update", "--workflow", "w1", "--step", "four", code=3).stderr


def test_one_key_is_one_workflow(tmp_path: Path) -> None:
    start(tmp_path, "w1", "--remaining", "two")
    run(tmp_path, "update", "--workflow", "w1", "--complete", "one")
    before = place(tmp_path, "w1").read_bytes()
    assert start(tmp_path, "w1")["completedSteps"] == ["one"], "the second start finds the first"
    assert place(tmp_path, "w1").read_bytes() == before
    start(tmp_path, "w2", key="key-w1", code=3)
    start(tmp_path, "w2", "--force", key="key-w1", code=3)
    start(tmp_path, "w2", "--per-agent", key="key-w1", code=3)
    assert not place(tmp_path, "w2").exists()
    run(tmp_path, "complete", "--workflow", "w1")
    assert start(tmp_path, "w1")["status"] == "done", "a finished key is not started again"
    start(tmp_path, "w2", key="key-w1", code=3)


def test_another_key_needs_force_and_sets_the_old_one_aside(tmp_path: Path) -> None:
    start(tmp_path, "w1")
    old = place(tmp_path, "w1").read_bytes()
    start(tmp_path, "w1", key="other", code=3)
    assert place(tmp_path, "w1").read_bytes() == old
    with living() as pid:
        run(tmp_path, "resume", "--owner-pid", str(pid))
        start(tmp_path, "w1", "--force", key="other", code=3)
        assert place(tmp_path, "w1").read_bytes() == old, "not while somebody works on it"
    assert start(tmp_path, "w1", "--force", key="other")["idempotencyKey"] == "other"
    (kept,) = (tmp_path / "memory/checkpoints/set-aside").iterdir()
    assert kept.read_bytes() == old


def test_an_agents_own_folder(tmp_path: Path) -> None:
    start(tmp_path, "w1", "--per-agent")
    own = tmp_path / "agents/a/memory/checkpoints/w1.json"
    assert own.exists() and not place(tmp_path, "w1").exists()
    run(tmp_path, "update", "--workflow", "w1", "--complete", "one")
    assert json.loads(own.read_text())["completedSteps"] == ["one"]
    start(tmp_path, "w2", "--handoff", "b")
    assert record(run(tmp_path, "resume", "--agent", "b"))["workflowId"] == "w2"
    assert record(run(tmp_path, "resume", "--agent", "a"))["workflowId"] == "w1"


BAD: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "tampered": lambda data: data.replace(b'"one"', b'"uno"'),
    "another field": lambda data: data.replace(b"{", b'{"extra": "x",', 1),
    "other version": lambda data: data.replace(b'"1.0"', b'"2.0"'),
    "not utf-8": lambda data: b"\xff\xfe" + data,
    "a list": lambda data: b"[]",
    "deep": lambda data: b"[" * 100_000,
    "other name": lambda data: data.replace(b"a-bad", b"other"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_never_believed_and_blocks_no_other(kind: str, tmp_path: Path) -> None:
    start(tmp_path, "a-bad")
    start(tmp_path, "b-good")
    path = place(tmp_path, "a-bad")
    path.write_bytes(bad := BAD[kind](path.read_bytes()))
    lines = run(tmp_path, "list").stdout.splitlines()
    assert lines[0].startswith("INVALID a-bad.json it") and lines[1].startswith("b-good\t")
    resumed = run(tmp_path, "resume")
    assert record(resumed)["workflowId"] == "b-good" and "INVALID a-bad.json" in resumed.stderr
    run(tmp_path, "resume", "--workflow", "a-bad", code=5)
    run(tmp_path, "update", "--workflow", "a-bad", "--complete", "one", code=5)
    start(tmp_path, "a-bad", code=5)
    run(tmp_path, "update", "--workflow", "b-good", "--complete", "one")
    run(tmp_path, "prune")
    assert path.read_bytes() == bad, "what cannot be read is left for a human"
    start(tmp_path, "a-bad", "--force")
    (kept,) = (tmp_path / "memory/checkpoints/set-aside").iterdir()
    assert kept.read_bytes() == bad


def test_links_pipes_and_folders_are_no_checkpoints(tmp_path: Path) -> None:
    start(tmp_path, "z-good")
    folder = tmp_path / "memory/checkpoints"
    (tmp_path / "outside.json").write_bytes(place(tmp_path, "z-good").read_bytes())
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    lines = run(tmp_path, "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["INVALID", "folder.json"], ["INVALID", "link.json"], ["INVALID", "pipe.json"],
    ]  # fmt: skip
    assert record(run(tmp_path, "resume"))["workflowId"] == "z-good"


@pytest.mark.parametrize("part", ["memory", "memory/checkpoints"])
def test_a_folder_that_is_a_link_is_not_followed(part: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere/checkpoints").mkdir(parents=True)
    root = tmp_path / "root"
    (root / part).parent.mkdir(parents=True)
    (root / part).symlink_to(tmp_path / "elsewhere")
    assert "is a link" in run(root, "start", *_words("w1"), code=3).stderr
    assert list((tmp_path / "elsewhere/checkpoints").iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link", "closed", "agent closed", "agent file"])
def test_a_bad_folder_of_agents_blocks_no_other(kind: str, tmp_path: Path) -> None:
    start(tmp_path, "w1")
    agents = tmp_path / "agents"
    if kind == "file":
        agents.touch()
    elif kind == "link":
        agents.symlink_to(tmp_path / "memory")
    else:
        start(tmp_path, "w2", "--per-agent")
        (agents / "b").touch()
    closed = {"closed": agents, "agent closed": agents / "a"}.get(kind)
    if closed:
        closed.chmod(0)
    try:
        for words in (("list",), ("check",), ("resume",), ("update", "--workflow", "w1"), ("prune",)):
            done = _bound(tmp_path, *words)
            assert done.returncode == 0 and done.stderr == "", (words, done)
            assert "w1" in done.stdout or words[0] in ("check", "prune")
    finally:
        if closed:
            closed.chmod(0o700)


def test_a_planted_lock_or_temporary_is_not_followed(tmp_path: Path) -> None:
    start(tmp_path, "w1")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "memory/checkpoints"
    (folder / "w1.lock").symlink_to(victim)
    (folder / ".w1.json.tmp").symlink_to(victim)
    run(tmp_path, "update", "--workflow", "w1", "--complete", "one")
    run(tmp_path, "resume")
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(
    "id", ["../x", "/etc/x", "a/../../x", "..", ".hidden", "", "a\nb", "a\x1b[31m", "x" * 300, "a\\b"]
)
def test_an_id_leads_nowhere_else(id: str, tmp_path: Path) -> None:
    root = tmp_path / "deep/er"
    root.mkdir(parents=True)
    said = run(root, "start", *_words(id), code=2).stderr
    assert "cannot be the id" in said and "\x1b" not in said
    for words in (("update",), ("complete",)):
        run(root, *words, "--workflow", id, code=2)
    run(
        root,
        "start",
        "--workflow",
        "w",
        "--agent",
        id,
        "--step",
        "s",
        "--idempotency",
        "k",
        "--per-agent",
        code=2,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def _bound(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As somebody whom permissions bind."""
    tool = [*ALONE, str(TOOL), *words]
    return subprocess.run(tool, cwd=folder, capture_output=True, text=True, preexec_fn=give_up_root)


def _words(id: str) -> tuple[str, ...]:
    return ("--workflow", id, "--agent", "a", "--step", "s", "--idempotency", "k")


# Shapes only, and put together here, so that nobody mistakes them for real ones.
SECRETS = {
    "github": "ghp_" + "a1" * 15,
    "aws": "AKIA" + "A1B2" * 4,
    "slack": "xoxb-" + "1234567890-abcdef",
    "openai": "sk-proj-" + "a1" * 12,
    "jwt": "eyJ" + "a1" * 8 + ".eyJ" + "b2" * 8 + ".c3",
    "key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "url": "see postgres://app:" + "hunter22@db/x",
    "assigned": "the password" + ": hunter2222",
    "header": "Authorization" + ": Basic abc",
}
HARMLESS = [
    "key-2026-11-16", "author=bob", "token: $TOKEN", "password=***", "see https://example.org/a:b@c",
    "3f786850e387550fdab836ed7e6dc881de23001b", "0c7a1b1e-5b3c-4a52-9d53-8f1d6a3c1c1d", "rotate the api key",
    "secret: <in the vault>", "passed=all-tests-green", "monkey=bananas-are-good",
]  # fmt: skip


@pytest.mark.parametrize(
    "field", ["notes", "step", "idempotency", "handoff", "remaining", "agent", "workflow"]
)
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_refused_by_its_field(kind: str, field: str, tmp_path: Path) -> None:
    words = {"workflow": "w", "agent": "a", "step": "s", "idempotency": "k"} | {field: SECRETS[kind]}
    options = [word for name, value in words.items() for word in (f"--{name}={value}",)]
    from takeback.workflows import script

    assert script.main(["--root", str(tmp_path), "start", *options]) in (2, 3)
    assert not list(tmp_path.rglob("*.json"))


def test_the_refusal_names_the_field_and_not_the_value(tmp_path: Path) -> None:
    for kind, secret in SECRETS.items():
        said = run(tmp_path, "start", *_words("w"), f"--notes={secret}", code=3).stderr
        assert "notes seems to contain" in said and secret not in said, kind
    start(tmp_path, "w1")
    before = place(tmp_path, "w1").read_bytes()
    said = run(tmp_path, "update", "--workflow", "w1", "--complete", SECRETS["github"], code=3).stderr
    assert "completedSteps" in said and place(tmp_path, "w1").read_bytes() == before


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_written(text: str, tmp_path: Path) -> None:
    assert start(tmp_path, "w1", "--notes", text)["notes"] == text


def test_files_belong_to_their_user_alone(tmp_path: Path) -> None:
    start(tmp_path, "w1")
    run(tmp_path, "resume")
    for path in (tmp_path / "memory/checkpoints").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((tmp_path / "memory/checkpoints").stat().st_mode) == 0o700


def test_a_read_only_folder(tmp_path: Path) -> None:
    start(tmp_path, "w1")
    before = place(tmp_path, "w1").read_bytes()
    folder = tmp_path / "memory/checkpoints"
    folder.chmod(0o500)
    (folder / ".lock").chmod(0o400)
    (tmp_path / "memory").chmod(0o500)
    try:
        for words, code in (
            (("start", *_words("w2")), 4), (("update", "--workflow", "w1", "--complete", "one"), 4),
            (("resume",), 4), (("list",), 0), (("check",), 0),
        ):  # fmt: skip
            done = _bound(tmp_path, *words)
            assert done.returncode == code and "Traceback" not in done.stderr, done
            assert not code or "nothing was changed" in done.stderr
    finally:
        folder.chmod(0o700)
        (tmp_path / "memory").chmod(0o700)
    assert place(tmp_path, "w1").read_bytes() == before


def test_wrong_words(tmp_path: Path) -> None:
    for words in (
        (),
        ("frob",),
        ("start",),
        ("update", "--workflow", "w", "--status", "odd"),
        ("check", "--stale-min", "x"),
    ):
        run(tmp_path, *words, code=2)
    assert "there is no workflow" in run(tmp_path, "update", "--workflow", "nope", code=2).stderr
    assert run(tmp_path, "resume", "--workflow", "nope").stdout == "NO_CHECKPOINT\n"
    for days in ("-1", "nan", "inf", "1e9"):
        run(tmp_path, "start", *_words("w"), f"--ttl-days={days}", code=2)
    run(tmp_path / "..", "--root", str(tmp_path / "missing"), "start", *_words("w"), code=4)


def test_a_long_idle_workflow_expires_after_its_last_update(tmp_path: Path) -> None:
    begun = start(tmp_path, "w1", "--ttl-days", "2")
    rewrite(tmp_path, "w1", updated_s=0, expiresAt="1970-01-03T00:00:00+00:00")
    went_on = record(run(tmp_path, "update", "--workflow", "w1", "--complete", "one"))
    assert went_on["expiresAt"] > begun["expiresAt"], "two days from now, not from then"
