"""Settings as a human writes them into takeback.toml and accepts them, without a session of an agent around."""

from __future__ import annotations

from pathlib import Path

from takeback import config
from takeback.loosening import to_accept
from takeback.opening import accept_unopened
from takeback.storage.registry import Registry


def accept(root: Path, home: Path | None = None) -> None:
    """Accept what stands there."""
    state = Registry(home or config.state_home()).state_of(root)
    accept_unopened(state, to_accept(config.read_config(root)))


def write(root: Path, text: str, home: Path | None = None) -> None:
    """Write them, and accept them."""
    (root / config.FILE).write_text(text)
    accept(root, home)
