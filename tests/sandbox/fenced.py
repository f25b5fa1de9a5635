"""A workspace with a folder beside it, and commands inside a fence around the workspace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from takeback.engine.sandbox.fence import Fence
from takeback.engine.sandbox.wrapping import starter
from takeback.system import landlock, namespaces

NEEDS_LANDLOCK = pytest.mark.skipif(
    landlock.version() < landlock.LEAST, reason="not on this platform: the kernel has no Landlock"
)
CAN_ISOLATE = not namespaces.why_refused()
NEEDS_NAMESPACES = pytest.mark.skipif(
    not CAN_ISOLATE, reason="not on this platform: the kernel allows no namespaces"
)


class World:
    """A workspace and a folder beside it, which a command in the workspace may not write."""

    def __init__(self, folder: Path, *, isolated: bool) -> None:
        self.folder, self.isolated = folder, isolated
        self.root, self.outside, self.log = folder / "ws", folder / "out", folder / "denied"
        self.protected: tuple[str, ...] = ()
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "f").write_text("theirs")
        (self.root / "takeback.toml").write_text("")

    def run(
        self, *words: str, network: str = "full", told: bool = True, hosts: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        line = self.line(*words, network=network, told=told, hosts=hosts)
        return subprocess.run(line, cwd=self.root, capture_output=True, text=True, timeout=100)

    def line(
        self, *words: str, network: str = "full", told: bool = True, hosts: tuple[str, ...] = ()
    ) -> list[str]:
        fence = Fence(
            str(self.root),
            (str(self.root),),
            protected=tuple(str(self.root / name) for name in ("takeback.toml", *self.protected)),
            network=network,
            hosts=hosts,
            namespaces=self.isolated,
            as_root=os.geteuid() == 0,
            tells_how=told,
        )
        place = self.folder / "fence"
        place.write_bytes(fence.written())
        return [*starter(), str(place), str(self.log), "--", *words]
