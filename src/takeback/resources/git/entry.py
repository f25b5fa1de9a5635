"""The data of one target of a repository: enough to compare it, and to put it back exactly.

The first word of a version's data is its kind. A ref's value is in its id; everything else names its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from blake3 import blake3

from takeback.core.change import Target, Version
from takeback.core.codec import path_of, text_of

REF, FILE, NOTE, LINK, INDEX, LOG = "ref", "file", "note", "link", "index", "log"
STASH, OPERATION, OBJECTS = "stash", "operation", "objects"


def kind_of(version: Version) -> str:
    """Return the kind of a version; empty if it is absent."""
    return str(version.data[0]) if version else ""


def ref(value: str, prefix: bytes) -> Version:
    """Return the version of a ref in the repository at `prefix`: an object's name, or `ref: NAME` of another ref."""
    return Version(f"r:{value}", "", [REF, text_of(prefix)])


def value_of(version: Version) -> str:
    """Return the value of a ref, or of the top of a stash; empty if it is absent."""
    if not version:
        return ""
    return str(version.data[1]) if kind_of(version) == STASH else version.id[2:]


def prefix_of(version: Version) -> bytes:
    """Return the repository of a ref or a log, below that of the workspace: a submodule's, a worktree's."""
    return path_of(version.data[4] if kind_of(version) == LOG else version.data[1])


def file(mode: int, content: bytes, size: int) -> Version:
    return Version(f"f:{mode:o}:{content.hex()}", "", [FILE, mode, content.hex(), size])


def note(mode: int, content: bytes, size: int) -> Version:
    """Return the version of a file that git writes for its own use. It contains no one's work."""
    return Version(f"n:{mode:o}:{content.hex()}", "", [NOTE, mode, content.hex(), size])


def link(text: bytes) -> Version:
    return Version(f"x:{text_of(text)}", "", [LINK, text_of(text)])


def leading(version: Version, folder: bytes) -> Version:
    """Return the version of the file or link `.git`, with the folder that it leads to."""
    return Version(f"{version.id}@{text_of(folder)}", version.stamp, [*version.data, text_of(folder)])


def led_to(version: Version) -> bytes:
    return path_of(version.data[-1])


def link_text(version: Version) -> bytes:
    return path_of(version.data[1])


def index(entries: str, mode: int, content: bytes, size: int, mtime_ns: int) -> Version:
    """Return the version of an index.

    Compared by its entries, restored to the byte: git rewrites it whenever it looks.
    """
    return Version(f"i:{entries}", content.hex(), [INDEX, mode, content.hex(), size, mtime_ns])


def log(mode: int, content: bytes, size: int, prefix: bytes = b"") -> Version:
    return Version(f"g:{content.hex()}", "", [LOG, mode, content.hex(), size, text_of(prefix)])


def stash(value: str, text: Version | None) -> Version:
    """Return the version of the stash list: the top one is a ref, the others are only in its log."""
    data = [STASH, value, *(text.data[1:4] if text else (0, "", 0))]
    return Version(f"s:{value}:{data[3]}", "", data)


def stash_log(version: Version) -> Version | None:
    """Return the log in which a stash keeps its list."""
    _, _, mode, content, size = version.data
    return log(mode, bytes.fromhex(content), size) if content else None


def operation(files: dict[bytes, Version]) -> Version:
    """Return the version of an operation in progress: a folder of small files that belong together."""
    listed: list[list[Any]] = [[text_of(name), *files[name].data[1:]] for name in sorted(files)]
    digest = blake3(repr(listed).encode()).hexdigest()
    return Version(f"o:{digest}", "", [OPERATION, listed])


def operation_files(version: Version) -> dict[bytes, Version]:
    return {
        path_of(name): file(mode, bytes.fromhex(content), size)
        for name, mode, content, size in version.data[1]
    }


def objects(lost: str, count: int, content: bytes, size: int) -> Version:
    """Return the version of a repository's objects: it lacks `count` that it once had.

    `lost` is a digest of their names.
    """
    return Version(f"w:{lost}", "", [OBJECTS, count, content.hex(), size])


WHOLE = objects("", 0, b"", 0)
"""The version of a repository that has every object it ever had."""


def content_of(version: Version) -> tuple[bytes, int] | None:
    """Return name and size of the content of a file, note, log or index; for objects, of the list of lost names."""
    if kind_of(version) in (FILE, NOTE, LOG, INDEX) or (kind_of(version) == OBJECTS and version.data[3]):
        return bytes.fromhex(version.data[2]), version.data[3]
    return None


def contents_of(version: Version) -> Iterator[tuple[bytes, int]]:
    """Yield all content stored for a version."""
    kind = kind_of(version)
    if kind == STASH and (text := stash_log(version)):
        yield from contents_of(text)
    elif kind == OPERATION:
        for part in operation_files(version).values():
            yield from contents_of(part)
    elif found := content_of(version):
        yield found


def target_of(name: bytes) -> Target:
    return Target("git", text_of(name))


def name_of(target: Target) -> bytes:
    return path_of(target.name)
