"""What every event is: frozen, named by a tag, and read back only if nothing in it is unknown. And what many have."""

from __future__ import annotations

import msgspec


class Base(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"
):
    pass


class Mark(Base, frozen=True, tag=False):
    """Where a resource stood at one moment. `state` leads the resource to it; `evidence` says what proved it."""

    resource: str
    state: str
    evidence: str = ""
    stated: tuple[str, ...] = ()
    """What the mark does not cover, in words: excluded, unreadable, of an unsupported kind."""
