"""Threads that write at the same time share a commit, and so the one sync that makes it durable."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

Statement = tuple[str, Sequence[object]]


class Writing:
    """What one thread wants written: statements, of which the first asks whether the others hold."""

    __slots__ = ("error", "holds", "is_done", "statements")

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements
        self.holds = False
        self.is_done = False
        self.error: BaseException | None = None

    def end(self, *, holds: bool = False, error: BaseException | None = None) -> None:
        self.holds, self.error, self.is_done = holds, error, True


class CommitLine:
    """The threads of this process that wait for their commit. The first one commits for all that wait."""

    def __init__(self, commit: Callable[[Sequence[Writing]], None]) -> None:
        """`commit` writes all of a group in one transaction, and ends each; or raises, and nothing was written."""
        self._commit = commit
        self._lead = threading.Lock()
        self._waiting: deque[Writing] = deque()

    def write(self, statements: Sequence[Statement]) -> bool:
        """Write durably. Return False if the first statement found that the rest does not hold."""
        mine = Writing(statements)
        self._waiting.append(mine)
        with self._lead:
            while not mine.is_done:
                group = [self._waiting.popleft() for _ in range(len(self._waiting))]
                if mine not in group:
                    group.append(mine)  # the thread that had taken it was interrupted
                self._commit_each(group)
        if mine.error:
            raise mine.error
        return mine.holds

    def _commit_each(self, group: Sequence[Writing]) -> None:
        """Commit a group; if that fails, each of them alone, so that one error is not everybody's."""
        try:
            self._commit(group)
        except Exception as error:  # noqa: BLE001  raised again in the thread that it belongs to
            if len(group) == 1:
                group[0].end(error=error)
                return
            for one in group:
                self._commit_each([one])
