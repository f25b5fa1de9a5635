"""Conversations in the tables of a database: the statements, the same for each kind of database.

An item is a piece of one thread; threads share none, so that a deleted thread leaves nothing behind.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from takeback.core.conversation import (
    NODE,
    Kin,
    Snapshot,
    Spot,
    StatePiece,
    StateValue,
    Write,
    latest,
    leaves_in,
    needed_by,
    nodes_in,
    values_in,
)
from takeback.errors import CorruptionError
from takeback.ports.conversations import StoredSnapshot, ThreadToken
from takeback.storage.conversations.shared_commit import CommitLine, Statement, Writing

T = TypeVar("T")
Row = tuple[Any, ...]
Query = Callable[[str, Sequence[object]], list[Row]]

PAGE = 400
"""How many parameters a list in a statement may have."""

_VALUES = msgspec.msgpack.Decoder(list[StateValue])
_NAMES = msgspec.msgpack.Decoder(tuple[str, ...])
_encode = msgspec.msgpack.encode

_HELD = "FROM {at}threads WHERE id = ? AND epoch = ?{lock}"
"""Where a statement gets its row from, so that it changes something only if the token of the thread holds."""
_SNAPSHOT = "space, id, parent, run, lacks, about_type, about, body_type, body, refs"
_BODIES = (("items", "body"), ("writes", "body"), ("snapshots", "about"), ("snapshots", "body"))
"""The columns that hold what the framework stored."""
_CONTENT = "parent, run, lacks, about_type, about, body_type, body, refs"

# The statements of each write, as constants: they are found again in the cache of prepared statements.
_PUT_ITEM = (
    f"INSERT INTO {{at}}items (thread, name, type, body) SELECT ?, ?, ?, ? {_HELD} ON CONFLICT DO NOTHING"
)
_PUT_SNAPSHOT = (
    f"INSERT INTO {{at}}snapshots (thread, {_SNAPSHOT}) SELECT ?, {', '.join('?' for _ in _SNAPSHOT.split(', '))} "
    f"{_HELD} ON CONFLICT (thread, space, id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CONTENT.split(", "))
)
_PUT_WRITE = (
    "INSERT INTO {at}writes (thread, space, snapshot, task, idx, path, channel, type, body) "
    f"SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? {_HELD} ON CONFLICT "
)
_KEEP_WRITE = f"{_PUT_WRITE}DO NOTHING"
_REPLACE_WRITE = (
    f"{_PUT_WRITE}(thread, space, snapshot, task, idx) DO UPDATE SET "
    "path = excluded.path, channel = excluded.channel, type = excluded.type, body = excluded.body"
)


class TableConversations(ABC):
    """A store of conversations in tables. What differs between databases is in the methods that are abstract."""

    def __init__(self, *, workspace: str = "", schema: str = "", lock: str = "") -> None:
        """`schema` is written before each table; `lock` behind a query that must keep a thread as it is."""
        self._workspace = workspace
        self._schema = schema
        self._lock = lock
        self._line = CommitLine(self._commit)
        self._holds = self._sql(f"SELECT 1 {_HELD}")
        self._put_item = self._sql(_PUT_ITEM)
        self._put_snapshot = self._sql(_PUT_SNAPSHOT)
        self._keep_write = self._sql(_KEEP_WRITE)
        self._replace_write = self._sql(_REPLACE_WRITE)

    @abstractmethod
    def _commit(self, group: Sequence[Writing]) -> None:
        """Write a group durably in one transaction, and end each. What fails raises, and nothing is written."""

    @abstractmethod
    def _ask(self, work: Callable[[Query], T]) -> T:
        """Call `work` with a query function, all in one view of the tables."""

    @abstractmethod
    def _alone(self, work: Callable[[Query], T]) -> T:
        """Call `work` in one durable transaction that writes."""

    def _sql(self, text: str) -> str:
        return text.replace("{at}", self._schema).replace("{lock}", self._lock)

    # Writing

    def token(self, thread: str) -> ThreadToken:
        def find(query: Query) -> list[Row]:
            return query(
                self._sql("SELECT id, epoch FROM {at}threads WHERE workspace = ? AND name = ?"),
                (self._workspace, thread),
            )

        def make(query: Query) -> list[Row]:
            query(
                self._sql(
                    "INSERT INTO {at}threads (workspace, name, epoch) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                ),
                (self._workspace, thread, _epoch()),
            )
            return find(query)

        rows = self._ask(find) or self._alone(make)
        return ThreadToken(*rows[0])

    def put(self, token: ThreadToken, snapshot: Snapshot, pieces: Mapping[bytes, StatePiece]) -> bool:
        spot = snapshot.spot
        row = (
            *(token.id, spot.space, spot.id, snapshot.parent, snapshot.run, _encode(snapshot.lacks)),
            *(*snapshot.about, *snapshot.body, _encode(snapshot.values)),
        )
        statements = [*self._items(token, pieces), (self._put_snapshot, (*row, *token))]
        return self._line.write([self._holding(token), *statements])

    def put_writes(
        self,
        token: ThreadToken,
        spot: Spot,
        writes: Sequence[Write],
        pieces: Mapping[bytes, StatePiece],
        *,
        replace: bool,
    ) -> bool:
        text, place = self._replace_write if replace else self._keep_write, (token.id, spot.space, spot.id)
        statements = [
            (
                text,
                (*place, write.task, write.number, write.path, write.channel, *write.value, *token),
            )
            for write in writes
        ]
        return self._line.write([self._holding(token), *self._items(token, pieces), *statements])

    def _holding(self, token: ThreadToken) -> Statement:
        """Return the statement that finds whether a token still holds, and keeps it so until the commit."""
        return self._holds, token

    def _items(self, token: ThreadToken, pieces: Mapping[bytes, StatePiece]) -> list[Statement]:
        return [(self._put_item, (token.id, name, *piece, *token)) for name, piece in pieces.items()]

    # Reading

    def find(self, thread: str, space: str, id: str = "") -> StoredSnapshot | None:
        return self._ask(lambda query: self._found(query, thread, space, id))

    def _found(self, query: Query, thread: str, space: str, id: str) -> StoredSnapshot | None:
        which = "AND s.id = ?" if id else "ORDER BY s.id DESC LIMIT 1"
        columns = ", ".join(f"s.{name}" for name in _SNAPSHOT.split(", "))
        rows = query(
            self._sql(
                f"SELECT s.thread, {columns} FROM {{at}}threads AS t JOIN {{at}}snapshots AS s ON s.thread = t.id "
                f"WHERE t.workspace = ? AND t.name = ? AND s.space = ? {which}"
            ),
            (self._workspace, thread, space, *([id] if id else [])),
        )
        if not rows:
            return None
        snapshot = _snapshot(thread, rows[0][1:])
        writes = self._writes(query, rows[0][0], space, snapshot.spot.id)
        return StoredSnapshot(
            snapshot, writes, self._pieces(query, rows[0][0], values_in(snapshot.values, writes))
        )

    def _writes(self, query: Query, thread: int, space: str, id: str) -> tuple[Write, ...]:
        rows = query(
            self._sql(
                "SELECT task, idx, path, channel, type, body FROM {at}writes "
                "WHERE thread = ? AND space = ? AND snapshot = ? ORDER BY path, task, idx"
            ),
            (thread, space, id),
        )
        return tuple(map(_write, rows))

    def _pieces(self, query: Query, thread: int, values: Collection[StateValue]) -> dict[bytes, StatePiece]:
        found = self._fetched(query, thread, {name for value in values for name in nodes_in(value)})
        leaves = {name for value in values for name in leaves_in(value, found)}
        found |= self._fetched(query, thread, leaves)
        return found

    def _fetched(self, query: Query, thread: int, names: Collection[bytes]) -> dict[bytes, StatePiece]:
        found: dict[bytes, StatePiece] = {}
        for some in _pages(names):
            rows = query(
                self._sql(
                    f"SELECT name, type, body FROM {{at}}items WHERE thread = ? AND name IN ({_marks(some)})"
                ),
                (thread, *some),
            )
            found.update((bytes(name), StatePiece(kind, bytes(body))) for name, kind, body in rows)
        if len(found) < len(names):
            raise CorruptionError(
                f"{len(names) - len(found)} pieces of a stored conversation are missing. Nothing was changed",
                hint="go back to an earlier checkpoint of this thread, or restore the store from a backup",
            )
        return found

    def spots(
        self, thread: str | None = None, space: str | None = None, id: str = "", before: str = ""
    ) -> Iterator[tuple[Spot, StatePiece]]:
        tests, given = ["t.workspace = ?"], [self._workspace]
        for test, value in (("t.name =", thread), ("s.space =", space), ("s.id =", id or None)):
            if value is not None:
                tests.append(f"{test} ?")
                given.append(value)
        last = before
        while True:
            now, more = list(tests), list(given)
            if last:
                now.append("s.id < ?")
                more.append(last)
            rows = self._page_of_spots(" AND ".join(now), more)
            yield from ((Spot(*row[:3]), StatePiece(row[3], bytes(row[4]))) for row in rows)
            if len(rows) < PAGE:
                return
            last = rows[-1][2]

    def _page_of_spots(self, test: str, given: Sequence[str]) -> list[Row]:
        """Return the next spots; all with the last id, since the next page begins below it."""
        text = self._sql(
            "SELECT t.name, s.space, s.id, s.about_type, s.about FROM {at}threads AS t "
            f"JOIN {{at}}snapshots AS s ON s.thread = t.id WHERE {test} "
        )
        order = "ORDER BY s.id DESC, t.name, s.space"

        def work(query: Query) -> list[Row]:
            rows = query(f"{text} {order} LIMIT {PAGE}", given)
            if len(rows) < PAGE:
                return rows
            whole = [row for row in rows if row[2] != rows[-1][2]]
            return whole + query(f"{text} AND s.id = ? {order}", (*given, rows[-1][2]))

        return self._ask(work)

    def threads(self) -> list[str]:
        rows = self._ask(
            lambda query: query(
                self._sql("SELECT name FROM {at}threads WHERE workspace = ? ORDER BY name"),
                (self._workspace,),
            )
        )
        return [row[0] for row in rows]

    def quoting(self, texts: Collection[bytes]) -> list[str]:
        return [thread for thread in self.threads() if texts and self._quotes(thread, texts)]

    def _quotes(self, thread: str, texts: Collection[bytes]) -> bool:
        def work(query: Query) -> bool:
            for table, column in _BODIES:
                bodies = query(
                    self._sql(
                        f"SELECT b.{column} FROM {{at}}threads AS t JOIN {{at}}{table} AS b ON b.thread = t.id "
                        "WHERE t.workspace = ? AND t.name = ?"
                    ),
                    (self._workspace, thread),
                )
                if any(text in body for (body,) in bodies for text in texts):
                    return True
            return False

        return self._ask(work)

    # Removing

    def delete(self, thread: str) -> None:
        def work(query: Query) -> None:
            number = self._locked(query, thread)
            if number is not None:
                self._clear(query, number)

        self._alone(work)

    def _clear(self, query: Query, number: int) -> None:
        for table in ("items", "writes", "snapshots"):
            query(self._sql(f"DELETE FROM {{at}}{table} WHERE thread = ?"), (number,))
        query(self._sql("DELETE FROM {at}threads WHERE id = ?"), (number,))

    def _locked(self, query: Query, thread: str) -> int | None:
        """Return the number of a thread, or None if there is none. Its tokens are outdated from now on."""
        rows = query(
            self._sql("UPDATE {at}threads SET epoch = ? WHERE workspace = ? AND name = ? RETURNING id"),
            (_epoch(), self._workspace, thread),
        )
        return rows[0][0] if rows else None

    def delete_runs(self, runs: Sequence[str]) -> None:
        def affected(query: Query) -> set[str]:
            found: set[str] = set()
            for some in _pages(runs):
                text = (
                    "SELECT DISTINCT t.name FROM {at}threads AS t JOIN {at}snapshots AS s ON s.thread = t.id "
                    f"WHERE t.workspace = ? AND s.run IN ({_marks(some)})"
                )
                found |= {row[0] for row in query(self._sql(text), (self._workspace, *some))}
            return found

        gone = set(runs)
        for thread in sorted(self._ask(affected)):
            self._keep(thread, lambda kin: [one for one in kin if one.run not in gone])

    def keep_latest(self, thread: str) -> None:
        self._keep(thread, latest)

    def delete_after(self, thread: str, id: str) -> None:
        self._keep(thread, lambda kin: [one for one in kin if one.id <= id], writes_before=id)

    def _keep(
        self, thread: str, wanted: Callable[[list[Kin]], Iterable[Kin]], *, writes_before: str = ""
    ) -> None:
        """Keep these snapshots of a thread, and what they are made of."""

        def work(query: Query) -> None:
            number = self._locked(query, thread)
            if number is None:
                return
            rows = query(
                self._sql("SELECT space, id, parent, run, lacks FROM {at}snapshots WHERE thread = ?"),
                (number,),
            )
            kin = [
                Kin(space, id, parent, run, _NAMES.decode(lacks)) for space, id, parent, run, lacks in rows
            ]
            kept = needed_by(wanted(kin), kin)
            for one in kin:
                if (one.space, one.id) not in kept:
                    spot = (number, one.space, one.id)
                    query(
                        self._sql("DELETE FROM {at}snapshots WHERE thread = ? AND space = ? AND id = ?"),
                        spot,
                    )
                    query(
                        self._sql("DELETE FROM {at}writes WHERE thread = ? AND space = ? AND snapshot = ?"),
                        spot,
                    )
            if writes_before:
                query(
                    self._sql("DELETE FROM {at}writes WHERE thread = ? AND snapshot >= ?"),
                    (number, writes_before),
                )
            self._sweep(query, number)

        self._alone(work)

    def _sweep(self, query: Query, number: int) -> None:
        """Remove the pieces that no snapshot and no write of a thread names any more."""
        refs = query(self._sql("SELECT refs FROM {at}snapshots WHERE thread = ?"), (number,))
        rows = query(
            self._sql(
                "SELECT task, idx, path, channel, type, body FROM {at}writes "
                "WHERE thread = ? AND type IN ('@one', '@many')"
            ),
            (number,),
        )
        values = values_in((value for row in refs for value in _VALUES.decode(row[0])), map(_write, rows))
        inner = query(
            self._sql("SELECT name, type, body FROM {at}items WHERE thread = ? AND type = ?"), (number, NODE)
        )
        nodes = {bytes(name): StatePiece(kind, bytes(body)) for name, kind, body in inner}
        live = {name for value in values for name in (*nodes_in(value), *leaves_in(value, nodes))}
        names = query(self._sql("SELECT name FROM {at}items WHERE thread = ?"), (number,))
        for some in _pages({bytes(row[0]) for row in names} - live):
            query(
                self._sql(f"DELETE FROM {{at}}items WHERE thread = ? AND name IN ({_marks(some)})"),
                (number, *some),
            )

    def copy(self, source: str, target: str) -> None:
        if source == target:
            return
        there = self.token(target)

        def work(query: Query) -> None:
            number = self._locked(query, source)
            if number is None:
                return
            self._locked(query, target)
            columns = {
                "items": "name, type, body",
                "snapshots": _SNAPSHOT,
                "writes": "space, snapshot, task, idx, path, channel, type, body",
            }
            for table, key in (("writes", "snapshot"), ("snapshots", "id")):
                query(
                    self._sql(
                        f"DELETE FROM {{at}}{table} WHERE thread = ? AND (space, {key}) IN "
                        "(SELECT space, id FROM {at}snapshots WHERE thread = ?)"
                    ),
                    (there.id, number),
                )
            for table, names in columns.items():
                query(
                    self._sql(
                        f"INSERT INTO {{at}}{table} (thread, {names}) SELECT ?, {names} FROM {{at}}{table} "
                        "WHERE thread = ? ON CONFLICT DO NOTHING"
                    ),
                    (there.id, number),
                )
            self._sweep(query, there.id)

        self._alone(work)


def _snapshot(thread: str, row: Row) -> Snapshot:
    space, id, parent, run, lacks, about_type, about, body_type, body, refs = row
    return Snapshot(
        Spot(thread, space, id),
        parent,
        run,
        _NAMES.decode(lacks),
        StatePiece(about_type, bytes(about)),
        StatePiece(body_type, bytes(body)),
        tuple(_VALUES.decode(refs)),
    )


def _write(row: Row) -> Write:
    task, number, path, channel, kind, body = row
    return Write(task, number, path, channel, StatePiece(kind, bytes(body)))


def _epoch() -> int:
    """Return a number that no earlier token has."""
    return secrets.randbits(62)


def _pages(given: Iterable[T]) -> Iterator[list[T]]:
    whole = list(given)
    for start in range(0, len(whole), PAGE):
        yield whole[start : start + PAGE]


def _marks(some: Sequence[object]) -> str:
    return ", ".join("?" * len(some))
