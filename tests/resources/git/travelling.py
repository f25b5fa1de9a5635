"""A repository on its way between machines, through a bucket in a folder; also in a process that is killed."""

from __future__ import annotations

from pathlib import Path

from takeback.core.events import Mark
from takeback.ports.progress import silent
from takeback.ports.resource import Swapped
from takeback.resources.git.resource import Git
from takeback.storage.content.bucket import Bucket
from takeback.storage.content.bucket.encryption import PLAIN
from takeback.storage.content.bucket.shelf import BucketShelf
from takeback.storage.content.packs import PackStore
from takeback.storage.content.stored_contents import StoredContents
from takeback.workspace.opening import open_workspace


def shelf_at(bucket: Path) -> BucketShelf:
    bucket.mkdir(exist_ok=True)
    opened = Bucket(f"file://{bucket}", "shop", {})
    return BucketShelf(lambda: opened, PLAIN)


def repository(root: Path, state: Path, store: PackStore, bucket: Path) -> Git:
    """The repository of a folder. What is no object is in the content store, which all machines read."""
    return Git(
        root,
        state,
        store,
        StoredContents(store),
        generation=lambda: 0,
        keep_days=0,
        progress=silent,
        shelf=shelf_at(bucket),
    )


def sent(root: Path, home: Path, bucket: Path) -> Mark:
    """Look at the repository here, so that everything of it is in the bucket."""
    with open_workspace(root, home=home, watching=False) as tb:
        store = tb.parts.store
        assert isinstance(store, PackStore)
        found = repository(root, tb.state, store, bucket).mark()
        store.sync()
        return found


def brought(mark: Mark, there: Path, packs: Path, bucket: Path) -> list[Swapped]:
    """Another machine, that has only the content store and the bucket."""
    state = there.with_name(f"{there.name}-state")
    for folder in (there, state):
        folder.mkdir(exist_ok=True)
    store = PackStore(packs)
    done = list(repository(there, state, store, bucket).bring(mark))
    store.close()
    return done


# For a process that is killed: texts in, and nothing out.


def send(root: str, home: str, bucket: str) -> None:
    sent(Path(root), Path(home), Path(bucket))


def bring(state: str, there: str, packs: str, bucket: str) -> None:
    brought(Mark("git", state), Path(there), Path(packs), Path(bucket))
