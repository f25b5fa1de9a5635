"""The folders of a workspace's checkpoints: memory/checkpoints, and agents/NAME/memory/checkpoints."""

from __future__ import annotations

import os
from typing import Any

from takeback.errors import BackendError, ConflictError, CorruptionError
from takeback.workflows.disk import CheckpointFolder
from takeback.workflows.record import RESERVED, decoded, safe_name

PLACE = ("memory", "checkpoints")
AGENTS = "agents"
SUFFIX = ".json"
NOT_OURS = {RESERVED + SUFFIX}


class CheckpointFile:
    """One file in a folder of checkpoints: its record, or the reason why it cannot be read."""

    def __init__(
        self, folder: CheckpointFolder, id: str, record: dict[str, Any] | None, reason: str = ""
    ) -> None:
        self.folder = folder
        self.id = id
        self.record = record
        self.reason = reason

    @property
    def name(self) -> str:
        return self.id + SUFFIX

    @property
    def path(self) -> str:
        return os.path.join(self.folder.path, self.name)


class CheckpointFolders:
    """Every folder of checkpoints below one root, each opened once."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._open: dict[tuple[str, ...], CheckpointFolder] = {}

    def close(self) -> None:
        for folder in self._open.values():
            folder.close()
        self._open.clear()

    def entries(self) -> list[CheckpointFile]:
        """Return every checkpoint. A bad file is an entry like the others, and blocks none of them."""
        return [
            self._entry(folder, name.removesuffix(SUFFIX))
            for folder in self.folders()
            for name in folder.names()
            if name.endswith(SUFFIX) and not name.startswith(".") and name not in NOT_OURS
        ]

    def find(self, workflow: str) -> CheckpointFile | None:
        """Return the file of this workflow, in whichever folder it is."""
        safe_name(workflow, "the id of a workflow")
        found = [folder for folder in self.folders() if workflow + SUFFIX in folder.names()]
        if len(found) > 1:
            raise ConflictError(
                f"{workflow} exists twice, in {found[0].path} and in {found[1].path}; nothing was changed",
                hint="move one of the two files elsewhere",
            )
        return self._entry(found[0], workflow) if found else None

    def folders(self) -> list[CheckpointFolder]:
        """Return every existing folder of checkpoints."""
        agents = self.quietly((AGENTS,))
        names = agents.names() if agents else []
        places = [PLACE, *((AGENTS, name, *PLACE) for name in names)]
        return [folder for parts in places if (folder := self.quietly(parts))]

    def folder(self, *parts: str) -> CheckpointFolder | None:
        """Return the folder at these parts, if it exists."""
        if parts not in self._open:
            folder = CheckpointFolder.find(self.root, *parts)
            if folder is None:
                return None
            self._open[parts] = folder
        return self._open[parts]

    def quietly(self, parts: tuple[str, ...]) -> CheckpointFolder | None:
        """Return the folder. Return None for an agent's that is a link, not a folder, or unreadable: it blocks no
        other."""
        try:
            return self.folder(*parts)
        except (ConflictError, BackendError):
            if parts == PLACE:
                raise
            return None

    def make(self, *parts: str) -> CheckpointFolder:
        """Return the folder at these parts; create it if it is missing."""
        found = self.folder(*parts) or CheckpointFolder.find(self.root, *parts, create=True)
        assert found is not None
        self._open[parts] = found
        return found

    def parts(self, folder: CheckpointFolder) -> tuple[str, ...]:
        return next(parts for parts, known in self._open.items() if known is folder)

    def _entry(self, folder: CheckpointFolder, id: str) -> CheckpointFile:
        try:
            return CheckpointFile(folder, id, decoded(folder.read(id + SUFFIX), id))
        except FileNotFoundError:
            return CheckpointFile(folder, id, None, "it was deleted just now")
        except CorruptionError as error:
            return CheckpointFile(folder, id, None, error.message)
