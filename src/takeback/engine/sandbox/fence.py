"""The fence around a command: what it may write and reach, as a value that one process hands to another.

It is read before every command in the sandbox, so it needs nothing but `os`: a library would take longer to load.
"""

from __future__ import annotations

import os

DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
    "/dev/shm", "/dev/mqueue",
)  # fmt: skip
"""What every program writes to, and nothing is kept in."""

SETTINGS_OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
"""What root could change for the whole machine in a folder that every process needs."""


class Fence:
    """What a command may write and reach."""

    def __init__(
        self,
        root: str,
        writable: tuple[str, ...],
        *,
        protected: tuple[str, ...] = (),
        network: str = "full",
        hosts: tuple[str, ...] = (),
        namespaces: bool = True,
        signals: bool = True,
        as_root: bool = False,
        tells_how: bool = True,
    ) -> None:
        self.root = root
        """The workspace."""
        self.writable = writable
        """Where it may write, by real paths; the workspace among them."""
        self.protected = protected
        """What it may not write although it is below one of those: Takeback's state, settings that hold it back."""
        self.network = network
        self.hosts = hosts
        """Which hosts it reaches nevertheless, through a proxy."""
        self.namespaces = namespaces
        """True if the kernel lets it have mounts and a network of its own."""
        self.signals = signals
        """True if the kernel keeps its signals from processes outside."""
        self.as_root = as_root
        """True to do without a user namespace, which only root may."""
        self.tells_how = tells_how
        """True if a human reads what was denied, so that it says how to allow it. A model is not told."""

    def written(self) -> bytes:
        """Return it for the process that starts the command: names and values, each ended by NUL."""
        fields: list[str] = []
        for name, value in vars(self).items():
            for one in value if isinstance(value, tuple) else (value,):
                fields += [name, one if isinstance(one, str) else str(int(one))]
        return b"".join(os.fsencode(field) + b"\0" for field in fields)

    @classmethod
    def read(cls, data: bytes) -> Fence:
        """Return the fence that was written so."""
        fields = list(map(os.fsdecode, data.split(b"\0")[:-1]))
        every: dict[str, list[str]] = {}
        for name, value in zip(fields[::2], fields[1::2], strict=True):
            every.setdefault(name, []).append(value)

        def many(name: str) -> tuple[str, ...]:
            return tuple(every.get(name, ()))

        def is_so(name: str) -> bool:
            return every[name] == ["1"]

        return cls(
            every["root"][0],
            many("writable"),
            protected=many("protected"),
            network=every["network"][0],
            hosts=many("hosts"),
            namespaces=is_so("namespaces"),
            signals=is_so("signals"),
            as_root=is_so("as_root"),
            tells_how=is_so("tells_how"),
        )

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


class Containment:
    """How commands of an agent are held, if they are."""

    def __init__(self, fence: Fence | None, *, why_not: str = "", every: bool = False) -> None:
        self.fence = fence
        """The fence; None if this machine cannot enforce one."""
        self.why_not = why_not
        self.every = every
        """True for every command, False for those whose effect is unknown."""


FENCED = "fenced"
"""In the ref of an action: its command runs in the sandbox."""
REACH = "reach"
"""The verb of an attempt to connect to a host."""


class Denial:
    """Something that a command attempted and was not allowed to do."""

    def __init__(self, verb: str, path: str, protected: bool = False, program: str = "") -> None:  # noqa: FBT001, FBT002
        self.verb = verb
        self.path = path
        self.protected = protected
        """True if it is one of the places that nothing in the sandbox may write."""
        self.program = program

    def __repr__(self) -> str:
        return f"<Denial {self.said}>"

    def written(self) -> bytes:
        """Return it as it is noted: four fields, each ended by NUL."""
        fields = self.verb, self.path, str(int(self.protected)), self.program
        return b"".join(os.fsencode(field) + b"\0" for field in fields)

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
            fields = list(map(os.fsdecode, file.read().split(b"\0")[:-1]))
    except OSError:
        return []
    every = (fields[at : at + 4] for at in range(0, len(fields) - 3, 4))
    return [Denial(verb, path, protected == "1", program) for verb, path, protected, program in every]
