"""The receiver of what a command does. Readers of commands know the line around them only through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import msgspec

from takeback.shell.judgement import Reach

Folders = tuple[str | None, ...]
"""The folders in which a command may run; None is an unknown one."""


class RunningProcess(msgspec.Struct, frozen=True):
    """A process on this machine."""

    pid: int
    name: str
    line: str
    """Its words, separated by spaces."""
    own: bool
    """Whether a recorded call in this workspace started it."""


class Sink(ABC):
    """What a reader of commands tells about them, and asks about the line around them."""

    @abstractmethod
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
        """Report how far the command with these words reaches, by this rule.

        With `limit` it was not read to its end; with `local` it reaches only what is this session's own.
        """

    @abstractmethod
    def running(self) -> Sequence[RunningProcess]:
        """Return the processes of this machine; empty if they are not looked at."""

    @abstractmethod
    def folder_with(self, names: Sequence[str], folders: Folders) -> str:
        """Return the nearest folder of the workspace, here or above, with a file of one of these names; or empty."""

    @abstractmethod
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

    @abstractmethod
    def moved(self, word: str, folders: Folders) -> Folders:
        """Return the folders that a word leads to."""

    @abstractmethod
    def repository(self, folders: Folders, words: Sequence[str], rule: str) -> None:
        """Report a write to the git repository of these folders."""

    @abstractmethod
    def argv(self, words: Sequence[str], folders: Folders, stdin: str | None = None) -> None:
        """Report that it runs another command."""

    @abstractmethod
    def line(self, text: str, folders: Folders, words: Sequence[str]) -> None:
        """Report that it runs a line of shell."""

    @abstractmethod
    def source(self, text: str, language: str, folders: Folders, words: Sequence[str]) -> None:
        """Report that it runs a program given as text."""

    @abstractmethod
    def script(self, word: str, folders: Folders, words: Sequence[str], language: str = "") -> bool:
        """Report that it runs this file. Return False if the file is not in the workspace or cannot be read."""

    @abstractmethod
    def text_of(self, word: str, folders: Folders) -> tuple[str, str] | None:
        """Return the name and the text of a file of the workspace, if it can be read."""

    @abstractmethod
    def git(
        self,
        hooks: Sequence[str],
        folders: Folders,
        words: Sequence[str],
        repositories: Sequence[tuple[str, Folders]] = (),
    ) -> None:
        """It is git, and runs these hooks and what the settings of the repository say, where they are there.

        `repositories` are the folders of git that its options name, and where these are meant.
        """

    @abstractmethod
    def part_of(self, name: str, line: int, text: str, folders: Folders, words: Sequence[str]) -> None:
        """Report that it runs a line of shell from a file of this name."""

    @abstractmethod
    def at(self, line: int) -> None:
        """Note the line of the program that is being read."""

    @abstractmethod
    def elsewhere(self, words: Sequence[str], rule: str, run: Callable[[Sink], None]) -> None:
        """Report that it runs something on another machine, or in a container."""

    @abstractmethod
    def goes_on(self) -> None:
        """Report that something goes on in the background after the line has ended."""
