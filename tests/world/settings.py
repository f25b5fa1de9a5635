"""Settings as a human writes them into takeback.toml and accepts them, without a session of an agent around."""

from __future__ import annotations

from pathlib import Path

from takeback.settings import environment, toml
from takeback.settings.loosening import to_accept
from takeback.storage.state.registry import Registry
from takeback.workspace.opening import accept_unopened


def accept(root: Path, home: Path | None = None) -> None:
    """Accept what stands there."""
    state = Registry(home or environment.state_home()).state_of(root)
    accept_unopened(state, to_accept(toml.read_config(root)))


def write(root: Path, text: str, home: Path | None = None) -> None:
    """Write them, and accept them."""
    (root / toml.FILE).write_text(text)
    accept(root, home)
