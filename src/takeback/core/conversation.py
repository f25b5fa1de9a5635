"""The state that an agent framework keeps of a conversation, as values: snapshots, their writes, and pieces.

A piece is a value as the framework's serializer wrote it. It is found by its name, a digest of its bytes, so that a
message that does not change is stored once, however many snapshots contain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from blake3 import blake3

NAME_BYTES = 20
NODE = "@node"
"""The type of a piece that only names others: a section of a long list."""
NODE_NAMES = 32
ONE, MANY = "@one", "@many"
"""The types of a write whose value is in pieces; its body is then as in `StateValue.names`."""


class StatePiece(NamedTuple):
    """A value, as a serializer wrote it: the type that the serializer gave it, and its bytes."""

    type: str
    body: bytes


class StateValue(NamedTuple):
    """One named value of a snapshot that is stored in pieces."""

    name: str
    is_list: bool
    names: bytes
    """The name of the one piece; of a list what `folded` returns."""


class Spot(NamedTuple):
    """The position of a snapshot: its thread, the space in that thread (that of a subgraph), and its id."""

    thread: str
    space: str
    id: str


class Snapshot(NamedTuple):
    """The state of a conversation after one step. LangGraph calls it a checkpoint."""

    spot: Spot
    parent: str
    """The id of the snapshot before it, in the same space; empty if there is none."""
    run: str
    """The framework's id of the run that made it."""
    lacks: tuple[str, ...]
    """The values that are not in it, but have to be made of those before it and their writes."""
    about: StatePiece
    body: StatePiece
    values: tuple[StateValue, ...]


class Write(NamedTuple):
    """What one task of a step has written, not yet part of a snapshot."""

    task: str
    number: int
    path: str
    """The place of the task in its step; writes are in the order of path, task and number."""
    channel: str
    value: StatePiece


class Kin(NamedTuple):
    """What has to be known of a snapshot to decide whether another one needs it."""

    space: str
    id: str
    parent: str
    run: str
    lacks: tuple[str, ...]


def name_of(piece: StatePiece) -> bytes:
    """Return the name of a piece."""
    return blake3(piece.type.encode() + b"\0" + piece.body).digest(NAME_BYTES)


def folded(names: Sequence[bytes]) -> tuple[bytes, dict[bytes, StatePiece]]:
    """Return a list of names as bytes, and the nodes that it consists of, by name.

    Full sections of the list become nodes. A list that has grown has the same nodes as before, so a step costs what
    it added, and a few bytes for each node.
    """
    whole = len(names) - len(names) % NODE_NAMES
    sections = [node_of(names[start : start + NODE_NAMES]) for start in range(0, whole, NODE_NAMES)]
    nodes = [name_of(section) for section in sections]
    return row_of(nodes, names[whole:]), dict(zip(nodes, sections, strict=True))


def node_of(names: Sequence[bytes]) -> StatePiece:
    """Return the node for one full section of a list."""
    return StatePiece(NODE, b"".join(names))


def row_of(nodes: Sequence[bytes], rest: Sequence[bytes]) -> bytes:
    """Return a list as bytes: the number of its nodes, their names, and the names of the items behind them."""
    return b"".join([len(nodes).to_bytes(4, "little"), *nodes, *rest])


def split(names: bytes) -> list[bytes]:
    """Return the single names in a row of them."""
    return [names[start : start + NAME_BYTES] for start in range(0, len(names), NAME_BYTES)]


def nodes_in(value: StateValue) -> list[bytes]:
    """Return the names of the nodes of a value."""
    if not value.is_list:
        return []
    end = 4 + int.from_bytes(value.names[:4], "little") * NAME_BYTES
    return split(value.names[4:end])


def leaves_in(value: StateValue, nodes: Mapping[bytes, StatePiece]) -> list[bytes]:
    """Return the names of the pieces that a value consists of, in order. `nodes` has its nodes. Raise KeyError."""
    if not value.is_list:
        return [value.names]
    inner = nodes_in(value)
    tail = value.names[4 + len(inner) * NAME_BYTES :]
    return [*(leaf for node in inner for leaf in split(nodes[node].body)), *split(tail)]


def values_in(snapshot_values: Iterable[StateValue], writes: Iterable[Write]) -> list[StateValue]:
    """Return everything that is stored in pieces, of a snapshot and of its writes."""
    written = [
        StateValue(write.channel, write.value.type == MANY, write.value.body)
        for write in writes
        if write.value.type in (ONE, MANY)
    ]
    return [*snapshot_values, *written]


def latest(kin: Iterable[Kin]) -> list[Kin]:
    """Return the newest snapshot of each space."""
    found: dict[str, Kin] = {}
    for one in kin:
        if one.space not in found or one.id > found[one.space].id:
            found[one.space] = one
    return list(found.values())


def needed_by(wanted: Iterable[Kin], kin: Iterable[Kin]) -> set[tuple[str, str]]:
    """Return (space, id) of the wanted snapshots, and of those before them that their state is made of.

    A snapshot that lacks a value needs its parent and the parent's writes; and if that lacks the value too, the one
    before. Without them the value would silently be empty.
    """
    known = {(one.space, one.id): one for one in kin}
    kept: set[tuple[str, str]] = set()
    for one in wanted:
        kept.add((one.space, one.id))
        lacking, at = set(one.lacks), known.get((one.space, one.parent))
        while lacking and at:
            kept.add((at.space, at.id))
            lacking &= set(at.lacks)
            at = known.get((at.space, at.parent))
    return kept
