"""Which paths outside the workspace are looked at: where they really are, how many, and from which folder."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.codec import text_of
from takeback.errors import CorruptionError, FormatTooNew
from takeback.ports.foresight import Reached, Survey
from takeback.resources.files.outside.scope import OutsideScope, Picture, Scope, decode, encode
from takeback.resources.files.outside.survey import CaptureLimits, OutsideSurveyor

DEFAULT = CaptureLimits()


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    for name in ("work/sub", "state", "other/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other/a").write_text("12345")
    (tmp_path / "other/deep/b").write_text("123")
    return tmp_path


def survey(ground: Path, *named: Reached | str, limits: CaptureLimits = DEFAULT) -> Survey:
    look = OutsideSurveyor(ground / "work", ground / "state", lambda: limits)
    return look(one if isinstance(one, Reached) else Reached(str(ground / one)) for one in named)


def places(ground: Path, *named: Reached | str) -> list[str]:
    found = survey(ground, *named)
    assert found.missed == found.stated == ()
    return [str(Path(place).relative_to(ground)) for place in found.places]


def test_a_path_is_meant_where_it_really_is(ground: Path) -> None:
    os.symlink("other", ground / "link")
    os.symlink("../other/a", ground / "work/to-a")
    assert places(ground, "other/a") == ["other/a"]
    assert places(ground, "link/a") == ["other/a"]
    # The link itself may be replaced, and what is behind it may be written.
    assert places(ground, "link") == ["link", "other"]
    # Of a link in the workspace, the files look after the link.
    assert places(ground, "work/to-a") == ["other/a"]
    assert places(ground, "work/sub/x", "work") == []
    assert places(ground, Reached(str(ground / "work/x"), really=str(ground / "other/x"))) == ["other/x"]


def test_a_home_by_name_is_found(ground: Path) -> None:
    user = pwd.getpwuid(os.getuid())
    found = survey(ground, Reached(f"/~{user.pw_name}/.nothing-of-this-name"))
    assert found.places == (os.path.join(os.path.realpath(user.pw_dir), ".nothing-of-this-name"),)


def test_what_is_not_there_begins_at_its_first_missing_name(ground: Path) -> None:
    assert places(ground, "new/a/b") == ["new"]
    assert places(ground, "other/new", "other/deep/x/y") == ["other/deep/x", "other/new"]


def test_a_place_holds_what_is_named_below_it(ground: Path) -> None:
    assert places(ground, "other", "other/deep/b") == ["other"]
    assert places(ground, "other/deep/b", "other") == ["other"]


@pytest.mark.parametrize(
    "limits, why",
    [
        (CaptureLimits(files=3), "more than 3 files"),
        (CaptureLimits(bytes=7), "more than 0 MB"),
        (CaptureLimits(capture=False), "takeback.toml turns capturing outside off"),
    ],
)
def test_what_is_over_a_limit_is_left_out_as_a_whole(ground: Path, limits: CaptureLimits, why: str) -> None:
    found = survey(ground, "other", "other/a", limits=limits)
    said = (*found.missed, *found.stated)
    assert f"{ground}/other was not captured: " in said[0] and why in said[0]
    assert found.places == ((str(ground / "other/a"),) if limits.capture else ())
    assert survey(ground, "other", limits=CaptureLimits(files=0, bytes=0)).places == (str(ground / "other"),)


@pytest.mark.parametrize("path", ["/", "/proc/self", "/sys", "/dev/sda"])
def test_the_machine_is_no_place(ground: Path, path: str) -> None:
    found = survey(ground, Reached(path))
    assert found.places == () and len(found.missed) == 1


def test_neither_what_holds_the_workspace_nor_our_own_state(ground: Path) -> None:
    for name in ("", "state", "state/x"):
        found = survey(ground, str(ground / name))
        assert found.places == () and len(found.missed) == 1, name


def test_a_shared_folder_is_said_and_no_reason_to_hold_back(ground: Path) -> None:
    (ground / "shared").mkdir()
    (ground / "shared").chmod(0o1777)
    found = survey(ground, Reached(str(ground / "shared"), somewhere=True))
    assert (
        found.places == found.missed == ()
        and "it is unknown which files in it are written" in found.stated[0]
    )
    assert places(ground, "shared/x") == ["shared/x"]
    assert places(ground, "shared") == ["shared"]


def test_a_wildcard_means_what_begins_so(ground: Path) -> None:
    for name in ("shared/foo-1/deep", "shared/bar"):
        (ground / name).mkdir(parents=True)
    (ground / "shared/foo-2").write_text("x")
    os.symlink("../other/a", ground / "shared/foo-link")
    (ground / "shared").chmod(0o1777)

    def wild(names: str) -> Reached:
        return Reached(str(ground / "shared"), somewhere=True, names=names, deletes=True)

    assert places(ground, wild("foo-")) == ["other/a", "shared/foo-1", "shared/foo-2", "shared/foo-link"]
    assert places(ground, wild("nothing")) == []
    found = survey(ground, wild(""), limits=CaptureLimits(files=2))
    assert found.places == () and found.missed[0].startswith(f"{ground}/shared/* was not captured: with")


def test_a_path_that_is_only_named_is_captured_where_it_is_a_file(ground: Path) -> None:
    named = [Reached(str(ground / name), perhaps=True) for name in ("other", "other/a", "new")]
    assert places(ground, *named) == ["new", "other/a"]
    found = survey(ground, *named, limits=CaptureLimits(bytes=2))
    assert found.missed == () and len(found.stated) == 1


def test_a_file_of_the_machine_that_is_only_named_is_missed(ground: Path) -> None:
    found = survey(ground, Reached("/proc/cpuinfo", perhaps=True))
    assert found.places == ()
    assert found.missed == ("/proc/cpuinfo was not captured: it is not an ordinary folder or file",)


def test_a_file_that_cannot_be_read_is_named(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = os.fsencode(ground / "other/a")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and access(path, mode))
    found = survey(ground, "other")
    assert found.places == (str(ground / "other"),)
    assert found.missed == (f"{ground}/other/a was not captured: it cannot be read",)


def scope(folder: str, places: str = "", paths: str = "") -> Scope:
    return Scope(folder.encode(), frozenset(places.encode().split()), frozenset(paths.encode().split()))


def view(places: str = "", paths: str = "") -> OutsideScope:
    return OutsideScope(frozenset(places.encode().split()), frozenset(paths.encode().split()))


def test_a_folder_that_goes_in_this_moment_is_no_fault(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: bytes) -> os.stat_result:
        if path == os.fsencode(ground / "other"):
            raise FileNotFoundError(2, "No such file or directory")
        return os.lstat(path)

    monkeypatch.setattr("takeback.resources.files.outside.survey._stat", gone)
    found = survey(ground, "other/a")
    assert found.places == () and "other cannot be read" in found.missed[0]


def test_a_view_is_seen_from_the_folders_around() -> None:
    assert view("/a/b /a/c/d /a/b/x").scopes() == [scope("/a", "b"), scope("/a/c", "d")]
    assert view("/a").scopes() == [scope("/", "a")]
    # What is below another path is put back together with it.
    assert view("", "/a/b /a/b/c/d /e/f /e/g").scopes() == [
        scope("/a", "", "b b/c/d"),
        scope("/e", "", "f g"),
    ]
    assert view("/a/b", "/a/b/c /a/z").scopes() == [scope("/a", "b", "z")]


def test_a_scope_shows_what_is_in_it_and_what_leads_there() -> None:
    hidden = scope("/a", "b", "x/y/z").excluded({b"/a/b/db", b"/c"})
    shown = [
        name
        for name in (b"b", b"b/c/d", b"x", b"x/y", b"x/y/z", b"x/q", b"q", b"b/db", b"x/y/z/w")
        if not hidden(name)
    ]
    assert shown == [b"b", b"b/c/d", b"x", b"x/y", b"x/y/z"]


def test_a_picture_is_read_back_and_damage_is_told() -> None:
    one, none = view("/a /b", "/c"), OutsideScope()
    data = encode(one, none, {})
    assert decode(data, "x") == Picture(1, one, none, {})
    assert encode(view("/b /a", "/c"), none, {}) == data
    with pytest.raises(CorruptionError):
        decode(data[:-1], "x")
    with pytest.raises(FormatTooNew):
        decode(data[:1] + b"\x02" + data[2:], "x")


def test_a_view_covers_places_with_all_below_and_paths_by_themselves() -> None:
    here = view("/a/b", "/c/d")
    covered = [
        path
        for path in (b"/a", b"/a/b", b"/a/b/c/d", b"/a/bc", b"/c", b"/c/d", b"/c/d/e")
        if here.covers(path)
    ]
    assert list(map(text_of, covered)) == ["/a/b", "/a/b/c/d", "/c/d"]


PATHS = st.lists(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4), max_size=6)


@given(PATHS, PATHS, st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=5))
def test_every_path_in_view_is_seen_from_one_folder(
    places: list[list[bytes]], paths: list[list[bytes]], asked: list[bytes]
) -> None:
    """And what is not in view is not seen, but for folders that lead there."""
    here = OutsideScope(*(frozenset(b"/" + b"/".join(one) for one in some) for some in (places, paths)))
    path = b"/" + b"/".join(asked)
    shown = [s for s in here.scopes() if (inner := s.inner(path)) and not s.excluded(())(inner)]
    leads_there = any(other.startswith(path + b"/") for other in here.paths | here.places)
    if here.covers(path):
        assert (
            len([s for s in shown if s.inner(path) in s.paths or s.inner(path).split(b"/")[0] in s.places])
            == 1
        )
    else:
        assert not shown or leads_there
