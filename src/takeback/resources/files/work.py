"""One path on its way back."""

from __future__ import annotations

import msgspec

from takeback.core.events import Did
from takeback.resources.files.entry import FOLDER, Entry, Key


def depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0


class Work(msgspec.Struct):
    """One path to put back. `key` is that of the present version, as it was just looked at.

    `link_to` is a path that it becomes a link to; `apart` says that it must not stay a link to others.
    """

    path: bytes
    present: Entry | None
    goal: Entry | None
    key: Key | None
    staged: bytes = b""
    link_to: bytes | None = None
    apart: bool = False
    did: Did | None = None
    why: str = ""
    lacks_room: bool = False

    @property
    def in_place(self) -> bool:
        """Whether the file can stay and only its mode, attributes or times change."""
        old, new = self.present, self.goal
        return (
            old is not None
            and new is not None
            and old.kind == new.kind
            and (old.kind == FOLDER or (old.content == new.content and self.link_to is None))
            and not self.apart
        )

    @property
    def depth(self) -> int:
        return depth(self.path)

    def begin_again(self) -> None:
        self.did, self.why, self.lacks_room = None, "", False
        self.staged, self.link_to, self.apart = b"", None, False

    def fail(self, why: str, did: Did = Did.FAILED) -> None:
        self.did, self.why = did, why
