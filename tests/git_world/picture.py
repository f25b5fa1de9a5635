"""An independent picture of a repository, and the differences between two pictures.

This shares no code with the product: it is the witness. It reads plain files and asks plain git, and writes nothing:
the bytes of every index are read before git is asked anything, and git is told not to refresh them.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.world import picture as trees

Facts = dict[tuple[str, str], bytes]
"""By aspect and name: ("ref", "main refs/heads/topic") has an object id."""

# What git keeps at the top of its folder while an operation is in progress, and what it only leaves lying there.
LEFT_LYING = {"COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "GC_PID"}
IN_PROGRESS = ("rebase-merge", "rebase-apply", "sequencer")
OBJECT_ID = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
OF_ONE_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
NAMING = ("operation", "left lying")


@dataclass(frozen=True)
class GitFolder:
    """One folder in which git keeps a HEAD and an index: of the repository, a linked worktree, a submodule."""

    name: str
    path: Path
    common: Path
    work: Path | None

    @property
    def owner(self) -> str:
        """The name of the one that has the objects."""
        return self.name if self.is_whole else self.name.rpartition("worktree ")[0].strip() or "main"

    @property
    def is_whole(self) -> bool:
        """Whether it has refs and objects of its own."""
        return self.path == self.common


@dataclass(frozen=True)
class Picture:
    """Everything about a repository that a person could miss after an undo."""

    facts: Facts
    tree: trees.Picture
    objects: frozenset[bytes]
    mentioned: frozenset[bytes] = frozenset()
    """Objects that were there, and that no ref names but a note of git's, like ORIG_HEAD."""

    def of(self, aspect: str) -> dict[str, bytes]:
        return {name: value for (kind, name), value in self.facts.items() if kind == aspect}


def take(root: Path, *, tree: bool = True) -> Picture:
    """Look at the repository of this folder, and at the folder."""
    folders = list(git_folders(root))
    facts: Facts = {}
    for folder in folders:
        _indexes(folder, facts)
    seen = trees.picture(bytes(root), git=False) if tree else {}
    objects: set[bytes] = set()
    mentioned: set[bytes] = set()
    for folder in folders:
        _plain_files(folder, facts)
        if not (folder.path / "HEAD").exists():
            # Git does not take it for one of its own any more.
            facts["left over", folder.name] = b""
            continue
        _ask(folder, facts)
        mentioned.update(_mentioned(folder, facts))
        if folder.is_whole:
            _ask_whole(folder, facts)
            objects.update(_objects(folder))
    return Picture(facts, seen, frozenset(objects), frozenset(mentioned & objects))


# The folders


def git_folders(root: Path) -> Iterator[GitFolder]:
    """The folder of the repository first, then those of linked worktrees and submodules."""
    own = _follow(root / ".git")
    if own is None:
        return
    common = _common(own)
    yield GitFolder("main", common, common, _work_of_main(root, own, common))
    yield from _linked("", common)
    yield from _modules(common)


def _follow(place: Path) -> Path | None:
    """Where a `.git` leads to: itself, or what is written in it."""
    if place.is_dir():
        return Path(os.path.realpath(place))
    if place.is_file():
        target = place.read_text().removeprefix("gitdir:").strip()
        return Path(os.path.realpath(place.parent / target))
    return None


def _common(own: Path) -> Path:
    link = own / "commondir"
    return Path(os.path.realpath(own / link.read_text().strip())) if link.exists() else own


def _work_of_main(root: Path, own: Path, common: Path) -> Path | None:
    if own == common:
        return root
    return common.parent if common.name == ".git" else None


def _linked(prefix: str, common: Path) -> Iterator[GitFolder]:
    for place in sorted(common.glob("worktrees/*")):
        pointer = place / "gitdir"
        work = Path(pointer.read_text().strip()).parent if pointer.exists() else None
        yield GitFolder(f"{prefix}worktree {place.name}", place, common, work)


def _modules(common: Path) -> Iterator[GitFolder]:
    for head in sorted(common.glob("modules/**/HEAD")):
        place = head.parent
        if not (place / "objects").is_dir():
            continue
        name = f"module {place.relative_to(common / 'modules')}"
        found = _git(place, "config", "core.worktree").strip()
        work = Path(os.path.realpath(place / os.fsdecode(found)))
        yield GitFolder(name, place, place, work if (work / ".git").exists() else None)
        yield from _linked(f"{name} ", place)


# Plain files


def _indexes(folder: GitFolder, facts: Facts) -> None:
    for file in sorted(folder.path.glob("*index*")):
        if file.is_file():
            facts["index", f"{folder.name} {file.name}"] = file.read_bytes()


def _plain_files(folder: GitFolder, facts: Facts) -> None:
    for file in sorted(folder.path.iterdir()):
        if file.name == "HEAD":
            facts["HEAD", folder.name] = file.read_bytes()
        elif file.name.endswith(".lock"):
            facts["lock", f"{folder.name} {file.name}"] = b""
        elif file.name in LEFT_LYING:
            facts["left lying", f"{folder.name} {file.name}"] = file.read_bytes()
        elif file.is_file() and re.fullmatch(r"[A-Z_]+", file.name):
            facts["operation", f"{folder.name} {file.name}"] = file.read_bytes()
        elif file.name in IN_PROGRESS:
            _below(file, "operation", folder, facts)
        elif file.name in ("gitdir", "commondir", "locked"):
            facts["worktree", f"{folder.name} {file.name}"] = file.read_bytes()
        elif file.name in ("config", "config.worktree", "description", "shallow"):
            facts["config", f"{folder.name} {file.name}"] = file.read_bytes()
        elif file.name in ("hooks", "info"):
            _below(file, "hook" if file.name == "hooks" else "info", folder, facts)
        elif file.name == "logs":
            _below(file, "reflog", folder, facts)
        elif file.name == "refs":
            _symbolic(file, folder, facts)


