"""Scripts of the workspace that a line runs: which file, with which text, and where in it something stands."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

import msgspec

from takeback.shell.judgement import Reach, Touched
from takeback.shell.parse import Simple
from takeback.shell.paths import PathContext, place
from takeback.shell.sink import Folders
from takeback.shell.words import is_known

SCRIPTS_MAX = 30
"""Of one line, with those that its scripts run."""


class SourcePosition(msgspec.Struct, frozen=True):
    """The place being read: a file and its line. Without a name it is the command line itself."""

    file: str = ""
    line: int = 0
    nested: int = -1
    """How deep the commands stand that the lines of the file are counted for."""

    def shown(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Scripts:
    """The scripts of one line."""

    def __init__(self, ground: PathContext) -> None:
        self._ground = ground
        self._read: dict[tuple[str, Folders], None] = {}
        self._judged: dict[str, set[str]] = {}
        """The texts of each file that were read."""
        self._texts: dict[str, str] = {}
        """Files that the line itself writes, with what it writes."""

    def apart(self) -> Scripts:
        """Return scripts that run separately from those of the line, with what the line writes into them."""
        other = Scripts(self._ground)
        other._texts = self._texts
        return other

    def text_of(self, word: str, folder: str | None) -> tuple[str, str] | None:
        """Return path and text of a file of the workspace, as it is or as the line writes it."""
        at = place(self._ground, word, folder)
        if at is None or at.reach is not Reach.RESTORABLE or not at.exact:
            return None
        if at.path in self._texts:
            return at.path, self._texts[at.path]
        text = self._ground.read(at.path) if self._ground.read else None
        return None if text is None else (at.path, text)

    def name(self, path: str) -> str:
        """Return the name of a file for people."""
        return path.removeprefix(f"{self._ground.root}/")

    def begin(self, path: str, text: str, folders: Folders) -> bool:
        """Return whether a text of a file is still to be read."""
        texts = self._judged.setdefault(path, set())
        if (path, folders) in self._read and text in texts:
            return False
        texts.add(text)
        self._read[path, folders] = None
        return True

    def too_many(self) -> bool:
        return len(self._read) > SCRIPTS_MAX

    def written(self, simple: Simple, read: str | None, folders: Folders) -> None:
        """Remember the text of a file that a command writes, where both are known; and forget it otherwise."""
        text = (read if simple.words == ("cat",) else printed(simple)) if simple.words else None
        for redirect in simple.redirects:
            at = place(self._ground, redirect.path, folders[0]) if redirect.writes else None
            if at is None:
                continue
            if len(folders) == 1 and text is not None and at.exact and at.reach is Reach.RESTORABLE:
                before = self._texts.get(at.path)
                if before is None and redirect.appends:
                    before = (self._ground.read(at.path) if self._ground.read else None) or ""
                # A branch may not be taken: then what was written before it runs.
                self._texts[at.path] = (before or "") + text
            else:
                self._texts.pop(at.path, None)

    def copied(self, words: Sequence[str], folders: Folders) -> None:
        """Remember the text of a file that is copied or moved."""
        operands = [word for word in words[1:] if not word.startswith("-")]
        if words[0] not in ("cp", "mv", "ln", "install") or len(operands) != 2 or len(folders) != 1:
            return
        found, at = self.text_of(operands[0], folders[0]), place(self._ground, operands[1], folders[0])
        if found is not None and at is not None and at.reach is Reach.RESTORABLE and at.exact:
            for path in (at.path, posixpath.join(at.path, posixpath.basename(found[0]))):
                self._texts[path] = found[1]

    def changed(self, touched: Iterable[Touched]) -> str:
        """Return a script whose text may differ when it runs, because something else in the line writes it."""
        for path, texts in self._judged.items():
            written = self._texts.get(path)
            if written not in texts if written is not None else any(_covers(one, path) for one in touched):
                return self.name(path)
        return ""


def _covers(touched: Touched, path: str) -> bool:
    if touched.reach is Reach.UNKNOWN:
        return False  # then all of it is unknown already
    places = (touched.path, touched.really or touched.path)
    return any(
        path == one or (not touched.exact and path.startswith(f"{one.rstrip('/')}/")) for one in places
    )


def printed(simple: Simple) -> str | None:
    """Return what a command prints, if its words say so."""
    name, *words = simple.words
    if name == "cat" and not words:
        return simple.stdin
    if name == "echo" and all(map(is_known, words)):
        text = " ".join(word for word in words if word not in ("-n", "-e", "-E")) + "\n"
        return None if "\\" in text else text  # some shells take a backslash for more than that
    if name == "printf" and words and all(map(is_known, words)):
        return _formatted(words)
    return None


def _formatted(words: list[str]) -> str | None:
    form = words[0].replace("\\n", "\n").replace("\\t", "\t")
    if words[0] in ("%s", "%s\\n", "%b", "%b\\n"):
        return "\n".join(words[1:])
    return form if "%" not in form and "\\" not in form and len(words) == 1 else None
