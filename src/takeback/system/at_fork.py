"""Closing connections before a fork.

SQLite remembers, for the whole process, which locks it has on a file. A child inherits that memory but not
the locks: even a new connection there would believe itself protected, and would write into a log that another
process may delete. So every holder of a connection closes it before a fork, and both sides open it again.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod


class ConnectionHolder(ABC):
    """A holder of a connection that a child must not inherit."""

    @abstractmethod
    def hold_still(self) -> None:
        """Block all use of the connection, and close it."""

    @abstractmethod
    def go_on(self) -> None:
        """Allow use of the connection again."""


_holders: weakref.WeakSet[ConnectionHolder] = weakref.WeakSet()
_forking = threading.Lock()
_still: list[ConnectionHolder] = []


def watch(holder: ConnectionHolder) -> None:
    """Close the connection of this holder before each fork from now on."""
    _holders.add(holder)


def unwatch(holder: ConnectionHolder) -> None:
    _holders.discard(holder)


def _before() -> None:
    _forking.acquire()
    _still[:] = list(_holders)
    for holder in _still:
        holder.hold_still()


def _after() -> None:
    for holder in _still:
        holder.go_on()
    _still.clear()
    _forking.release()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
