"""What every protection needs of the machine: room, rights, and eyes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from takeback.agents.doctor.finding import Diagnosis, ok, problem, warning
from takeback.resources.files.look import watch
from takeback.workspace.workspace import Workspace

ROOM_BYTES_MIN, ROOM_BYTES_FEW = 64 << 20, 1 << 30
FULL_SHARE = 0.9


def examine_machine(state: Path, workspace: Workspace | None) -> list[Diagnosis]:
    """The disk below the state folder, the quota, and how changes of this workspace are found."""
    findings = list(_room(state))
    if workspace is not None:
        findings += [*_quota(workspace), *_eyes(workspace.root)]
    return findings


def _room(state: Path) -> Iterator[Diagnosis]:
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield problem("state", f"{state} cannot be written", "make it writable, or set TAKEBACK_HOME")
        return
    free = shutil.disk_usage(there).free
    said = f"{free / 1e9:,.1f} GB free for {state}"
    if free < ROOM_BYTES_MIN:
        yield problem("disk", said, "make room; `takeback gc` lets go of old states")
    elif free < ROOM_BYTES_FEW:
        yield warning("disk", said, "`takeback gc` lets go of old states")
    else:
        yield ok("disk", said)


def _quota(workspace: Workspace) -> Iterator[Diagnosis]:
    quota, size = workspace.settings.store.quota_bytes, workspace.parts.store.size_bytes()
    said = f"{size / 1e9:,.2f} GB recorded of {workspace.root}"
    if quota and size > FULL_SHARE * quota:
        yield warning(
            "store",
            f"{said}, of {quota / 1e9:,.1f} allowed",
            "`takeback gc`, or a larger quota-bytes in takeback.toml",
        )
    else:
        yield ok("store", said)


def _eyes(root: Path) -> Iterator[Diagnosis]:
    """Watching makes an event cost what changed. Without it everything is looked at, which is slower."""
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        why = watch.supported(fd)
    finally:
        os.close(fd)
    if why:
        yield warning("watching", f"not possible here, so each event looks at the whole tree: {why}")
        return
    limit, folders = watch.limit(), sum(1 for _ in os.walk(root))
    said = f"{folders:,} folders here, {limit:,} may be watched"
    if limit and folders > limit * FULL_SHARE:
        yield warning("watching", said, f"sysctl fs.inotify.max_user_watches={max(2 * folders, 524288)}")
    else:
        yield ok("watching", said)
