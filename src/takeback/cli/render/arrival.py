"""The output of `takeback resume RUN --into DIR`, before and after."""

from __future__ import annotations

import shlex
from typing import Any

from takeback.cli.render.runs import standing_data, steps_done
from takeback.cli.text import ago, iso, plural
from takeback.core.entities import RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.settings import environment
from takeback.workspace.resuming import program_of
from takeback.workspace.store.bring import Arrival, Outlook


def outlook_data(outlook: Outlook, run: str) -> dict[str, Any]:
    seat = outlook.seat
    return {
        "preview": True,
        "workspace": outlook.workspace,
        "into": str(outlook.root),
        "seat": {
            "host": seat.place.host,
            "root": seat.place.root,
            "since": iso(seat.since_us),
            "here": outlook.is_here,
            "left_s": round(seat.left_us / 1e6, 3),
        }
        if seat
        else None,
        "stays": outlook.stays,
        "again": outlook.history.unseen(),
        "run": standing_data(outlook.history, outlook.history.runs[run]) if run else None,
    }


def outlook_lines(outlook: Outlook, run: str) -> list[str]:
    history, seat = outlook.history, outlook.seat
    if outlook.is_here:
        return [f"{outlook.workspace} already sits in {outlook.root}. Nothing would be brought."]
    lines = [f"Would bring {outlook.workspace} into {outlook.root}, as it was recorded {_when(history)}."]
    if seat and seat.is_live:
        lines.append(
            f"  not now: it sits in {seat.place.said}, which is still active; "
            f"possible after {seat.left_us / 1e6:.0f} s of silence"
        )
    elif seat:
        lines.append(f"  it sits in {seat.place.said}, which is silent; if it comes back, it is refused")
    if again := history.unseen():
        lines.append(
            f"  {plural(len(again), 'call')} would be made again: changes to files were not recorded"
        )
    lines += [f"  not brought: {what}" for what in outlook.stays]
    if run:
        found = history.runs[run]
        done = plural(len(steps_done(history, found)), "step")
        lines.append(f"  {run} ({found.began.name}): {found.life}, {done} done")
    return [*lines, "Nothing was changed."]


def arrival_data(arrival: Arrival, outlook: Outlook) -> dict[str, Any]:
    return {
        "workspace": outlook.workspace,
        "into": str(arrival.root),
        "from": outlook.seat.place.said if outlook.seat else None,
        "fence": arrival.seat.fence,
        "new": arrival.is_new,
        "files": arrival.files,
        "databases": arrival.databases,
        "unlike": list(arrival.unlike),
        "again": list(arrival.again),
        "stays": [*arrival.stays, *outlook.stays],
    }


def arrival_lines(arrival: Arrival, outlook: Outlook) -> list[str]:
    if not arrival.is_new:
        return [f"{outlook.workspace} sits in {arrival.root}."]
    databases = f" and {plural(arrival.databases, 'database')}" if arrival.databases else ""
    what, when = f"{plural(arrival.files, 'path')}{databases}", _when(outlook.history)
    proved = f"read again and equal to what was recorded {when}"
    lines = [f"Brought {outlook.workspace} into {arrival.root}: {what}, {proved}."]
    if outlook.seat:
        lines.append(f"  it sat in {outlook.seat.place.said}; if that comes back, it is refused")
    if arrival.unlike:
        lines.append(f"  {plural(len(arrival.unlike), 'path')} could not get the recorded owner")
    if arrival.again:
        count = plural(len(arrival.again), "call")
        lines.append(f"  {count} made after that record will be made again: {', '.join(arrival.again[:5])}")
    return [*lines, *(f"  not brought: {what}" for what in (*arrival.stays, *outlook.stays))]


def _when(history: History) -> str:
    return ago(history.moves.looked_us) if history.moves.looked_us else "never"


# Continuing


def going_on(history: History, run: RecordedRun) -> str:
    """Return the command that continues a run."""
    words, folder = program_of(history, run)
    if not run.began.key or run.life is not Life.INTERRUPTED:
        return ""
    if not words:
        return f"run your program again: it finds {run.id} by the key {run.began.key!r}"
    where = f"cd {shlex.quote(folder)} && " if folder and folder != environment.folder() else ""
    return where + shlex.join(words)
