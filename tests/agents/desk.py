"""A human at a project, who types commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from takeback.agents import settings
from tests.cli.inside import Inside
from tests.world.cli import Result


class Desk(Inside):
    """A project and a home, with commands as calls in this process."""

    @classmethod
    def at(cls, folder: Path) -> Self:
        made = cls(folder / "work", folder / "state")
        made.root.mkdir()
        made.user.mkdir()
        made.human("plan.md", "old\n")
        return made

    @property
    def user(self) -> Path:
        return self.root.parent / "user"

    def run(self, *args: str, env: Mapping[str, str] | None = None, umask: int = -1) -> Result:
        return super().run(*args, env={"HOME": str(self.user), **(env or {})}, umask=umask)

    def settings(self, agent: str, *, user: bool = False) -> Path:
        of = settings.layout(agent)
        return self.user / of.user if user else self.root / of.project
