"""Bringing back pruned objects: exactly those that the restored targets need, each verified against its name.

Git reads them in a scratch repository of ours, so that none of the user's settings and hooks takes part. It packs
what is missing, and recomputes the name of every object in the pack, before the pack goes to the repository.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import BackendError, CorruptionError
from takeback.resources.git.format.index_file import HASH_BYTES
from takeback.resources.git.mirror.mirror import Mirror, copy
from takeback.system import crash_points, durable

PACKED = crash_points.crash_point("git-objects-packed")
GIVEN = crash_points.crash_point("git-objects-given")


WALKED_MAX = 200_000
"""Up to this many objects, all of them are walked."""

_CONFIG = b"""[core]
	repositoryformatversion = 1
	bare = true
[extensions]
	objectformat = %s
"""


def program() -> str:
    """Return the path of git; empty if it is not installed. Called with every mark, so it is cached."""
    found = _found(os.environ.get("PATH", os.defpath))
    return found if found and os.access(found, os.X_OK) else shutil.which("git") or ""


@functools.cache
def _found(path: str) -> str:
    return shutil.which("git", path=path) or ""


class Needs:
    """The objects of one repository, together with those saved in its mirror."""

    def __init__(self, mirror: Mirror, hash_name: str, shallow: bytes) -> None:
        self._mirror = mirror
        self._hash = hash_name
        self._shallow = Path(os.fsdecode(shallow))
        self._scratch = mirror.kept / "scratch.git"

    def bring_back(self, names: Iterable[str], present: Iterable[str]) -> bool:
        """Bring back everything that these objects lead to, as far as it is saved.

        `present` are the objects that refs name now. Return True if anything at all was missing there.
        """
        wanted = sorted(set(names))
        if not wanted or not self._mirror.lost():
            return False
        if not program():
            self._link_all()
            return True
        self._prepare()
        missing = self._lost()
        if missing:
            needed = [name for name in self._reached(wanted, present) if name in missing]
            if needed:
                self._give(needed)
        return bool(missing)

    def bring_all_back(self, but: set[bytes]) -> None:
        """Bring back everything that is saved and missing, except `but`. Damaged objects are reported at the end."""
        wanted = {bytes.fromhex(name) for name in self._lost()} - but
        damaged: list[str] = []
        for stem in self._mirror.lost_packs():
            names = self._mirror.names_in(stem)
            if names & wanted and (names.isdisjoint(but) or not program()):
                with _noted(damaged):
                    self._mirror.give_pack(stem, self._hash)
                    wanted -= names
        loose = {name for name in wanted if (self._mirror.kept / name.hex()[:2] / name.hex()[2:]).exists()}
        for text in sorted(name.hex() for name in loose):
            with _noted(damaged):
                self._mirror.give(text[:2], text[2:], self._hash)
        if rest := sorted(name.hex() for name in wanted - loose):
            self._prepare()
            with _noted(damaged):
                self._give(rest)
        for folder in [*sorted({name.hex()[:2] for name in loose}), "pack"]:
            if (self._mirror.objects / folder).is_dir():
                durable.sync_folder(self._mirror.objects / folder)
        crash_points.reach(GIVEN)
        if damaged:
            raise CorruptionError(f"{damaged[0]}{f' (and {len(damaged) - 1:,} more)' if damaged[1:] else ''}")

    def _lost(self) -> set[str]:
        """Return the lost objects, judged by the files: git itself always claims to have the empty tree."""
        names, size = self._mirror.keep_new(), HASH_BYTES[self._hash]
        return {names[at : at + size].hex() for at in range(0, len(names), size)}

    def lacks(self, names: Iterable[str], present: Iterable[str]) -> list[str]:
        """Return which of these objects, or of those that they lead to, are not in the repository."""
        wanted = sorted(set(names))
        if not wanted or not program() or self._mirror.is_partial():
            return []
        self._prepare()
        check = ["rev-list", "--objects", "--quiet", "--stdin"]
        around = self._around(present)
        if self._git(*check, given=[*wanted, *around], alone=True) is not None:
            return []
        return [name for name in wanted if self._git(*check, given=[name, *around], alone=True) is None]

    def absent(self, names: Iterable[str]) -> list[str]:
        """Return which of these objects themselves are not in the repository."""
        wanted = sorted(set(names))
        if not wanted or not program() or self._mirror.is_partial():
            return []
        self._prepare()
        return self._missing(wanted)

    def _around(self, present: Iterable[str]) -> list[str]:
        """Return what need not be walked.

        A small repository is walked completely: objects that refs still lead to may have been deleted by hand.
        """
        if self._mirror.count(HASH_BYTES[self._hash]) <= WALKED_MAX:
            return []
        return [f"^{name}" for name in sorted(set(present))]

    def _reached(self, wanted: list[str], present: Iterable[str]) -> list[str]:
        """Return everything that these lead to, leaving out those that are no longer complete, here or there."""
        walk = [
            "rev-list",
            "--objects",
            "--no-object-names",
            "--ignore-missing",
            "--missing=allow-any",
            "--stdin",
        ]
        around = self._around(present)
        whole = self._git(*walk, given=[*wanted, *around])
        if whole is not None:
            return whole.split()
        parts = [self._git(*walk, given=[name, *around]) for name in wanted]
        return list(dict.fromkeys(name for part in parts if part for name in part.split()))

    def apart(self, one: str, other: str) -> tuple[int, int] | None:
        """Return how many commits each has that the other lacks; None if that is unknown."""
        if not program():
            return None
        self._prepare()
        found = (self._git("rev-list", "--left-right", "--count", f"{one}...{other}") or "").split()
        return (int(found[0]), int(found[1])) if len(found) == 2 else None

    def _missing(self, names: Iterable[str]) -> list[str]:
        found = self._git("cat-file", "--batch-check=%(objectname)", given=names, alone=True)
        if found is None:
            raise BackendError("git could not read its objects; none was brought back", retryable=True)
        return [line.removesuffix(" missing") for line in found.splitlines() if line.endswith(" missing")]

    def _give(self, names: list[str]) -> None:
        """Pack these objects, verify each, and put the pack where git looks for it."""
        work = self._scratch / "new"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        pack = work / "new.pack"
        fd = os.open(pack, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            done = self._run(
                ["pack-objects", "--stdout", "-q"], "\n".join(names).encode() + b"\n", out.fileno()
            )
        if done.returncode:
            raise CorruptionError(f"saved git objects are damaged: {_last_line(done.stderr)}")
        name = self._git("index-pack", str(pack))
        listed = self._run(
            ["show-index", f"--object-format={self._hash}"], (work / "new.idx").read_bytes(), None
        )
        found = {line.split()[1] for line in listed.stdout.decode().splitlines()}
        if name is None or found != set(names):
            raise CorruptionError("saved git objects are damaged: they do not match their names")
        crash_points.reach(PACKED)
        folder = self._mirror.make("pack")
        for suffix in (".pack", ".idx"):
            copy(work / f"new{suffix}", folder / f"pack-{name.split()[-1]}{suffix}", mode=0o444)
        durable.sync_folder(folder)
        crash_points.reach(GIVEN)
        shutil.rmtree(work, ignore_errors=True)

    def _link_all(self) -> None:
        """Bring back everything that was lost: without git it is unknown what is needed."""
        for folder, file in self._mirror.lost():
            self._mirror.give(folder, file, self._hash)

    def _prepare(self) -> None:
        """Create a repository without refs, settings or hooks, only to read objects in."""
        for name in ("refs", "objects"):
            (self._scratch / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        shallow = self._shallow.read_bytes() if self._shallow.exists() else b""
        texts = {
            "config": _CONFIG % self._hash.encode(),
            "HEAD": b"ref: refs/heads/none\n",
            "shallow": shallow,
        }
        for name, text in texts.items():
            (self._scratch / name).unlink(missing_ok=True)
            if text:
                _write(self._scratch / name, text)

    def _git(self, *args: str, given: Iterable[str] = (), alone: bool = False) -> str | None:
        done = self._run(list(args), "".join(f"{line}\n" for line in given).encode(), None, alone=alone)
        return done.stdout.decode() if done.returncode == 0 else None

    def _run(
        self, args: list[str], given: bytes, out: int | None, *, alone: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        there = self._mirror.objects if self._mirror.objects.is_dir() else self._scratch / "objects"
        env |= {
            "GIT_DIR": str(self._scratch),
            "GIT_OBJECT_DIRECTORY": str(there),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "LC_ALL": "C",
        }
        if not alone:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self._mirror.kept)
        return subprocess.run(
            [program(), *args],
            input=given,
            stdout=subprocess.PIPE if out is None else out,
            stderr=subprocess.PIPE,
            env=env,
            cwd=self._scratch,
        )


@contextmanager
def _noted(damaged: list[str]) -> Iterator[None]:
    """Record an error, so that one damaged object does not stop the others."""
    try:
        yield
    except CorruptionError as error:
        damaged.append(error.message)


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
        out.write(data)


def _last_line(text: bytes) -> str:
    return (text.decode(errors="replace").strip().splitlines() or ["git gave no reason"])[-1]
