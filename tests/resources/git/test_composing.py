"""What is put together from a change alone is what would be put together from everything."""

from __future__ import annotations

import random
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.core.change import Version
from takeback.resources.git import entry
from takeback.resources.git.look import composing, manifest, scan
from takeback.resources.git.look.composing import GitFileRow, Said
from takeback.resources.git.look.manifest import Targets

from .desk import Desk
from .test_marks import calm, git_of

PREFIXES = [b"", b"modules/sub/", b"worktrees/wt/"]
NAMES: list[tuple[bytes, str]] = [
    *((b"refs/heads/%d" % number, scan.REFS) for number in range(4)),
    (b"refs/stash", scan.REFS),
    (b"logs/refs/stash", scan.LOGS),
    (b"logs/refs/heads/1", scan.LOGS),
    (b"HEAD", scan.HEAD),
    (b"index", scan.INDEX),
    (b"objects", scan.PLAIN),
    (b"rebase-merge/done", scan.OPERATION),
    (b"rebase-merge/deep/er", scan.OPERATION),
    (b"sequencer/todo", scan.OPERATION),
    (b"config", scan.PLAIN),
]
places = st.tuples(st.sampled_from(PREFIXES), st.sampled_from(NAMES))


def version_of(area: str, prefix: bytes, number: int) -> Version:
    content = bytes([number]) * 32
    if number == 0:
        return entry.link(b"elsewhere")
    if area in (scan.REFS, scan.HEAD):
        return entry.ref(f"{number:040x}", prefix)
    if area == scan.LOGS:
        return entry.log(0o644, content, number, prefix)
    if area == scan.INDEX:
        return entry.index(f"{number}", 0o644, content, number, number)
    return entry.file(0o644, content, number)


class Store:
    """Blobs, and how many were put."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}

    def put(self, data: bytes) -> bytes:
        name = blake3(data).digest()
        self.blobs[name] = data
        return name

    def get(self, name: bytes) -> bytes:
        return self.blobs[name]


def as_data(targets: Targets) -> dict[str, tuple[str, str, Any]]:
    return {name: (v.id, v.stamp, v.data) for name, v in targets.items()}


def alike(targets: Targets) -> dict[str, tuple[str, str]]:
    return {name: (v.id, v.stamp) for name, v in targets.items()}


changes = st.lists(
    st.one_of(
        st.tuples(st.just("file"), places, st.integers(-1, 3)),
        st.tuples(
            st.just("packed"),
            st.sampled_from(PREFIXES),
            st.dictionaries(st.integers(0, 4), st.integers(1, 3)),
        ),
        st.tuples(st.just("objects"), st.sampled_from(PREFIXES), st.integers(-1, 2)),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(st.lists(changes, min_size=1, max_size=6))
def test_a_change_alone_gives_what_everything_gives(rounds: list[Any]) -> None:
    said, stores, store = Said({}, {}, []), dict[bytes, Version](), Store()
    targets = composing.compose(said, stores)
    last = manifest.store(targets, store.put)
    for some in rounds:
        touched = [found for change in some for found in happen(said, stores, *change)]
        changed = composing.compose_again(targets, said, stores, touched)
        assert as_data(targets) == as_data(composing.compose(said, stores))
        again = manifest.store_again(targets, changed, last, store.get, store.put)
        whole = manifest.store(targets, store.put)
        assert (again.name, again.parts) == (whole.name, whole.parts)
        last = again


def happen(
    said: Said, stores: dict[bytes, Version], what: str, where: Any, number: Any
) -> list[scan.RepositoryFile]:
    """Let something happen to a repository, and tell which files it touched."""
    if what == "packed":
        before = said.packed.pop(where, {})
        now = {where + (b"refs/heads/%d" % n if n else b"refs/stash"): v for n, v in number.items()}
        said.packed[where] = {name: version_of(scan.REFS, where, v) for name, v in now.items()}
        return [scan.RepositoryFile(name, scan.REFS, where) for name in before.keys() | now.keys()]
    if what == "objects":
        if number < 0:
            stores.pop(where, None)
        else:
            stores[where] = entry.objects(str(number), number, b"", 0)
        return [scan.RepositoryFile(where + b"objects", scan.PLAIN, where)]
    prefix, (name, area) = where
    if number < 0:
        said.rows.pop(prefix + name, None)
    else:
        said.rows[prefix + name] = GitFileRow(area, prefix, version_of(area, prefix, number))
    return [scan.RepositoryFile(prefix + name, area, prefix)]


COMMANDS = [
    "git commit -q --allow-empty -m x",
    "git branch b$RANDOM",
    "git checkout -q -B side",
    "git branch -q -D side || true",
    "echo $RANDOM > file; git stash -q || true",
    "git stash drop -q || true",
    "git pack-refs --all",
    "git tag -f t",
    "git tag -d t || true",
    "git rebase -q --onto HEAD~1 HEAD || true",
    "ln -sf /nowhere .git/refs/heads/link",
    "rm -f .git/refs/heads/link",
    "git reset -q --hard; echo $RANDOM > other; git add other; git commit -q -m y",
    "rm -f .git/logs/refs/stash",
    "git gc -q --prune=now",
]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_after_each_command_is_what_reading_everything_gives(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)
    observer = git_of(desk)._observer
    for _ in range(12):
        desk.agent(f"RANDOM={chance.randrange(1000)}; {chance.choice(COMMANDS)}")
        if chance.random() < 0.3:
            calm()
        if chance.random() < 0.3:
            desk.reopen()
            observer = git_of(desk)._observer
        git_of(desk).mark()
        targets = dict(observer.targets)
        assert observer.state == manifest.store(targets, Store().put).name
        observer.forget()
        git_of(desk).mark()
        # What is as it was keeps the words of the first time: an index that was written anew, its time then.
        assert alike(observer.targets) == alike(targets)


def test_a_part_that_is_torn_is_written_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    calm()
    desk.tb.save()
    store, get = desk.tb.parts.store, desk.tb.parts.store.get
    torn = set(git_of(desk)._observer._what_is_said().parts)

    def damaged(name: bytes) -> bytes:
        return b"junk" if name in torn else get(name)

    monkeypatch.setattr(store, "get", damaged)
    desk.git("commit", "-q", "--allow-empty", "-m", "x")
    mark = git_of(desk).mark()
    assert mark.state == f"b3:{manifest.store(git_of(desk)._observer.targets, Store().put).name.hex()}"
