"""The check of the machine: disk space, permissions, and a way to watch files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from takeback.agents.doctor.finding import Diagnosis, ok, problem, warning
from takeback.workspace import sandboxing
from takeback.workspace.workspace import Workspace

ROOM_BYTES_MIN, ROOM_BYTES_FEW = 64 << 20, 1 << 30
FULL_SHARE = 0.9


def examine_machine(state: Path, workspace: Workspace | None) -> list[Diagnosis]:
    """Check the disk of the state folder, the quota, and how changes in this workspace are found."""
    findings = [*_room(state), _sandbox()]
    if workspace is not None:
        findings += [*_quota(workspace), *_eyes(workspace)]
    return findings


def _room(state: Path) -> Iterator[Diagnosis]:
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield problem("state", f"{state} cannot be written", "make it writable, or set TAKEBACK_HOME")
        return
    free = shutil.disk_usage(there).free
    said = f"{free / 1e9:,.1f} GB free for {state}"
    if free < ROOM_BYTES_MIN:
        yield problem("disk", said, "make room; `takeback gc` removes old states")
    elif free < ROOM_BYTES_FEW:
        yield warning("disk", said, "`takeback gc` removes old states")
    else:
        yield ok("disk", said)


def _sandbox() -> Diagnosis:
    """Check what the kernel can enforce for a command in the sandbox."""
    found = sandboxing.examine()
    if found.why_not:
        return warning(
            "sandbox", f"not possible here: {found.why_not}", "a kernel of version 6.2 or later has it"
        )
    if found.no_namespaces:
        return warning(
            "sandbox",
            f"writes elsewhere are denied, but modes and times there, the network and settings in the workspace are "
            f"not held: {found.no_namespaces}",
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, or the profile of AppArmor",
        )
    missing = f"; signals to other processes are not held before Landlock {sandboxing.SIGNALS}"
    said = f"a command can be held to the workspace and the network (Landlock {found.landlock}, namespaces)"
    return ok("sandbox", said + (missing if found.landlock < sandboxing.SIGNALS else ""))


def _quota(workspace: Workspace) -> Iterator[Diagnosis]:
    quota, sizes = workspace.settings.store.quota_bytes, workspace.upkeep.sizes()
    said = f"{sizes} for {workspace.root}"
    if freed := workspace.upkeep.compactable().bytes_freed:
        said += f"; compacting old records frees about {freed / 1e6:,.1f} MB (takeback gc)"
    if quota and sizes.content > FULL_SHARE * quota:
        yield warning(
            "store",
            f"{said}; {quota / 1e6:,.1f} MB of content are allowed",
            "run `takeback gc`, or set a larger quota-bytes in takeback.toml",
        )
    else:
        yield ok("store", said)


def _eyes(workspace: Workspace) -> Iterator[Diagnosis]:
    """Check whether files can be watched. Without that each event looks at everything, which is slower."""
    watching = workspace.upkeep.watching()
    if why := watching.why_not:
        yield warning("watching", f"not possible here, so each event looks at the whole tree: {why}")
        return
    limit, folders = watching.folders_max, sum(1 for _ in os.walk(workspace.root))
    said = f"{folders:,} folders here, {limit:,} may be watched"
    if limit and folders > limit * FULL_SHARE:
        yield warning("watching", said, f"sysctl fs.inotify.max_user_watches={max(2 * folders, 524288)}")
    else:
        yield ok("watching", said)
