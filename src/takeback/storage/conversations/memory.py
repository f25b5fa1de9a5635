"""Conversations in memory, for a workspace whose whole history is in memory."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from takeback.core.conversation import Kin, Snapshot, Spot, StatePiece, Write, latest, needed_by
from takeback.ports.conversations import StoredSnapshot, ThreadToken


class MemoryConversations:
    """Conversations in the dictionaries of this process."""

    def __init__(self) -> None:
        self._use = threading.RLock()
        self._snapshots: dict[str, dict[tuple[str, str], Snapshot]] = {}
        self._writes: defaultdict[Spot, dict[tuple[str, int], Write]] = defaultdict(dict)
        self._pieces: dict[str, dict[bytes, StatePiece]] = {}

    def token(self, thread: str) -> ThreadToken:
        with self._use:
            self._snapshots.setdefault(thread, {})
            self._pieces.setdefault(thread, {})
        return ThreadToken(0, 0)

    def put(self, token: ThreadToken, snapshot: Snapshot, pieces: Mapping[bytes, StatePiece]) -> bool:
        with self._use:
            spot = snapshot.spot
            self.token(spot.thread)
            self._snapshots[spot.thread][spot.space, spot.id] = snapshot
            self._pieces[spot.thread].update(pieces)
        return True

    def put_writes(
        self,
        token: ThreadToken,
        spot: Spot,
        writes: Sequence[Write],
        pieces: Mapping[bytes, StatePiece],
        *,
        replace: bool,
    ) -> bool:
        with self._use:
            self.token(spot.thread)
            known = self._writes[spot]
            for write in writes:
                if replace or (write.task, write.number) not in known:
                    known[write.task, write.number] = write
            self._pieces[spot.thread].update(pieces)
        return True

    def find(self, thread: str, space: str, id: str = "") -> StoredSnapshot | None:
        with self._use:
            known = self._snapshots.get(thread, {})
            id = id or max((one for where, one in known if where == space), default="")
            found = known.get((space, id))
            if found is None:
                return None
            written = self._writes.get(found.spot, {}).values()
            writes = sorted(written, key=lambda write: (write.path, write.task, write.number))
            return StoredSnapshot(found, tuple(writes), self._pieces[thread])

    def spots(
        self, thread: str | None = None, space: str | None = None, id: str = "", before: str = ""
    ) -> Iterator[tuple[Spot, StatePiece]]:
        with self._use:
            found = [
                snapshot
                for name, known in self._snapshots.items()
                if thread is None or name == thread
                for snapshot in known.values()
            ]
        for snapshot in sorted(found, key=lambda one: one.spot.id, reverse=True):
            spot = snapshot.spot
            if (
                (space is None or spot.space == space)
                and (not id or spot.id == id)
                and (not before or spot.id < before)
            ):
                yield spot, snapshot.about

    def delete(self, thread: str) -> None:
        with self._use:
            self._keep(thread, lambda _: ())
            self._snapshots.pop(thread, None)
            self._pieces.pop(thread, None)
            for spot in [spot for spot in self._writes if spot.thread == thread]:
                del self._writes[spot]

    def delete_runs(self, runs: Sequence[str]) -> None:
        gone = set(runs)
        for thread in self.threads():
            self._keep(thread, lambda kin: [one for one in kin if one.run not in gone])

    def keep_latest(self, thread: str) -> None:
        self._keep(thread, latest)

    def delete_after(self, thread: str, id: str) -> None:
        with self._use:
            self._keep(thread, lambda kin: [one for one in kin if one.id <= id])
            for spot in [spot for spot in self._writes if spot.thread == thread and spot.id >= id]:
                del self._writes[spot]

    def _keep(self, thread: str, wanted: Callable[[list[Kin]], Iterable[Kin]]) -> None:
        """Keep these snapshots of a thread, and what they are made of. Pieces stay until the thread is removed."""
        with self._use:
            known = self._snapshots.get(thread, {})
            kin = [Kin(one.spot.space, one.spot.id, one.parent, one.run, one.lacks) for one in known.values()]
            kept = needed_by(wanted(kin), kin)
            for key in [key for key in known if key not in kept]:
                self._writes.pop(known.pop(key).spot, None)

    def copy(self, source: str, target: str) -> None:
        with self._use:
            if source not in self._snapshots or source == target:
                return
            self.token(target)
            self._pieces[target].update(self._pieces[source])
            for key, snapshot in self._snapshots[source].items():
                spot = snapshot.spot._replace(thread=target)
                self._snapshots[target][key] = snapshot._replace(spot=spot)
            for spot in [spot for spot in self._writes if spot.thread == source]:
                self._writes[spot._replace(thread=target)] = dict(self._writes[spot])

    def threads(self) -> list[str]:
        with self._use:
            return sorted(self._snapshots)

    def quoting(self, texts: Collection[bytes]) -> list[str]:
        with self._use:
            stored = {
                thread: [
                    *(piece.body for one in known.values() for piece in (one.about, one.body)),
                    *(piece.body for piece in self._pieces.get(thread, {}).values()),
                ]
                for thread, known in self._snapshots.items()
            }
            for spot, writes in self._writes.items():
                stored.setdefault(spot.thread, []).extend(write.value.body for write in writes.values())
        return [
            thread
            for thread, bodies in stored.items()
            if any(text in body for body in bodies for text in texts)
        ]

    def close(self) -> None:
        with self._use:
            self._snapshots.clear()
            self._writes.clear()
            self._pieces.clear()
