"""Turning the values of a checkpoint into pieces, of which only new ones are serialised and stored.

A list, such as that of the messages, is stored item by item. A message is serialised once: a message with the same
content is recognised by that content, and not by its identity, so a message that was changed in place is stored anew.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from blake3 import blake3
from langgraph.checkpoint.serde.base import SerializerProtocol

from takeback.core.conversation import (
    MANY,
    NODE_NAMES,
    ONE,
    StatePiece,
    StateValue,
    leaves_in,
    name_of,
    node_of,
    row_of,
)
from takeback.ports.conversations import StoredSnapshot, ThreadToken

SCALARS = (type(None), bool, int, float, str)
TEXT_MAX = 256
"""A longer text is stored as a piece, since it may well be the same in the next checkpoint."""
INLINE_MAX = 2048
"""Shorter messages are part of their write: a piece of its own would cost more than it saves."""
PIECES_MAX = 50_000
PARENTS_MAX = 32
MARSHAL_FORMAT = 2
"""The newest format of marshal whose bytes depend on the content alone, not on which objects are shared."""

_titles: dict[type, str] = {}


class Known(NamedTuple):
    """The values of a snapshot that was stored or read, to be used again where a channel has not changed."""

    versions: Mapping[str, Any]
    values: Mapping[str, StateValue]


class ThreadCache:
    """What is known to be stored of one thread, while its token holds."""

    def __init__(self, token: ThreadToken) -> None:
        self.token = token
        self.stored: set[bytes] = set()
        self.known: dict[bytes, bytes] = {}
        """The name of each message, and of each section of a list, by its fingerprint."""
        self.parents: OrderedDict[tuple[str, str], Known] = OrderedDict()

    def note(self, packing: Packing) -> None:
        """Remember what has been stored."""
        if len(self.stored) > PIECES_MAX:
            self.stored.clear()
            self.known.clear()
        self.stored.update(packing.pieces)

    def note_parent(self, space: str, id: str, known: Known) -> None:
        self.parents[space, id] = known
        if len(self.parents) > PARENTS_MAX:
            self.parents.popitem(last=False)


class Packing:
    """The pieces of one write."""

    def __init__(self, serde: SerializerProtocol, cache: ThreadCache) -> None:
        self._serde = serde
        self._cache = cache
        self.pieces: dict[bytes, StatePiece] = {}
        """The pieces that have to be stored."""

    def checkpoint_values(
        self,
        values: Mapping[str, Any],
        versions: Mapping[str, Any],
        changed: Mapping[str, Any],
        parent: Known | None,
    ) -> tuple[dict[str, Any], dict[str, StateValue]]:
        """Return the values that are part of the checkpoint's own text, and those in pieces."""
        inline: dict[str, Any] = {}
        apart: dict[str, StateValue] = {}
        for name, value in values.items():
            kind = type(value)
            if kind in SCALARS and not (kind is str and len(value) > TEXT_MAX):
                inline[name] = value
            elif parent and name not in changed and _is_unchanged(name, versions, parent):
                apart[name] = parent.values[name]
            elif kind is list and any(type(item) not in SCALARS for item in value):
                apart[name] = StateValue(name, True, self._list(value))
            else:
                apart[name] = StateValue(name, False, self._one(value))
        return inline, apart

    def written(self, value: Any) -> StatePiece:
        """Return the value of a write. Big messages become pieces of their own: the next checkpoint has them, too."""
        if type(value) is list and sum(map(_length, value)) > INLINE_MAX and all(map(_is_a_message, value)):
            return StatePiece(MANY, self._list(value))
        if _length(value) > INLINE_MAX:
            return StatePiece(ONE, self._one(value))
        return StatePiece(*self._serde.dumps_typed(value))

    def _list(self, values: Sequence[Any]) -> bytes:
        """Return the names of the items, in sections. A section that is known as a whole costs next to nothing."""
        cache, nodes = self._cache, []
        whole = len(values) - len(values) % NODE_NAMES
        for start in range(0, whole, NODE_NAMES):
            section = values[start : start + NODE_NAMES]
            fingerprint = _fingerprint(section)
            node = cache.known.get(fingerprint) if fingerprint else None
            if node is None or node not in cache.stored:
                piece = node_of([self._one(value) for value in section])
                node = name_of(piece)
                self._store(node, piece)
                if fingerprint:
                    cache.known[fingerprint] = node
            nodes.append(node)
        return row_of(nodes, [self._one(value) for value in values[whole:]])

    def _one(self, value: Any) -> bytes:
        cache = self._cache
        fingerprint = _fingerprint([value])
        name = cache.known.get(fingerprint) if fingerprint else None
        if name is None or name not in cache.stored:
            piece = StatePiece(*self._serde.dumps_typed(value))
            name = name_of(piece)
            self._store(name, piece)
            if fingerprint:
                cache.known[fingerprint] = name
        return name

    def _store(self, name: bytes, piece: StatePiece) -> None:
        if name not in self._cache.stored:
            self.pieces[name] = piece


def unpacked(serde: SerializerProtocol, found: StoredSnapshot, value: StateValue) -> Any:
    """Return a value that is stored in pieces."""
    loaded = [serde.loads_typed(found.pieces[name]) for name in leaves_in(value, found.pieces)]
    return loaded if value.is_list else loaded[0]


def written(serde: SerializerProtocol, found: StoredSnapshot, piece: StatePiece) -> Any:
    """Return the value of a write."""
    if piece.type in (ONE, MANY):
        return unpacked(serde, found, StateValue("", piece.type == MANY, piece.body))
    return serde.loads_typed(piece)


def _is_unchanged(name: str, versions: Mapping[str, Any], parent: Known) -> bool:
    version = versions.get(name)
    return version is not None and name in parent.values and parent.versions.get(name) == version


def _length(value: Any) -> int:
    """Return the length of the text of a message, without serialising it; 0 for other values."""
    content = value.content if _is_a_message(value) else ""
    return len(content) if type(content) is str else len(str(content))


def _is_a_message(value: Any) -> bool:
    return _title(type(value)) != ""


def _title(kind: type) -> str:
    """Return the whole name of a class of messages; empty if it is another class."""
    title = _titles.get(kind)
    if title is None:
        is_one = kind.__module__.startswith("langchain_core.messages.") and hasattr(kind, "model_fields")
        title = _titles[kind] = f"{kind.__module__}.{kind.__qualname__}" if is_one else ""
    return title


def _fingerprint(values: Sequence[Any]) -> bytes | None:
    """Return a digest of the whole content of messages, or None if they contain other than plain values.

    Some ten times as fast as the serializer. An artifact may be anything, also what marshal writes as mere bytes.
    """
    rows = []
    for value in values:
        title = _titles.get(type(value)) or _title(type(value))
        if not title:
            return None
        fields = value.__dict__
        if "artifact" in fields and type(fields["artifact"]) not in (type(None), str):
            return None
        rows.append((title, fields, value.__pydantic_extra__))
    try:
        return blake3(marshal.dumps(rows, MARSHAL_FORMAT)).digest(20)
    except ValueError:
        return None
