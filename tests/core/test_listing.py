"""What matters comes first in a list of changes, and a folder that changed as a whole is one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.listing import (
    FOLD_MIN,
    ListedChange,
    ListPlace,
    Rank,
    lines_of,
    listed,
    listed_back,
    place_of,
    shortened,
)

FILE, OTHER, FOLDER = Version("f:644:x"), Version("f:644:y"), Version("d:755")


def path(name: str, before: Version = FILE, after: Version = ABSENT) -> Change:
    return Change(Target("files", name), before, after)


def said(*changes: Change, places: dict[str, ListPlace] | None = None, folding: bool = True) -> list[str]:
    known = {Target("files", name): place for name, place in (places or {}).items()}
    return [line.said for line in lines_of((listed(c, known) for c in changes), folding=folding)]


def test_git_then_databases_then_files_then_what_is_generated() -> None:
    changes = [
        path("made.pyc"),
        path(".env"),
        path("a.py"),
        Change(Target("sqlite", "z.db"), FILE, OTHER),
        Change(Target("git", "refs/heads/main"), FILE, OTHER),
        Change(Target("calls", "book 0123456789ab"), ABSENT, FILE),
    ]
    places = {"made.pyc": ListPlace(Rank.GENERATED), ".env": ListPlace(Rank.IGNORED)}
    assert said(*changes, places=places) == ["branch main", "z.db", "book", "a.py", ".env", "made.pyc"]


def test_a_folder_that_went_as_a_whole_is_one_line() -> None:
    files = [path(f"src/{folder}/{n}.py") for folder in "ab" for n in range(3)]
    folders = [path(name, FOLDER) for name in ("src", "src/a", "src/b")]
    assert said(*folders, *files, path("x")) == ["src: 6 files in 2 folders", "x"]
    assert said(*folders, *files, folding=False) == [str(change.target) for change in files]
    still_there = [path(name, FOLDER, FOLDER) for name in ("src", "src/a", "src/b")]
    assert said(*still_there, *files) == [str(change.target) for change in files]


def test_few_files_are_named() -> None:
    files = [path(f"src/{n}.py") for n in range(FOLD_MIN - 1)]
    assert said(path("src", FOLDER), *files) == [str(change.target) for change in files]
    assert said(path("src", FOLDER), *files, path("src/last")) == ["src: 4 files"]


def test_what_is_ignored_in_a_folder_that_went_is_named() -> None:
    files = [path(f"service/{n}.py") for n in range(9)]
    changes = [path("service", FOLDER), *files, path("service/.env")]
    places = {"service/.env": ListPlace(Rank.IGNORED)}
    assert said(*changes, places=places) == ["service: 9 files", "service/.env"]


def test_a_folder_is_named_only_if_nothing_in_it_is() -> None:
    assert said(path("a", ABSENT, FOLDER), path("a/b", ABSENT, FOLDER)) == ["a/b/"]


def test_a_generated_folder_is_folded_even_if_it_is_still_there() -> None:
    home = ListPlace(Rank.GENERATED, "node_modules")
    changes = [path(f"node_modules/{n}/index.js", FILE, OTHER) for n in range(1200)]
    places = {str(change.target): home for change in changes}
    assert said(*changes, places=places) == ["node_modules: 1,200 files in 1,200 folders"]


def test_a_folder_outside_is_named_with_its_root() -> None:
    changes = [Change(Target("outside", f"x/{n}", "r5"), FILE, ABSENT) for n in range(5)]
    folder = Change(Target("outside", "x", "r5"), FOLDER, ABSENT)
    assert said(folder, *changes) == ["r5:x: 5 files"]


def test_a_rollback_lists_what_an_agent_deleted_and_what_it_deletes_itself() -> None:
    came, went = path("x", ABSENT, FILE), path("x", FILE, ABSENT)
    lost = {
        kind: (listed_back(came, {}, kind).is_lost, listed_back(went, {}, kind).is_lost) for kind in KINDS
    }
    assert lost == {"undo": (True, False), "redo": (False, True), "restore": (True, True)}


KINDS = ("undo", "redo", "restore")

_NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)
_ITEMS = st.builds(
    ListedChange,
    st.builds(Target, st.sampled_from(["files", "git", "sqlite"]), _NAMES),
    st.sampled_from(
        [ListPlace(), ListPlace(Rank.IGNORED), ListPlace(Rank.GENERATED, "a"), ListPlace(Rank.GENERATED)]
    ),
    is_whole=st.booleans(),
    is_lost=st.booleans(),
)


@given(st.lists(_ITEMS, unique_by=lambda item: item.target), st.integers(0, 3))
def test_nothing_is_lost_or_told_twice(items: list[ListedChange], most: int) -> None:
    lines = lines_of(items)
    told = [target for line in lines for target in line.targets]
    assert sorted(told) == sorted(item.target for item in items)
    assert [line.rank for line in lines] == sorted(line.rank for line in lines)
    few, left = shortened(lines, most)
    assert left + sum(len(line.targets) for line in few) == len(told)
    lost = {i.target for i in items if i.is_lost and i.place.rank is not Rank.GENERATED}
    assert lost <= {target for line in few for target in line.targets}


def test_every_resource_has_a_place() -> None:
    for resource in ("files", "outside", "git", "sqlite", "postgres", "memory", "calls", "outbox"):
        assert place_of(Target(resource, "x")).rank in Rank
