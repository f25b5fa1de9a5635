"""Unfinished workflows that have not moved for too long."""

from __future__ import annotations

import time
from typing import Any

from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.places import CheckpointFile
from takeback.workflows.record import HASH, is_unfinished, seconds

MINUTE_S = 60.0


def stale(checkpoints: Checkpoints, stale_min: float, now_s: float | None = None) -> list[dict[str, Any]]:
    """Return the workflows that are older than the threshold, in the order of the files."""
    now_s = time.time() if now_s is None else now_s
    found = (_finding(entry, stale_min * MINUTE_S, now_s) for entry in checkpoints.entries())
    return [finding for finding in found if finding]


def _finding(entry: CheckpointFile, threshold_s: float, now_s: float) -> dict[str, Any] | None:
    if entry.record is None:
        return _unreadable(entry, threshold_s, now_s)
    record = entry.record
    if not is_unfinished(record):
        return None
    age_s = now_s - seconds(record["updatedAt"])
    # A time in the future means that the clock was set back; the true age is unknown.
    if -threshold_s - MINUTE_S < age_s < threshold_s:
        return None
    return {
        "workflowId": record["workflowId"],
        "agentId": record["agentId"],
        "status": record["status"],
        "file": entry.path,
        "ageMinutes": int(age_s / MINUTE_S),
        "reason": "stale" if age_s > 0 else "its time is in the future: the clock was set back",
        "state": record[HASH],
    }


def _unreadable(entry: CheckpointFile, threshold_s: float, now_s: float) -> dict[str, Any] | None:
    """Report a file that cannot be trusted once it is older than the threshold: it may be unfinished work."""
    try:
        modified_s = entry.folder.modified_s(entry.name)
    except OSError:
        return None
    if now_s - modified_s < threshold_s:
        return None
    return {
        "workflowId": entry.id,
        "agentId": "unknown",
        "status": "invalid",
        "file": entry.path,
        "ageMinutes": int((now_s - modified_s) / MINUTE_S),
        "reason": entry.reason,
        "state": f"{modified_s}",
    }


def report_lines(findings: list[dict[str, Any]], stale_min: float) -> list[str]:
    """Return `OK`, or the number of stale workflows and each of them."""
    if not findings:
        return ["OK"]
    late = [finding for finding in findings if finding["status"] != "invalid"]
    lines = [f"ALERT stale_checkpoints={len(late)} threshold_min={stale_min:g}"]
    for finding in findings:
        if finding["status"] == "invalid":
            lines.append(f"INVALID {finding['workflowId']}.json {finding['reason']}")
        else:
            who = f"{finding['agentId']}:{finding['workflowId']}"
            lines.append(f"- {who} age={finding['ageMinutes']}m file={finding['file']}")
    return lines


def report_data(findings: list[dict[str, Any]], stale_min: float) -> dict[str, Any]:
    return {
        "status": "alert" if findings else "ok",
        "count": len(findings),
        "thresholdMin": stale_min,
        "findings": findings,
    }
