"""The fence around commands of this workspace: what its settings, its state and this machine make of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.engine.sandbox.fence import Containment, Fence
from takeback.engine.sandbox.wrapping import Fences
from takeback.errors import BackendError, UsageError
from takeback.settings import agent_files, environment, toml
from takeback.system import landlock, namespaces

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace

SIGNALS = landlock.SIGNALS
"""The first version of Landlock that keeps signals from processes outside."""
CACHES = (
    "~/.cache", "~/.npm", "~/.yarn", "~/.local/share/pnpm", "~/.bun/install/cache", "~/.cargo/registry",
    "~/.cargo/git", "~/go/pkg", "~/.gradle/caches", "~/.gradle/daemon", "~/.m2/repository", "~/.nuget/packages",
)  # fmt: skip
"""What package managers and compilers keep and can make again. It is writable, and not recorded."""


class SandboxDoctor(msgspec.Struct, frozen=True):
    """What the kernel of this machine can enforce, and why not where it cannot."""

    landlock: int
    """The version of Landlock; 0 for none."""
    no_namespaces: str
    """Why a command cannot have mounts and a network of its own; empty if it can."""

    @property
    def why_not(self) -> str:
        """Why there is no sandbox here; empty if there is one."""
        if self.landlock >= landlock.LEAST:
            return ""
        had = f"version {self.landlock}" if self.landlock else "none"
        return f"the kernel has no Landlock of version {landlock.LEAST} or later (it has {had})"


def examine() -> SandboxDoctor:
    """Find out what the kernel of this machine can enforce."""
    off = "switched off by TAKEBACK_NAMESPACES" if environment.namespaces() == "off" else ""
    return SandboxDoctor(landlock.version(), off or namespaces.why_refused())


def fence_for(
    workspace: Workspace, *, autopilot: bool = False, network: str = "", told: bool = True
) -> Fence:
    """Return what a command of this workspace may write and reach in the sandbox.

    `told` says that a human reads what was denied. Raise BackendError if this machine cannot hold the command.
    """
    root, settings, found = workspace.root, workspace.settings.sandbox, examine()
    if found.why_not:
        raise BackendError(
            f"there is no sandbox here: {found.why_not}. Nothing was started",
            hint="`takeback doctor` says what is there",
        )
    chosen = network or settings.network or ("loopback" if autopilot else "full")
    if found.no_namespaces and (chosen == "loopback" or settings.hosts):
        raise BackendError(
            f"the sandbox cannot limit the network to {chosen} here: {found.no_namespaces}. Nothing was started",
            hint='set [sandbox] network to "none" or "full"',
        )
    home = environment.home_folder()
    return Fence(
        str(root),
        tuple(_writable(root, home, settings.write)),
        protected=tuple(_protected(root, workspace.state)),
        network=chosen,
        hosts=settings.hosts if chosen != "full" else (),
        namespaces=not found.no_namespaces,
        signals=found.landlock >= landlock.SIGNALS,
        as_root=os.geteuid() == 0 and environment.namespaces() != "user",
        tells_how=told,
    )


def containment_of(workspace: Workspace) -> Containment | None:
    """Return how commands of agents are held in this workspace; None if they are not."""
    settings, autopilot = workspace.settings.sandbox, workspace.settings.agents.autopilot
    which = settings.commands or ("unknown" if autopilot else "off")
    if which == "off":
        return None
    try:
        fence = fence_for(workspace, autopilot=autopilot, told=False)
    except BackendError as error:
        return Containment(None, why_not=error.message, every=which == "all")
    return Containment(fence, every=which == "all")


def fenced(workspace: Workspace, held: Containment, action: str, command: str) -> str:
    """Return the command of an action as a shell has to run it to be in the sandbox."""
    assert held.fence is not None, "only what a fence can hold is fenced"
    return f"{Fences(workspace.state).prelude(held.fence, action)}; {command}"


def _writable(root: Path, home: Path, named: tuple[str, ...]) -> list[str]:
    places = [str(root), *map(str, environment.temporary_folders())]
    places += [_expanded(path, root, home) for path in (*CACHES, *named)]
    return list(dict.fromkeys(os.path.realpath(path) for path in places))


def _expanded(path: str, root: Path, home: Path) -> str:
    if path == "~" or path.startswith("~/"):
        return str(home) + path[1:]
    if path.startswith("~"):
        raise UsageError(
            f'[sandbox] write = "{path}" names another user\'s home; nothing was started',
            hint="write the whole path",
        )
    return os.path.join(root, path)


def _protected(root: Path, state: Path) -> list[str]:
    """Return what holds a command back, and so may not be changed by it: the state, and settings of agents."""
    kept = [state.parent.parent, environment.witness_folder(), root / toml.FILE, *agent_files.all_of_user()]
    kept += [root / name for name in agent_files.PROJECT_FILES]
    # By both names: a link on the way must not be replaced either.
    return list(dict.fromkeys(name for path in kept for name in (str(path), os.path.realpath(path))))
