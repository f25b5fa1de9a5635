"""What waits for a human, and telling them: once for each thing, with the reason and the command that answers it."""

from pathlib import Path

TOLD = "told.json"


def folder_of(state: Path) -> Path:
    """Return the folder of the monitor and the notices of a workspace with this state folder."""
    return state.parent.parent / "monitor" / state.name
