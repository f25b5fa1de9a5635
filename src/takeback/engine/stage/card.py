"""What a view is, as its folder says. A home of Takeback with such a card is that of a view."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from takeback.core.codec import path_of
from takeback.core.events import Mark

CARD = "stage.json"
FORMAT = 1
OVERLAY, COPY = "overlay", "copy"


class StageCard(msgspec.Struct, frozen=True):
    """What a view is."""

    format: int
    name: str
    kind: str
    """`overlay`, or `copy` where the kernel does not allow one."""
    root: str
    """The workspace that it is a view of."""
    seen_at: str
    """Where its files are for a command inside: the same path, or that of the copy."""
    home: str
    """Where Takeback's state is for a command inside."""
    made_us: int
    base: tuple[Mark, ...]
    """The workspace when the view was made, by the marks of its own journal."""
    at: str = ""
    """The moment that it shows, if that is not the one at which it was made."""
    layers: tuple[str, ...] = ()
    """The folders that are overlaid; the workspace is the first."""
    kept: str = ""
    """Where the saved git objects are, below which the view keeps its own."""
    as_root: bool = False
    network: str = "full"
    why_copy: str = ""
    command: str = ""
    """The last command that ran in it."""
    exit_code: int | None = None
    used_us: int = 0
    """When a command last ran in it."""
    bytes: int = 0
    """How much space it took then."""
    noticed_us: int = 0
    """When it was announced that the view is going to be dropped; 0 if it was not."""

    @property
    def last_us(self) -> int:
        """When it was last used."""
        return max(self.used_us, self.made_us)


def upper_of(home: Path, root: Path) -> Path | None:
    """Return the layer with all changes of this workspace, if this is the home of a view that is an overlay."""
    card = card_at(home)
    is_this = card and card.kind == OVERLAY and Path(os.fsdecode(path_of(card.root))) == root
    return home / "layers" / "0" / "upper" if is_this else None


def view_mark(home: Path) -> str:
    """Return what tells this view from its workspace and from all other views; empty if it is not a view's home."""
    card = card_at(home)
    return f"~{card.name}~{card.made_us}" if card else ""


def card_at(home: Path) -> StageCard | None:
    """Return what the view is whose home this is; None for an ordinary home."""
    if not os.path.exists(home / CARD):
        return None
    try:
        return msgspec.json.decode((home / CARD).read_bytes(), type=StageCard)
    except msgspec.DecodeError:
        return None
