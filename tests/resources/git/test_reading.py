"""What we read of git's own files is what git says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.resources.git.format import index_file, refs

from .desk import Desk, git

NAMES = st.tuples(st.sampled_from("ht"), st.integers(0, 30)).map(
    lambda t: b"refs/%s/%d" % (t[0].encode(), t[1])
)
VALUES = st.integers(0, 16**40 - 1).map(lambda number: f"{number:040x}")


@given(st.dictionaries(NAMES, VALUES, max_size=12), st.sets(NAMES, max_size=4))
def test_packed_refs_without_some(found: dict[bytes, str], leaving: set[bytes]) -> None:
    lines = [b"# pack-refs with: peeled fully-peeled sorted \n"]
    for number, name in enumerate(sorted(found)):
        lines.append(found[name].encode() + b" " + name + b"\n")
        if number % 3 == 0:
            lines.append(b"^" + b"1" * 40 + b"\n")
    data = b"".join(lines)
    assert refs.packed(data) == found
    leaving |= set(sorted(found)[:2])
    rest = refs.without(data, leaving)
    assert refs.packed(rest) == {name: value for name, value in found.items() if name not in leaving}
    assert rest.count(b"^") == sum(
        1 for number, name in enumerate(sorted(found)) if number % 3 == 0 and name not in leaving
    )


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("fixture", ["desk", "sha256"])
def test_the_entries_of_an_index(request: pytest.FixtureRequest, fixture: str, version: str) -> None:
    desk: Desk = request.getfixturevalue(fixture)
    for name in ("d/b/c", "d/b/d", "d/c", "x" * 200, "ü", "d/zz"):
        desk.write(name, name)
    desk.git("add", ".")
    desk.write("later", "later")
    desk.git("add", "--intent-to-add", "later")
    desk.git("update-index", "--index-version", version)
    desk.git("update-index", "--skip-worktree", "d/zz")
    desk.git("update-index", "--assume-unchanged", "b")
    data = (desk.root / ".git/index").read_bytes()
    read = index_file.read(data, "sha256" if fixture == "sha256" else "sha1")
    said = [
        line.split(maxsplit=3)
        for line in desk.git("-c", "core.quotepath=off", "ls-files", "--stage").splitlines()
    ]
    assert [(f"{e.mode:06o}", e.object, e.name.decode()) for e in read.entries] == [
        (m, o, n) for m, o, _, n in said
    ]
    flags = {e.name: e.flags for e in read.entries}
    assert len({flags[b"d/zz"], flags[b"b"], flags[b"later"], flags[b"d/b/c"]}) == 4


def test_what_is_staged_has_one_name_whatever_git_remembers_of_the_disk(desk: Desk) -> None:
    index = desk.root / ".git/index"

    def named() -> str:
        return index_file.digest(index.read_bytes(), "sha1")

    first = named()
    (desk.root / "a").touch()
    desk.git("status")
    desk.git("update-index", "--index-version", "4")
    desk.git("update-index", "--refresh", "--really-refresh")
    assert named() == first
    desk.write("new", "new")
    desk.git("add", "new")
    assert named() != first
    desk.git("rm", "-q", "--cached", "new")
    assert named() == first
    for change in (["--chmod=+x", "a"], ["--assume-unchanged", "b"]):
        desk.git("update-index", *change)
        assert named() != first


def test_a_split_index_is_compared_by_its_bytes(desk: Desk) -> None:
    desk.git("update-index", "--split-index")
    data = (desk.root / ".git/index").read_bytes()
    assert index_file.digest(data, "sha1").startswith("bytes:")
    before = desk.picture()
    desk.agent("echo new > new; git add new; git commit -qm new")
    desk.undo()
    assert desk.picture() == before


@given(st.binary(max_size=200), st.integers(0, 400))
def test_bytes_that_are_no_index_are_named_by_their_bytes(noise: bytes, cut: int) -> None:
    whole = _index()
    for data in (noise, b"DIRC\x00\x00\x00\x02\x00\x00\x00\x05" + noise, whole[:cut]):
        name = index_file.digest(data, "sha1")
        assert name.startswith("bytes:") or len(name) == 64


_made: list[bytes] = []


def _index() -> bytes:
    """One index of a few files, made once."""
    if not _made:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for name in ("a", "b", "c/d"):
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(name)
            git(root, "add", ".")
            _made.append((root / ".git/index").read_bytes())
    return _made[0]


def test_a_loose_ref_is_a_name_or_leads_to_another() -> None:
    name = "1234567890" * 4
    assert refs.loose(f"{name}\n".encode()) == name
    assert refs.loose(b"ref:   refs/heads/main\n") == "ref: refs/heads/main"
    assert refs.loose(b"nonsense") is None
    assert refs.objects_in(f"0{'0' * 39} {name} Test\tcommit".encode()) == {name}
