"""The base of all events (frozen, named by a tag, refused if it has an unknown field), and the marks in them."""

from __future__ import annotations

import msgspec


class Base(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"
):
    pass


LEFT_OUT = "left out: "
"""How a mark begins to say that a framework's store is left out."""


class Mark(Base, frozen=True, tag=False):
    """The state of a resource at one moment. `state` identifies it to the resource; `evidence` is its proof."""

    resource: str
    state: str
    evidence: str = ""
    stated: tuple[str, ...] = ()
    """What the mark does not cover, as text for people: excluded, unreadable, of an unsupported kind."""

    @property
    def left_out(self) -> list[str]:
        """The stores of frameworks that it does not cover, each with what is in it."""
        return [line.removeprefix(LEFT_OUT) for line in self.stated if line.startswith(LEFT_OUT)]
