"""Who hears what a command does. What reads a command knows only this of the line around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from takeback.shell.judgement import Reach

Folders = tuple[str | None, ...]
"""Where a command may run: None is a place that nobody knows."""


class RunningProcess(msgspec.Struct, frozen=True):
    """A process on this machine."""

    pid: int
    name: str
    line: str
    """Its words, separated by spaces."""
    own: bool
    """Whether a recorded call in this workspace started it."""


class Sink(Protocol):
    def say(
        self,
        reach: Reach,
        words: Sequence[str],
        rule: str,
        why: str,
        back: str = "",
        *,
        limit: bool = False,
        local: bool = False,
    ) -> None:
        """The command with these words reaches so far, by this rule.

        With `limit` it was not read to its end; with `local` it reaches only what is this session's own.
        """

    def running(self) -> Sequence[RunningProcess]:
        """The processes of this machine; nothing where nobody looks."""

    def folder_with(self, names: Sequence[str], folders: Folders) -> str:
        """The folder of the workspace, here or above, that has a file with one of these names; empty for none."""

    def touch(
        self,
        word: str,
        folders: Folders,
        words: Sequence[str],
        rule: str,
        *,
        deletes: bool = False,
        somewhere: bool = False,
        makes: bool = False,
    ) -> None:
        """It writes or deletes this path; with `somewhere`, something at or below it.

        With `makes`, a wildcard means names that are not there yet, too.
        """

    def moved(self, word: str, folders: Folders) -> Folders:
        """The folders that a word leads to."""

    def repository(self, folders: Folders, words: Sequence[str], rule: str) -> None:
        """It writes to the repository of git that these folders belong to."""

    def argv(self, words: Sequence[str], folders: Folders, stdin: str | None = None) -> None:
        """It runs another command."""

    def line(self, text: str, folders: Folders, words: Sequence[str]) -> None:
        """It runs a line of shell."""

    def source(self, text: str, language: str, folders: Folders, words: Sequence[str]) -> None:
        """It runs a program in plain text."""

    def script(self, word: str, folders: Folders, words: Sequence[str], language: str = "") -> bool:
        """It runs this file. False where the file is not one of the workspace, or cannot be read."""

    def text_of(self, word: str, folders: Folders) -> tuple[str, str] | None:
        """The name and the text of a file of the workspace, if it can be read."""

    def git(self, hooks: Iterable[str], folders: Folders, words: Sequence[str]) -> None:
        """It is git, and runs these hooks and what the settings of the repository say, where they are there."""

    def part_of(self, name: str, line: int, text: str, folders: Folders, words: Sequence[str]) -> None:
        """It runs a line of shell that stands in a file of this name."""

    def at(self, line: int) -> None:
        """What follows stands in this line of the program that is read."""

    def elsewhere(self, words: Sequence[str], rule: str, run: Callable[[Sink], None]) -> None:
        """It runs something on another machine, or in a container."""

    def goes_on(self) -> None:
        """Something of it goes on when the line has ended."""
