"""A checkpoint: what one workflow has done, and what remains.

It is a plain JSON object with exactly these fields; one of them is a hash over all others. Schema 1.0 is that of the
restart-recovery skill, so that each can read the other's files.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from takeback.errors import ConflictError, CorruptionError, UsageError

SCHEMA = "1.0"
DAY_S = 86_400.0
TTL_DAYS_MAX = 3_650
ID_BYTES_MAX = 200
NAMES_SHOWN = 10
STATUSES = ("in_progress", "blocked", "done", "failed")
UNFINISHED = ("in_progress", "blocked")
HASH = "checkpointHash"
LISTS = ("completedSteps", "remainingSteps")
TEXTS = (
    "schemaVersion",
    "workflowId",
    "agentId",
    "status",
    "currentStep",
    "notes",
    "idempotencyKey",
    "updatedAt",
    "expiresAt",
)
FIELDS = {*TEXTS, *LISTS, "handoffTo", HASH}

SAFE_NAME = re.compile(r"\w[\w .:@+=,-]*")
"""What may be part of a file name: no slash, no leading dot, no control characters."""


RESERVED = "CHECKPOINT_SCHEMA"
"""The skill keeps its schema in a file of this name, which is not a checkpoint."""


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def seconds(text: str) -> float:
    """Return a time as seconds since 1970. Raise ValueError if it has no time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return moment.timestamp()


def safe_name(name: str, what: str) -> str:
    """Return this name. Raise UsageError if it is not safe as part of a path."""
    if name.upper() == RESERVED:
        raise UsageError(
            f"{name} cannot be {what}: that name is reserved for the schema; nothing was done",
            hint="choose another name",
        )
    if not SAFE_NAME.fullmatch(name) or len(name.encode("utf-8", "replace")) > ID_BYTES_MAX:
        raise UsageError(
            f"{name[:ID_BYTES_MAX]!r} cannot be {what}; nothing was done",
            hint="use letters, digits and . _ - : @ + = , without a slash, and begin with a letter or digit",
        )
    return name


def digest(record: dict[str, Any]) -> str:
    """Return the SHA-256 of the sorted compact JSON, without the hash itself."""
    rest = {name: value for name, value in record.items() if name != HASH}
    return _sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def _sha256(data: bytes) -> str:
    # hashlib loads all of OpenSSL, a tenth of a command's time; Python has its own SHA-256, under two names.
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            return str(__import__(name).sha256(data).hexdigest())
        except ImportError:
            continue
    raise AssertionError("hashlib always exists")


def sealed(record: dict[str, Any], now_s: float) -> dict[str, Any]:
    """Return this record with the present time and its hash."""
    fresh = record | {"updatedAt": iso(now_s)}
    return fresh | {HASH: digest(fresh)}


def encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, indent=2).encode() + b"\n"


