"""Whatever happens to a real tree is in the next drain, or the watcher says that it is lost."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.resources.files.entry import join
from takeback.resources.files.look import watch
from takeback.resources.files.look.watch import Watcher
from takeback.system import linux

pytestmark = pytest.mark.skipif(not linux.available(), reason="not on this platform: no inotify")

Dirty = dict[bytes, set[bytes]]


class Tree:
    """A folder under watch, and the part of the contract that is the caller's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.watcher = Watcher(os.fsencode(root))
        self.seen: set[bytes] = set()
        self.walk(b"")

    def path(self, name: bytes | str) -> bytes:
        return join(os.fsencode(self.root), os.fsencode(name)) if name else os.fsencode(self.root)

    def walk(self, folder: bytes) -> None:
        """Watch first, then list."""
        try:
            fd = os.open(self.path(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            assert self.watcher.watch(folder, fd), self.watcher.lost
            names = os.listdir(fd)
        finally:
            os.close(fd)
        for name in names:
            path = join(folder, os.fsencode(name))
            self.seen.add(path)
            if os.path.isdir(self.path(path)) and not os.path.islink(self.path(path)):
                self.walk(path)

    def dirty(self) -> Dirty:
        drained = self.watcher.drain()
        assert not drained.lost
        return drained.dirty

    def follow(self) -> Dirty:
        """Drain, and walk the folders that are new."""
        dirty = self.dirty()
        for folder, names in dirty.items():
            for name in names:
                path = join(folder, name) if name else folder
                self.seen.add(path)
                if path not in self.watcher:
                    self.walk(path)
        return dirty

    def lost(self) -> str:
        drained = self.watcher.drain()
        assert not drained.dirty
        return drained.lost


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    root = tmp_path / "root"
    (root / "sub/deep").mkdir(parents=True)
    (root / "file").write_text("content")
    (root / "sub/other").write_text("content")
    (root / "sub/link").symlink_to("nowhere")
    (tmp_path / "outside").write_text("content")
    tree = Tree(root)
    yield tree
    tree.watcher.close()


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("more")


def write_through_a_mapping(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"X"


def set_attribute(path: Path) -> None:
    try:
        os.setxattr(path, "user.takeback", b"1")
    except OSError as error:
        pytest.skip(f"not on this platform: no attributes here ({error.strerror})")


def replace(path: Path) -> None:
    new = path.with_name("new")
    new.write_text("replaced")
    new.replace(path)


CASES: dict[str, tuple[Callable[[Path], object], Dirty]] = {
    "nothing": (lambda r: r.joinpath("file").read_text(), {}),
    "create": (lambda r: r.joinpath("sub/new").touch(), {b"sub": {b"new"}}),
    "write": (lambda r: r.joinpath("file").write_text("more"), {b"": {b"file"}}),
    "append": (lambda r: append(r / "file"), {b"": {b"file"}}),
    "truncate": (lambda r: os.truncate(r / "sub/other", 1), {b"sub": {b"other"}}),
    "grow": (lambda r: os.truncate(r / "file", 1 << 20), {b"": {b"file"}}),
    "mapping": (lambda r: write_through_a_mapping(r / "file"), {b"": {b"file"}}),
    "delete": (lambda r: r.joinpath("file").unlink(), {b"": {b"file"}}),
    "rename": (lambda r: r.joinpath("file").rename(r / "sub/moved"), {b"": {b"file"}, b"sub": {b"moved"}}),
    "replace": (lambda r: replace(r / "file"), {b"": {b"file", b"new"}}),
    "rename in": (lambda r: r.parent.joinpath("outside").rename(r / "x"), {b"": {b"x"}}),
    "rename out": (lambda r: r.joinpath("file").rename(r.parent / "out"), {b"": {b"file"}}),
    "chmod": (lambda r: r.joinpath("file").chmod(0o600), {b"": {b"file"}}),
    "chown": (lambda r: os.chown(r / "file", os.getuid(), os.getgid()), {b"": {b"file"}}),
    "utimes": (lambda r: os.utime(r / "file", (1, 2)), {b"": {b"file"}}),
    "xattr": (lambda r: set_attribute(r / "file"), {b"": {b"file"}}),
    "hard link": (lambda r: os.link(r / "file", r / "sub/hard"), {b"sub": {b"hard"}}),
    "symlink": (lambda r: os.symlink("nowhere", r / "link"), {b"": {b"link"}}),
    "symlink's times": (
        lambda r: os.utime(r / "sub/link", (1, 2), follow_symlinks=False),
        {b"sub": {b"link"}},
    ),
    "fifo": (lambda r: os.mkfifo(r / "fifo"), {b"": {b"fifo"}}),
    "mkdir": (lambda r: r.joinpath("sub/new").mkdir(), {b"sub": {b"new"}}),
    "rmdir": (lambda r: r.joinpath("sub/deep").rmdir(), {b"sub": {b"deep"}}),
    "a folder's mode": (lambda r: r.joinpath("sub").chmod(0o700), {b"": {b"sub"}, b"sub": {b""}}),
    "the root's mode": (lambda r: r.chmod(0o700), {b"": {b""}}),
    "odd bytes": (lambda r: os.mkdir(os.fsencode(r) + b"/\xff\n "), {b"": {b"\xff\n "}}),
    "a long name": (lambda r: r.joinpath("n" * 255).touch(), {b"": {b"n" * 255}}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_change_is_told_once(tree: Tree, case: str) -> None:
    act, expected = CASES[case]
    act(tree.root)
    assert tree.dirty() == expected
    assert tree.dirty() == {}


def test_a_file_that_stays_open_is_told_each_time(tree: Tree) -> None:
    with tree.root.joinpath("file").open("ab", buffering=0) as file:
        for _ in range(3):
            file.write(b"line\n")
            assert tree.dirty() == {b"": {b"file"}}


def test_a_mapping_is_told_when_it_is_closed(tree: Tree) -> None:
    file = tree.root.joinpath("file").open("r+b")
    memory = mmap.mmap(file.fileno(), 0)
    file.close()
    tree.dirty()
    memory[0:1] = b"X"
    assert tree.dirty() == {}  # missed by nature, for as long as it is open
    memory.close()
    assert tree.dirty() == {b"": {b"file"}}


# Folders that come and go


def test_a_new_folder_is_watched_and_then_listed(tree: Tree) -> None:
    os.makedirs(tree.path("a/b/c"))
    tree.root.joinpath("a/early").touch()  # before anybody watches a
    assert tree.follow() == {b"": {b"a"}}
    assert {b"a", b"a/early", b"a/b", b"a/b/c"} <= tree.seen
    tree.root.joinpath("a/b/c/late").touch()
    assert tree.follow() == {b"a/b/c": {b"late"}}


def test_mkdir_p_by_others_is_seen_whatever_the_moment(tree: Tree) -> None:
    writer = """
        import os, sys
        for number in range(150):
            path = os.path.join(sys.argv[1], f"n{number % 7}", f"m{number}", "leaf")
            os.makedirs(path)
            open(os.path.join(path, "file"), "w").close()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(writer), tree.root])
    while process.poll() is None:
        tree.follow()
    while tree.follow():
        pass
    assert process.returncode == 0
    expected = {b"n%d/m%d/leaf/file" % (number % 7, number) for number in range(150)}
    assert expected <= tree.seen


def test_a_removed_folder_is_forgotten_with_all_below_it(tree: Tree) -> None:
    tree.root.joinpath("sub/other").touch()
    shutil.rmtree(tree.path("sub"))
    assert tree.dirty() == {b"": {b"sub"}}
    assert b"sub" not in tree.watcher and b"sub/deep" not in tree.watcher and b"" in tree.watcher
    assert tree.dirty() == {}


def test_a_removed_folder_that_somebody_has_open_is_forgotten_too(tree: Tree) -> None:
    fd = os.open(tree.path("sub/deep"), os.O_RDONLY)
    tree.root.joinpath("sub/deep").rmdir()
    assert tree.dirty() == {b"sub": {b"deep"}} and b"sub/deep" not in tree.watcher
    os.close(fd)
    assert tree.dirty() == {}


def test_removed_and_made_again(tree: Tree) -> None:
    tree.root.joinpath("sub/deep").rmdir()
    os.makedirs(tree.path("sub/deep/inner"))
    assert tree.follow() == {b"sub": {b"deep"}}
    tree.root.joinpath("sub/deep/inner/file").touch()
    assert tree.dirty() == {b"sub/deep/inner": {b"file"}}


def test_a_folder_that_moves_out_is_watched_no_more(tree: Tree) -> None:
    tree.root.joinpath("sub").rename(tree.root.parent / "out")
    assert tree.dirty() == {b"": {b"sub"}}
    (tree.root.parent / "out/deep/file").touch()
    assert tree.dirty() == {}
    info = Path(f"/proc/self/fdinfo/{tree.watcher._queue}").read_text()
    assert info.count("inotify wd:") == 1, "what is out of sight does not count against the limit"


def test_a_folder_that_moves_in_is_walked(tree: Tree) -> None:
    os.makedirs(tree.root.parent / "in/below")
    (tree.root.parent / "in/below/file").touch()
    (tree.root.parent / "in").rename(tree.root / "in")
    assert tree.follow() == {b"": {b"in"}} and b"in/below/file" in tree.seen
    tree.root.joinpath("in/below/file").write_text("x")
    assert tree.dirty() == {b"in/below": {b"file"}}


def test_a_folder_that_moves_inside_has_its_new_path(tree: Tree) -> None:
    tree.root.joinpath("sub/other").write_text("before the move")
    tree.root.joinpath("sub").rename(tree.root / "bus")
    tree.root.joinpath("bus/deep/early").touch()
    assert tree.follow() == {b"": {b"sub", b"bus"}} and b"bus/deep/early" in tree.seen
    assert b"sub" not in tree.watcher and b"sub/deep" not in tree.watcher
    tree.root.joinpath("bus/deep/late").touch()
    assert tree.dirty() == {b"bus/deep": {b"late"}}


def test_a_folder_that_replaces_an_empty_one(tree: Tree) -> None:
    os.makedirs(tree.path("x/inner"))
    tree.follow()
    tree.root.joinpath("x").rename(tree.root / "sub/deep")
    assert tree.follow() == {b"": {b"x"}, b"sub": {b"deep"}}
    tree.root.joinpath("sub/deep/inner/file").touch()
    assert tree.dirty() == {b"sub/deep/inner": {b"file"}}


def test_a_folder_that_replaces_one_that_somebody_has_open(tree: Tree) -> None:
    fd = os.open(tree.path("sub/deep"), os.O_RDONLY)
    (tree.root.parent / "in").mkdir()
    (tree.root.parent / "in").rename(tree.root / "sub/deep")
    assert tree.follow() == {b"sub": {b"deep"}}
    tree.root.joinpath("sub/deep/file").touch()
    assert tree.dirty() == {b"sub/deep": {b"file"}}
    os.close(fd)
    assert tree.dirty() == {}


def test_two_folders_that_swap_places(tree: Tree) -> None:
    os.makedirs(tree.path("x/inner"))
    tree.follow()
    root = os.open(tree.root, os.O_RDONLY)
    linux.renameat2(root, b"x", root, b"sub", linux.RENAME_EXCHANGE)
    os.close(root)
    assert tree.follow() == {b"": {b"x", b"sub"}}
    tree.root.joinpath("x/deep/file").touch()
    tree.root.joinpath("sub/inner/file").touch()
    assert tree.dirty() == {b"x/deep": {b"file"}, b"sub/inner": {b"file"}}


def test_a_folder_that_moved_before_it_was_told(tree: Tree) -> None:
    tree.root.joinpath("sub").rename(tree.root / "bus")
    tree.walk(b"bus")  # while the move is still in the queue
    assert b"bus/deep" in tree.watcher and b"sub" not in tree.watcher
    assert tree.follow() == {b"": {b"sub", b"bus"}}
    tree.root.joinpath("bus/deep/late").touch()
    assert tree.dirty() == {b"bus/deep": {b"late"}}


def test_another_folder_at_a_known_path_before_it_was_told(tree: Tree) -> None:
    tree.root.joinpath("sub").rename(tree.root.parent / "out")
    os.makedirs(tree.path("sub/fresh"))
    tree.walk(b"sub")
    assert b"sub/fresh" in tree.watcher and b"sub/deep" not in tree.watcher
    assert tree.follow() == {b"": {b"sub"}}
    tree.root.joinpath("sub/fresh/late").touch()
    assert tree.dirty() == {b"sub/fresh": {b"late"}}


def test_a_symlink_cannot_redirect_a_watch(tree: Tree) -> None:
    outside = tree.root.parent / "another"
    outside.mkdir()
    tree.root.joinpath("new").mkdir()
    fd = os.open(tree.path("new"), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    tree.root.joinpath("new").rename(tree.root / "away")
    tree.root.joinpath("new").symlink_to(outside)
    assert tree.watcher.watch(b"new", fd)
    os.close(fd)
    (outside / "file").touch()
    assert tree.dirty() == {b"": {b"new", b"away"}}


def test_a_folder_is_watched_after_the_one_it_is_in(tree: Tree) -> None:
    fd = os.open(tree.path("sub/deep"), os.O_RDONLY)
    tree.root.joinpath("sub").rename(tree.root / "bus")
    tree.walk(b"bus")
    assert not tree.watcher.watch(b"sub/deep", fd)
    os.close(fd)
    assert tree.lost() == "the folder that contains sub/deep moved during the look"


# Many


def test_none_of_thousands_is_missed_when_the_writer_has_ended(tree: Tree) -> None:
    writer = """
        import os, sys
        os.chdir(sys.argv[1])
        for number in range(1500):
            with open(f"sub/f{number}", "w") as file:
                file.write("x")
            os.symlink("x", f"sub/deep/l{number}")
            os.rename(f"sub/deep/l{number}", f"m{number}")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(writer), tree.root], check=True)
    dirty = tree.dirty()
    assert dirty[b"sub"] == {b"f%d" % number for number in range(1500)}
    assert dirty[b"sub/deep"] == {b"l%d" % number for number in range(1500)}
    assert dirty[b""] == {b"m%d" % number for number in range(1500)}
    assert tree.dirty() == {}


def test_random_moves_leave_no_folder_with_a_wrong_path(tree: Tree) -> None:
    seed = int(os.environ.get("TAKEBACK_TEST_SEED", "7"))
    chance = random.Random(seed)
    for _ in range(150):
        for _ in range(chance.randrange(1, 5)):
            move_something(tree.root, chance)
        if chance.random() < 0.3:
            tree.walk(b"")  # while all of that is still in the queue
        tree.follow()
        folders = sorted(os.fsencode(os.path.relpath(path, tree.root)) for path, _, _ in os.walk(tree.root))
        folders = [b"" if folder == b"." else folder for folder in folders]
        assert all(folder in tree.watcher for folder in folders), f"seed {seed}"
        for number, folder in enumerate(folders):
            tree.root.joinpath(os.fsdecode(folder), f"probe{number}").touch()
        assert tree.dirty() == {folder: {b"probe%d" % n} for n, folder in enumerate(folders)}, f"seed {seed}"


def move_something(root: Path, chance: random.Random) -> None:
    folders = [Path(path) for path, _, _ in os.walk(root)]
    one, other = chance.choice(folders), chance.choice(folders)
    name = f"n{chance.randrange(6)}"
    match chance.randrange(4):
        case 0 | 1:
            (one / name).mkdir(exist_ok=True)
        case 2 if one != root:
            shutil.rmtree(one)
        case 3 if one != root and not other.is_relative_to(one):
            shutil.rmtree(other / name, ignore_errors=True)
            if one.exists() and other.exists():
                one.rename(other / name)


# Lost


def test_a_queue_that_overflows_is_told(tree: Tree) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    paths = tree.path("file"), tree.path("sub/other")
    for number in range(most + 10):
        os.utime(paths[number % 2])  # the same twice running would be one event
    assert tree.lost() == "the kernel's event queue overflowed"
    assert b"" not in tree.watcher
    fd = os.open(tree.root, os.O_RDONLY)
    assert not tree.watcher.watch(b"", fd)
    os.close(fd)
    assert tree.lost(), "it stays lost: what was missed may have been a move"


def test_a_full_queue_that_did_not_overflow_is_no_loss(tree: Tree) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    paths = tree.path("file"), tree.path("sub/other")
    for number in range(most):
        os.utime(paths[number % 2])
    assert tree.dirty() == {b"": {b"file"}, b"sub": {b"other"}}


def test_a_root_that_moved_is_told(tree: Tree) -> None:
    tree.root.rename(tree.root.parent / "elsewhere")
    assert tree.lost() == "the watched folder is gone (No such file or directory)"


def test_a_root_that_was_removed_while_it_is_open_is_told(tree: Tree) -> None:
    fd = os.open(tree.root, os.O_RDONLY)
    shutil.rmtree(tree.root)
    assert tree.lost() == "the watched folder is gone (No such file or directory)"
    os.close(fd)


def test_a_root_that_was_replaced_is_told(tree: Tree) -> None:
    fd = os.open(tree.root, os.O_RDONLY)
    tree.root.rename(tree.root.parent / "elsewhere")
    tree.root.mkdir()
    assert tree.lost() == "another folder is in place of the watched one"
    os.close(fd)


def test_a_root_that_was_removed_and_made_again_is_told(tree: Tree) -> None:
    shutil.rmtree(tree.root)
    tree.root.mkdir()  # perhaps with the same inode number
    assert tree.lost() in (
        "the watched folder was removed",
        "another folder is in place of the watched one",
    )


def test_an_error_of_the_kernel_is_told(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int, length: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    tree.root.joinpath("new").touch()
    monkeypatch.setattr(os, "read", fail)
    assert tree.lost() == "watching failed: Input/output error"


def test_a_watch_that_fails_is_told(tree: Tree) -> None:
    fd = os.open(tree.path("file"), os.O_RDONLY)
    assert not tree.watcher.watch(b"file", fd)
    os.close(fd)
    assert tree.lost() == "watching failed: Not a directory"


def test_close_may_be_repeated(tree: Tree) -> None:
    tree.watcher.close()
    tree.watcher.close()
    assert tree.lost() == "the watcher was closed"


def open_queues() -> int:
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and "inotify" in os.readlink(link) for link in links)


def test_a_watcher_that_nobody_holds_is_closed(tmp_path: Path) -> None:
    before = open_queues()
    watcher = Watcher(os.fsencode(tmp_path))
    assert open_queues() == before + 1
    del watcher
    gc.collect()
    assert open_queues() == before


FORK = """
    import os, sys
    from takeback.resources.files.look.watch import Watcher
    root = os.fsencode(sys.argv[1])
    watcher = Watcher(root)
    assert watcher.watch(b"", os.open(root, os.O_RDONLY))
    open(os.path.join(root, b"one"), "w").close()
    child = os.fork()
    if child == 0:
        drained = watcher.drain()
        watcher.close()
        os._exit(0 if "forked" in drained.lost and not drained.dirty else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert watcher.drain().dirty == {b"": {b"one"}}
    os.mkdir(os.path.join(root, b"two"))
    assert watcher.drain().dirty == {b"": {b"two"}}
"""


def test_a_forked_child_leaves_the_queue_to_its_parent(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(FORK), tmp_path], check=True)


# What only a namespace of one's own can show


def in_namespace(script: str, *args: str | Path) -> None:
    """Run Python as root of a user and mount namespace of its own."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("not on this platform: no user namespaces")
    code = textwrap.dedent(COMMON) + textwrap.dedent(script)
    done = subprocess.run([*unshare, sys.executable, "-c", code, *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


COMMON = """
    import os, subprocess, sys
    from takeback.resources.files.look.watch import Watcher, supported
    def start(root):
        watcher = Watcher(os.fsencode(root))
        add(watcher, root, "")
        return watcher
    def add(watcher, root, name):
        fd = os.open(os.path.join(root, name), os.O_RDONLY | os.O_DIRECTORY)
        try:
            return watcher.watch(os.fsencode(name), fd)
        finally:
            os.close(fd)
    def do(*command):
        subprocess.run(command, check=True)
    root = sys.argv[1]
"""


def test_the_limit_of_watches_is_told(tree: Tree) -> None:
    script = """
        open("/proc/sys/user/max_inotify_watches", "w").write("2")
        watcher = start(root)
        assert add(watcher, root, "sub"), watcher.lost
        assert not add(watcher, root, "sub/deep")
        assert watcher.lost.startswith("the limit of "), watcher.lost
        assert "watches is reached" in watcher.lost
        open("/proc/sys/user/max_inotify_instances", "w").write("0")
        assert "limit of watchers" in Watcher(b".").lost
    """
    in_namespace(script, tree.root)


def test_a_mount_in_the_tree_is_told(tree: Tree) -> None:
    script = """
        watcher = start(root)
        add(watcher, root, "sub")
        do("mount", "-t", "tmpfs", "none", os.path.dirname(root) + "/beside")
        assert not watcher.drain().lost
        do("mount", "-t", "tmpfs", "none", root + "/sub")
        assert watcher.drain().lost == "a file system was mounted or unmounted in the tree"
        watcher = start(root)
        add(watcher, root, "sub")
        assert not watcher.lost, "another trusted file system is watched too"
        open(root + "/sub/new", "w").close()
        assert watcher.drain().dirty == {b"sub": {b"new"}}
        do("umount", root + "/sub")
        assert "mounted" in watcher.drain().lost
    """
    (tree.root.parent / "beside").mkdir()
    in_namespace(script, tree.root)


def test_a_folder_with_two_places_is_told(tree: Tree) -> None:
    script = """
        os.mkdir(root + "/again")
        do("mount", "--bind", root + "/sub", root + "/again")
        watcher = start(root)
        assert add(watcher, root, "sub")
        assert not add(watcher, root, "again")
        assert watcher.lost == "sub is mounted at a second path in the same tree"
    """
    in_namespace(script, tree.root)


def test_an_untrusted_file_system_in_the_tree_is_told(tree: Tree) -> None:
    script = """
        do("mount", "--rbind", "/sys", root + "/sub")
        watcher = start(root)
        assert not add(watcher, root, "sub")
        assert watcher.lost == "sub: a file system of type 0x62656572 is not known to report every change"
    """
    in_namespace(script, tree.root)


def test_an_overlay_tells_of_its_lower_layer(tree: Tree) -> None:
    script = """
        base = os.path.dirname(root)
        do("mount", "-t", "tmpfs", "none", base + "/up")
        os.makedirs(base + "/up/upper"); os.makedirs(base + "/up/work")
        layers = f"lowerdir={root},upperdir={base}/up/upper,workdir={base}/up/work"
        do("mount", "-t", "overlay", "-o", layers, "none", base + "/merged")
        root = base + "/merged"
        watcher = start(root)
        assert add(watcher, root, "sub") and add(watcher, root, "sub/deep"), watcher.lost
        with open(root + "/sub/other", "a") as file:
            file.write("copied up")
        assert watcher.drain().dirty == {b"sub": {b"other"}}
        os.chmod(root + "/file", 0o600)
        open(root + "/sub/deep/new", "w").close()
        assert watcher.drain().dirty == {b"": {b"file"}, b"sub/deep": {b"new"}}
        os.unlink(root + "/sub/other")
        assert watcher.drain().dirty == {b"sub": {b"other"}}
    """
    for name in ("up", "merged"):
        (tree.root.parent / name).mkdir()
    in_namespace(script, tree.root)


# What can be asked


def test_the_limit_can_be_read() -> None:
    assert watch.limit() > 0


def test_which_file_systems_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    assert watch.supported(fd) == ""
    monkeypatch.setattr(linux, "fs_type", lambda fd: 0x6969)
    assert watch.supported(fd) == "on nfs other machines can write without an event on this one"
    monkeypatch.setattr(linux, "fs_type", lambda fd: 0x12345)
    assert watch.supported(fd) == "a file system of type 0x12345 is not known to report every change"
    os.close(fd)
    monkeypatch.undo()
    assert watch.supported(fd) == "the type of the file system is unknown (Bad file descriptor)"
