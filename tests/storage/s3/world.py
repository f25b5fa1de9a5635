"""Machines that share a bucket: each has a folder of its own, and all have one journal."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from blake3 import blake3

from takeback.core.events import CheckpointTaken, Mark
from takeback.engine.ledger import Ledger
from takeback.ports.content import Swept
from takeback.ports.journal import Journal
from takeback.settings import environment
from takeback.storage.content.bucket import PLAIN, Bucket, Seal, SharedStore
from takeback.storage.content.bucket.local_index import LocalIndex
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.storage.state.lock import WorkspaceLock

BUCKET = "TAKEBACK_TEST_BUCKET"
"""The address of the bucket, for this process and its children."""


def bucket_for(where: Path, **more: Any) -> Bucket:
    """The folder of the bucket that is named after this one."""
    return Bucket(os.environ[BUCKET], str(where).strip("/"), environment.aws(), **more)


def journal_in(where: Path) -> Journal:
    where.mkdir(exist_ok=True)
    return SqliteJournal(where / "journal.db")


def machine(
    where: Path,
    name: str,
    journal: Journal,
    *,
    seal: Seal = PLAIN,
    bucket: Bucket | None = None,
    kind: type[SharedStore] = SharedStore,
    **more: Any,
) -> SharedStore:
    """One machine of those that share what belongs to the folder `where`."""
    state = where / name
    state.mkdir(exist_ok=True)
    return kind(
        state / "packs",
        lambda: bucket or bucket_for(where),
        LocalIndex(state / "bucket.db"),
        lambda: journal.leases,
        WorkspaceLock(state / "lock"),
        seal,
        look_again_s=0,
        **more,
    )


class Machine:
    """A machine that names content in the journal all of them share, and cleans up.

    What it names under a `kept` message is live for ever. What is under another one is live no more once it was
    named, as the oldest checkpoints are.
    """

    def __init__(self, where: Path, name: str, **more: Any) -> None:
        self.journal = journal_in(where)
        self.store = machine(where, name, self.journal, **more)
        self.ledger = Ledger(self.journal, self._share)

    def _share(self, again: bool) -> Collection[int]:
        if again:
            self.store.renew()
        return self.store.share()

    def name(self, data: bytes, *, kept: bool = True) -> None:
        """Put this content, and write a record that names it."""
        digest = self.store.put(data)
        self.store.sync()
        mark = Mark("files", digest.hex())
        self.ledger.append([CheckpointTaken("kept" if kept else "old", "", (mark,))])

    def live(self) -> set[bytes]:
        return live_in(self.journal)

    def clean_up(self) -> Swept:
        self.store.sweep(self.live(), thorough=True)
        return self.store.sweep_shared(self.live(), self.live, thorough=True)

    def close(self) -> None:
        self.store.close()
        self.journal.close()


def live_in(journal: Journal) -> set[bytes]:
    """What the journal names and keeps."""
    return {
        bytes.fromhex(mark.state)
        for record in journal.read()
        if isinstance(record.event, CheckpointTaken) and record.event.message == "kept"
        for mark in record.event.marks
    }


def verify(where: Path, **more: Any) -> None:
    """A machine that knows nothing finds all that is named and kept; and so does another one after it cleaned up."""
    one = Machine(where, f"stranger-{os.urandom(4).hex()}", **more)
    live = one.live()
    assert list(one.store.check_shared(live, deep=True)) == []
    one.clean_up()
    assert one.store.bucket.list("condemned") == {}
    one.close()
    two = Machine(where, f"stranger-{os.urandom(4).hex()}", **more)
    two.store.fetch(live)
    assert {digest for digest in live if blake3(two.store.get(digest)).digest() != digest} == set()
    assert two.store.unshared(live) == set()
    two.close()


def history(where: str) -> None:
    """Two machines live through some turns; what they promise is in the journal."""
    folder = Path(where)
    for turn in range(2):
        one, two = Machine(folder, "one"), Machine(folder, "two")
        for n in range(2):
            one.name(b"kept %d %d" % (turn, n) * 200)
            two.name(b"old %d %d" % (turn, n) * 300, kept=False)
        two.name(b"kept %d 0" % turn * 200)
        one.clean_up()
        two.store.fetch(two.live())
        one.close()
        two.close()