def _below(top: Path, aspect: str, folder: GitFolder, facts: Facts) -> None:
    for file in sorted(top.rglob("*")):
        if file.is_file() and not file.is_relative_to(folder.path / "info/refs"):
            mode = b"executable\n" if file.lstat().st_mode & stat.S_IXUSR else b""
            facts[aspect, f"{folder.name} {file.relative_to(folder.path)}"] = mode + file.read_bytes()


def _symbolic(top: Path, folder: GitFolder, facts: Facts) -> None:
    """Symbolic refs, and refs that lead nowhere: git does not list them all."""
    for file in sorted(top.rglob("*")):
        name = f"{folder.name} {file.relative_to(folder.path)}"
        if file.name.endswith(".lock"):
            facts["lock", name] = b""
        elif file.is_file() and (text := file.read_bytes()).startswith(b"ref:"):
            facts["symbolic ref", name] = text


# Plain git


def _git(place: Path, *args: str, work: Path | None = None) -> bytes:
    """What git says; where it fails, that."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_DIR": str(place),
        "LC_ALL": "C",
    }
    done = subprocess.run(["git", *args], cwd=work or place, env=env, capture_output=True)
    return done.stdout + (b"exit code %d: " % done.returncode + done.stderr if done.returncode else b"")


def _ask(folder: GitFolder, facts: Facts) -> None:
    """What each worktree has of its own."""
    facts["entries", folder.name] = _git(folder.path, "ls-files", "--stage", "-v")
    for line in _git(folder.path, "for-each-ref", "--format=%(refname) %(objectname)").splitlines():
        name, _, value = line.decode("utf-8", "surrogateescape").partition(" ")
        if folder.is_whole or name.startswith(OF_ONE_WORKTREE):
            facts["ref", f"{folder.name} {name}"] = value.encode()
    if folder.work is not None and folder.work.is_dir():
        facts["status", folder.name] = _git(folder.path, "status", "--long", work=folder.work)


def _ask_whole(folder: GitFolder, facts: Facts) -> None:
    """What a repository has once."""
    facts["stash", folder.name] = _git(folder.path, "stash", "list", "--format=%H %gd %gs", work=folder.work)
    facts["worktrees", folder.name] = _git(folder.path, "worktree", "list", "--porcelain")
    said = _git(folder.path, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
    facts["fsck", folder.name] = b"\n".join(
        line for line in said.splitlines() if not line.startswith((b"notice:", b"unreachable"))
    )
    if folder.work is not None and (folder.work / ".gitmodules").exists():
        facts["submodules", folder.name] = _git(folder.path, "submodule", "status", work=folder.work)


def _mentioned(folder: GitFolder, facts: Facts) -> list[bytes]:
    """The objects that an operation in progress, or a note like ORIG_HEAD, names."""
    told = [v for (kind, name), v in facts.items() if kind in NAMING and name.startswith(f"{folder.name} ")]
    return [folder.owner.encode() + b" " + name for name in OBJECT_ID.findall(b"\n".join(told))]


def _objects(folder: GitFolder) -> list[bytes]:
    said = _git(folder.path, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return [folder.name.encode() + b" " + line for line in said.splitlines()]


# The comparison


def differences(before: Picture, after: Picture, *, but: Collection[str] = ()) -> list[str]:
    """Every difference in words, one a line; none means that nobody could tell. `but` are aspects left out."""
    found = [
        f"{aspect} {name}: {_words(aspect, before.facts.get((aspect, name)), after.facts.get((aspect, name)))}"
        for aspect, name in sorted(before.facts.keys() | after.facts.keys())
        if aspect not in but and before.facts.get((aspect, name)) != after.facts.get((aspect, name))
    ]
    if "file" not in but:
        found += [f"file {line}" for line in trees.differences(before.tree, after.tree)]
    # One more is no harm: it lies there until git cleans up. One less may have been somebody's work.
    if "mentioned" not in but:
        found += [f"mentioned {name.decode()}: lost" for name in sorted(before.mentioned - after.objects)]
    if "object" not in but:
        found += _lost(sorted(before.objects - after.objects))
    return found


def _lost(names: list[bytes]) -> list[str]:
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    return [f"object {names[0].decode()}: lost{more}"] if names else []


def unsound(seen: Picture) -> list[str]:
    """What git itself finds wrong with a repository, and locks that nobody holds."""
    wrong = [f"fsck {name}: {said.decode()}" for name, said in seen.of("fsck").items() if said]
    return wrong + [f"lock {name}" for name in seen.of("lock")]


def _words(aspect: str, old: bytes | None, new: bytes | None) -> str:
    if old is None or new is None:
        return f"gone (was {_short(old)})" if new is None else f"new ({_short(new)})"
    if aspect == "index":
        return f"{len(old)} bytes -> {len(new)} bytes, differing from byte {_first_difference(old, new)} on"
    if b"\n" in old.strip() or b"\n" in new.strip():
        lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=0)
        return "; ".join([line for line in lines if not line.startswith(("---", "+++", "@@"))][:8])
    return f"{_short(old)} -> {_short(new)}"


def _first_difference(old: bytes, new: bytes) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "backslashreplace").splitlines()


def _short(value: bytes | None) -> str:
    return repr((value or b"").strip()[:120].decode("utf-8", "backslashreplace"))
