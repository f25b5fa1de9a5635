"""The wrappers do what the kernel does, and raise what it says."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.system import linux
from takeback.system.beneath import FOLDER_FLAGS, RootFolder

pytestmark = pytest.mark.skipif(
    not linux.available(), reason="not on this platform: no inotify, no renameat2"
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_a_deep_folder_is_opened_in_one_call(tmp_path: Path, folder: int) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    fd = linux.open_beneath(folder, b"a/b/c", FOLDER_FLAGS)
    assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "a/b/c"))
    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize("path", [b"link/c", b"a/link", b"a/../a", b"/", b"a/file", b"a/none", b"n" * 5000])
def test_what_leads_elsewhere_is_not_opened(tmp_path: Path, folder: int, path: bytes) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/file").touch()
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "a/link").symlink_to("b")
    fd = linux.open_beneath(folder, path, FOLDER_FLAGS)
    assert fd == -1 or (path == b"a/../a" and os.path.samestat(os.fstat(fd), os.stat(tmp_path / "a")))
    if fd >= 0:
        os.close(fd)


@pytest.mark.parametrize("old_kernel", [False, True])
def test_a_place_opens_folders_with_or_without_the_call(
    tmp_path: Path, old_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/link").symlink_to("b")
    if old_kernel:
        monkeypatch.setattr(linux, "_openat2", None)
    place = RootFolder(tmp_path)
    with place.folder(b"a/b/c") as fd:
        assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "a/b/c"))
    with pytest.raises(NotADirectoryError), place.folder(b"a/link/c"):
        pass
    with place.batch() as opened:
        above = os.open(tmp_path / "a/b", FOLDER_FLAGS)
        opened.keep(b"a/b", above)
        assert opened(b"a/b") == above
        assert os.path.samestat(os.fstat(opened(b"a/b/c")), os.stat(tmp_path / "a/b/c"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(above)
    place.close()


def rename_by_number(old_fd: int, old: bytes, new_fd: int, new: bytes, flags: int) -> None:
    """The road of a libc without the function."""
    call = linux._bind_renameat2_number()
    if call is None:
        pytest.skip("not on this platform: the number of renameat2 is not known")
    if call(old_fd, old, new_fd, new, flags) != 0:
        raise linux._error(old, new)


Rename = Callable[[int, bytes, int, bytes, int], None]
renames = pytest.mark.parametrize("rename", [linux.renameat2, rename_by_number])


@renames
def test_no_replace_leaves_what_is_there(tmp_path: Path, folder: int, rename: Rename) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with pytest.raises(FileExistsError) as caught:
        rename(folder, b"a", folder, b"b", linux.RENAME_NOREPLACE)
    assert (caught.value.filename, caught.value.filename2) == (b"a", b"b")
    assert (tmp_path / "a").read_text() == "a" and (tmp_path / "b").read_text() == "b"
    rename(folder, b"a", folder, b"c", linux.RENAME_NOREPLACE)
    assert (tmp_path / "c").read_text() == "a" and not (tmp_path / "a").exists()


@renames
def test_exchange_swaps_even_a_file_and_a_folder(tmp_path: Path, folder: int, rename: Rename) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    rename(folder, b"file", folder, b"folder", linux.RENAME_EXCHANGE)
    assert (tmp_path / "folder").read_text() == "text" and (tmp_path / "file").is_dir()
    with pytest.raises(FileNotFoundError):
        rename(folder, b"file", folder, b"missing", linux.RENAME_EXCHANGE)


@renames
def test_names_are_bytes_and_folders_are_fds(tmp_path: Path, folder: int, rename: Rename) -> None:
    (tmp_path / "below").mkdir()
    odd = b"\xff\n name"
    (tmp_path / os.fsdecode(odd)).write_text("odd")
    below = os.open(tmp_path / "below", os.O_RDONLY)
    try:
        rename(folder, odd, below, odd, 0)
    finally:
        os.close(below)
    assert os.listdir(os.fsencode(tmp_path / "below")) == [odd]


def test_syncfs(tmp_path: Path, folder: int) -> None:
    (tmp_path / "a").write_text("a")
    linux.syncfs(folder)
    with pytest.raises(OSError, match="Bad file descriptor"):
        linux.syncfs(-1)


def test_the_type_of_a_file_system() -> None:
    with open("/proc/self/status") as file:
        assert linux.fs_type(file.fileno()) == 0x9FA0  # proc
    with pytest.raises(OSError, match="Bad file descriptor"):
        linux.fs_type(-1)


def test_inotify_by_hand(tmp_path: Path) -> None:
    queue = linux.inotify_init1(linux.IN_NONBLOCK | linux.IN_CLOEXEC)
    try:
        assert not os.get_inheritable(queue)
        path = os.fsencode(tmp_path)
        watch = linux.inotify_add_watch(queue, path, 0x100)
        assert linux.inotify_add_watch(queue, path, 0x100) == watch
        (tmp_path / "new").touch()
        assert b"new\0" in os.read(queue, 1000)
        with pytest.raises(BlockingIOError):
            os.read(queue, 1000)
        linux.inotify_rm_watch(queue, watch)
        with pytest.raises(OSError, match="Invalid argument"):
            linux.inotify_rm_watch(queue, watch)
        with pytest.raises(FileNotFoundError) as missing:
            linux.inotify_add_watch(queue, path + b"/missing", 0x100)
        assert missing.value.filename == path + b"/missing"
    finally:
        os.close(queue)
    with pytest.raises(OSError, match="Invalid argument"):
        linux.inotify_init1(1)


ELSEWHERE = """
import sys
sys.platform = "sunos"
from takeback.resources.files.look import watch
from takeback.system import linux
assert not linux.available()
for call in (
    lambda: linux.renameat2(0, b"a", 0, b"b", 0),
    lambda: linux.syncfs(0),
    lambda: linux.fs_type(0),
    lambda: linux.inotify_init1(0),
    lambda: linux.inotify_add_watch(0, b"a", 0),
    lambda: linux.inotify_rm_watch(0, 0),
):
    try:
        call()
    except OSError as error:
        print(error.errno, error.strerror)
print(watch.supported(0))
print(watch.Watcher(b".").drain().lost)
"""


def test_elsewhere_it_can_be_imported_and_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, check=True)
    *calls, support, lost = done.stdout.splitlines()
    assert [line.split()[0] for line in calls] == [str(errno.ENOSYS)] * 6
    assert support == "this platform has no inotify"
    assert lost == "watching failed: inotify is not available on this platform"
