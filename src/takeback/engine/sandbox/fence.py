"""The fence around a command: what it may write and reach, as a value that one process hands to another."""

from __future__ import annotations

import os

import msgspec

DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
    "/dev/shm", "/dev/mqueue",
)  # fmt: skip
"""What every program writes to, and nothing is kept in."""

SETTINGS_OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
"""What root could change for the whole machine in a folder that every process needs."""


class Fence(msgspec.Struct, frozen=True):
    """What a command may write and reach."""

    root: str
    """The workspace."""
    writable: tuple[str, ...]
    """Where it may write, by real paths; the workspace among them."""
    protected: tuple[str, ...] = ()
    """What it may not write although it is below one of those: Takeback's state, settings that hold it back."""
    network: str = "full"
    hosts: tuple[str, ...] = ()
    """Which hosts it reaches nevertheless, through a proxy."""
    namespaces: bool = True
    """True if the kernel lets it have mounts and a network of its own."""
    signals: bool = True
    """True if the kernel keeps its signals from processes outside."""
    as_root: bool = False
    """True to do without a user namespace, which only root may."""
    tells_how: bool = True
    """True if a human reads what was denied, so that it says how to allow it. A model is not told."""

    @property
    def holds_everything(self) -> bool:
        """True if nothing that it does can have an effect elsewhere, as far as the kernel can hold it."""
        return self.namespaces and self.signals and self.network != "full" and not self.hosts

    def is_writable(self, path: str) -> bool:
        """Return whether it may write this path, given by its real name."""
        if self.is_protected(path):
            return False
        places = (*self.writable, *DEVICES, "/proc")
        return any(_is_below(path, place) for place in places)

    def is_protected(self, path: str) -> bool:
        """Return whether it is one of the places that nothing in the sandbox may write."""
        return any(_is_below(path, place) for place in self.protected)

    def holds_protected(self, path: str) -> bool:
        """Return whether a protected place is below this path: replaced as a whole, it would be another."""
        return any(place != path and _is_below(place, path) for place in self.protected)


REACH = "reach"
"""The verb of an attempt to connect to a host."""


class Denial(msgspec.Struct, frozen=True):
    """Something that a command attempted and was not allowed to do."""

    verb: str
    path: str
    protected: bool = False
    """True if it is one of the places that nothing in the sandbox may write."""
    program: str = ""

    @property
    def said(self) -> str:
        """The denial as a sentence."""
        if self.verb == REACH:
            return f"the sandbox denied an attempt to reach {self.path}: the host is not among those it may reach"
        why = "Takeback itself relies on it" if self.protected else "it is outside this workspace"
        by = f" by {self.program}" if self.program else ""
        return f"the sandbox denied an attempt{by} to {self.verb} {self.path}: {why}"


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def real(path: str, *, follow: bool) -> str:
    """Return the real name of a path; without `follow` a link at its end stays."""
    if follow:
        return os.path.realpath(path)
    folder, name = os.path.split(path.rstrip("/") or "/")
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)


def noted(log: str) -> list[Denial]:
    """Return what was denied so far, according to the supervisor's notes."""
    try:
        with open(log, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    return [msgspec.json.decode(line, type=Denial) for line in lines]