def decoded(data: bytes, name: str) -> dict[str, Any]:
    """Return the record in a file. Raise CorruptionError if its schema, hash or id is wrong. `name` has no suffix."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptionError("it is not complete JSON") from None
    if not isinstance(record, dict):
        raise CorruptionError("it is not a JSON object")
    if wrong := _misfit(record):
        raise CorruptionError(wrong)
    if record[HASH] != digest(record):
        raise CorruptionError("its hash does not match: something else changed it")
    if record["workflowId"] != name:
        raise CorruptionError("it belongs to another workflow than its file name says")
    return record


def _misfit(record: dict[str, Any]) -> str:
    """Return what is wrong with the fields, or "" if nothing is."""
    if record.get("schemaVersion") != SCHEMA:
        return f"its schema is not {SCHEMA}"
    if missing := FIELDS - record.keys():
        return f"it has no {min(missing)}"
    if record.keys() - FIELDS:
        return "it has a field that the schema does not know"
    for field in TEXTS:
        if not isinstance(record[field], str):
            return f"{field} is not a text"
    for field in LISTS:
        if not isinstance(record[field], list) or not all(isinstance(step, str) for step in record[field]):
            return f"{field} is not a list of texts"
    if record["handoffTo"] is not None and not isinstance(record["handoffTo"], str):
        return "handoffTo is not a text"
    if record["status"] not in STATUSES:
        return "its status is unknown"
    try:
        seconds(record["updatedAt"]), seconds(record["expiresAt"])
    except (ValueError, OverflowError):
        return "one of its times is not valid"
    return ""


def check_steps(step: str, remaining: list[str]) -> None:
    """Raise UsageError if two steps share a name. `step` may also be the first of `remaining`, as in the skill."""
    if len(set(remaining)) < len(remaining) or step in remaining[1:]:
        raise UsageError(
            "two steps have the same name; nothing was done",
            hint="steps are identified by name: give each its own, such as send-1 and send-2",
        )


def new_record(
    workflow: str,
    *,
    agent: str,
    step: str,
    key: str,
    remaining: list[str],
    handoff: str | None,
    notes: str,
    ttl_days: float,
    now_s: float,
) -> dict[str, Any]:
    if not 0 <= ttl_days <= TTL_DAYS_MAX:
        raise UsageError(f"--ttl-days must be a number from 0 to {TTL_DAYS_MAX}; nothing was done")
    check_steps(step, remaining)
    record = {
        "schemaVersion": SCHEMA,
        "workflowId": workflow,
        "agentId": agent,
        "status": "in_progress",
        "currentStep": step,
        "completedSteps": [],
        "remainingSteps": remaining,
        "handoffTo": handoff,
        "notes": notes,
        "idempotencyKey": key,
        "expiresAt": iso(now_s + ttl_days * DAY_S),
    }
    return sealed(record, now_s)


def advanced(
    record: dict[str, Any],
    *,
    complete: str | None,
    step: str | None,
    status: str | None,
    notes: str | None,
    now_s: float,
    force: bool = False,
) -> dict[str, Any]:
    """Return the record after an update. A step that was completed before is not completed again.

    With steps that were never done, only `force` ends the workflow; they stay among the remaining ones.
    """
    after, done = dict(record), list(record["completedSteps"])
    repeated = complete in done
    if complete is not None:
        if not repeated:
            done.append(complete)
        after["completedSteps"] = done
        after["remainingSteps"] = [left for left in record["remainingSteps"] if left != complete]
        if after["currentStep"] == complete and after["remainingSteps"]:
            after["currentStep"] = after["remainingSteps"][0]
    # A repeated update must not lead back to a step that was done since.
    if step is not None and not (repeated and step in done):
        left = after["currentStep"]
        if left not in (step, *done, *after["remainingSteps"]):
            after["remainingSteps"] = [left, *after["remainingSteps"]]  # it was abandoned, not done
        after["currentStep"] = step
    if status is not None:
        after["status"] = status
    if notes is not None:
        after["notes"] = notes
    if status == "done" and record["status"] != "done":
        _end_steps(after, force=force)
    if repeated and after == record:
        return record
    if record["status"] == "done":
        raise ConflictError(
            f"{record['workflowId']} is done; nothing was changed",
            hint="start a new workflow, with an id and an idempotency key of its own",
        )
    # The allowed idle time stays the same, counted from this update.
    idle_s = max(0.0, seconds(record["expiresAt"]) - seconds(record["updatedAt"]))
    after["expiresAt"] = iso(now_s + idle_s)
    return sealed(after, now_s)


def some(names: list[str]) -> str:
    """Return these names for a sentence, the first ten at most."""
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def undone(record: dict[str, Any]) -> list[str]:
    """Return the steps that were never completed, in their order."""
    steps = dict.fromkeys([record["currentStep"], *record["remainingSteps"]])
    return [step for step in steps if step not in record["completedSteps"]]


def _end_steps(record: dict[str, Any], *, force: bool) -> None:
    """Complete the current step if it is the last. Raise ConflictError if others are not done, unless forced."""
    left = undone(record)
    if left and not force and left != [record["currentStep"]]:
        raise ConflictError(
            f"{some(left)} of {record['workflowId']} {'was' if len(left) == 1 else 'were'} never done; "
            "nothing was changed",
            hint="run `update --complete STEP` for each, or `complete --force`, which keeps them in the file",
        )
    if left == [record["currentStep"]]:
        record["completedSteps"] = [*record["completedSteps"], *left]
        left = []
    record["remainingSteps"] = left


def is_unfinished(record: dict[str, Any]) -> bool:
    return record["status"] in UNFINISHED


def is_expired(record: dict[str, Any], now_s: float) -> bool:
    return seconds(record["expiresAt"]) <= now_s


def is_over(record: dict[str, Any], now_s: float, keep_days: float | None) -> bool:
    """Return True if it may be cleaned up: expired, or with `keep_days` finished or expired that many days ago."""
    if keep_days is None:
        return is_expired(record, now_s)
    since = "expiresAt" if is_unfinished(record) else "updatedAt"
    return seconds(record[since]) + keep_days * DAY_S <= now_s
