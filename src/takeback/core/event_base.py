"""What every event is: frozen, named by a tag, and read back only if nothing in it is unknown."""

from __future__ import annotations

import msgspec


class Base(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"
):
    pass
