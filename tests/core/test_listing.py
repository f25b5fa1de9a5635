"""What matters comes first in a list of changes, and a folder that changed as a whole is one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.listing import (
    FOLD_MIN,
    ListedChange,
    ListLine,
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


def test_what_came_or_went_is_whole_and_what_went_is_lost() -> None:
    changes = [path("x", ABSENT, FILE), path("x", FILE, ABSENT), path("x", FILE, OTHER)]
    assert not listed(path("x", ABSENT, ABSENT), {}).is_lost, "it was not there"
    assert [(one.is_whole, one.is_lost) for one in (listed(change, {}) for change in changes)] == [
        (True, False),
        (True, True),
        (False, False),
    ]
    for kind in KINDS:
        back = [listed_back(change, {}, kind) for change in changes]
        assert [one.is_whole for one in back] == [True, True, False]
        assert not back[-1].is_lost, "another version is not a loss"


def test_without_folding_the_order_is_the_same() -> None:
    changes = [path("b"), path("a"), Change(Target("git", "HEAD"), FILE, OTHER)]
    assert said(*changes, folding=False) == said(*changes) == ["HEAD", "a", "b"]


def test_only_a_folder_on_disk_is_one() -> None:
    assert said(Change(Target("git", "x"), FOLDER, ABSENT)) == ["x"]
    database = Change(Target("sqlite", "a"), ABSENT, FILE)  # where files in a folder of this name were
    files = [path(f"a/{n}") for n in range(FOLD_MIN)]
    assert said(database, *files) == ["a", "a/0", "a/1", "a/2", "a/3"]


def test_a_database_is_in_its_folder_and_a_branch_is_in_none() -> None:
    assert said(path("data", ABSENT, FOLDER), Change(Target("sqlite", "data/x.db"), ABSENT, FILE)) == [
        "data/x.db"
    ]
    branch = Change(Target("git", "refs/heads/main"), ABSENT, FILE)
    assert said(path("refs", ABSENT, FOLDER), branch) == ["branch main", "refs/"]


def test_a_folder_is_not_named_for_something_deep_in_it() -> None:
    other_mode = Version("d:700")
    assert said(path("a", FOLDER, other_mode), path("a/b/c", FILE, OTHER)) == ["a/b/c"]


def test_databases_and_what_is_ignored_are_named_however_many_there_are() -> None:
    names = [f"data/{n}" for n in range(FOLD_MIN)]
    databases = [Change(Target("sqlite", name), FILE, ABSENT) for name in names]
    assert said(path("data", FOLDER), *databases) == names
    ignored = {name: ListPlace(Rank.IGNORED) for name in names}
    assert said(path("data", FOLDER), *(path(name) for name in names), places=ignored) == names


def test_a_folder_that_is_folded_counts_its_files_and_has_them_in_order() -> None:
    files = [path(f"src/{n}.py") for n in reversed(range(FOLD_MIN))]
    empty = [path("src", FOLDER), path("src/empty", FOLDER)]
    (line,) = lines_of(listed(change, {}) for change in [*empty, *files])
    assert line.said == "src: 4 files" and line.is_lost
    assert [target.name for target in line.targets] == ["src/0.py", "src/1.py", "src/2.py", "src/3.py"]
    assert said(*empty, *files[1:]) == ["src/0.py", "src/1.py", "src/2.py", "src/empty/"], "too few"


def test_a_folder_in_which_one_file_was_deleted_is_about_a_loss() -> None:
    place = ListPlace(Rank.GENERATED, "build")
    after = [FILE, FILE, FILE, ABSENT]
    changes = [path(f"build/{n}", OTHER, now) for n, now in enumerate(after)]
    (line,) = lines_of(listed(change, {change.target: place}) for change in changes)
    assert line.is_lost and line.said == "build: 4 files"


def test_of_each_rank_some_lines_are_shown_and_every_deletion() -> None:
    def line(rank: Rank, n: int, *, lost: bool, size: int = 1) -> ListLine:
        return ListLine(rank, str(n), (Target("files", str(n)),) * size, is_lost=lost)

    files = [line(Rank.FILE, n, lost=n in (0, 5)) for n in range(7)]
    made = [line(Rank.GENERATED, n, lost=True, size=10) for n in range(4)]
    assert shortened([*files, *made], 2) == ([files[0], files[1], files[2], files[5], *made[:2]], 23)
    assert shortened(files, 0) == ([files[0], files[5]], 5)
    many = [line(Rank.FILE, n, lost=False) for n in range(10)]
    assert shortened(many) == (many[:8], 2), "unless somebody wants more"


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


def test_each_rank_comes_after_the_one_before() -> None:
    assert [rank.value for rank in Rank] == list(range(7))


def test_nothing_is_whole_or_lost_unless_it_is_said() -> None:
    item = ListedChange(Target("files", "a"), ListPlace())
    assert not (item.is_folder or item.is_whole or item.is_lost)
    assert not ListLine(Rank.FILE, "a", (item.target,)).is_lost


def test_every_resource_has_a_place() -> None:
    for resource in ("files", "outside", "git", "sqlite", "postgres", "memory", "calls", "outbox"):
        assert place_of(Target(resource, "x")).rank in Rank
