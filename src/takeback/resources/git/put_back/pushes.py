"""Pushed branches: a push cannot be taken back, but the command that restores the old value can be shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from takeback.core.change import Target
from takeback.core.rollback import Do
from takeback.ports.content import Contents
from takeback.ports.resource import Swap
from takeback.resources.git import entry
from takeback.resources.git.look.observer import RepositoryObserver

_REMOTE = re.compile(rb"(?P<prefix>.*/)?refs/remotes/(?P<remote>[^/]+)/(?P<branch>.+)")
BY_PUSH = b"\tupdate by push"
SHOWN = 12
"""How much of an object's name is enough to identify it."""


def foresee(
    swaps: Sequence[Swap], observer: RepositoryObserver, contents: Contents
) -> dict[Target, tuple[Do, str]]:
    """Return the pushed remote branches and their logs, which stay: the remote has what was pushed."""
    found: dict[Target, tuple[Do, str]] = {}
    for swap in swaps:
        name = entry.name_of(swap.target)
        match = _REMOTE.fullmatch(name)
        if not match or b"logs" in name.split(b"/")[:1] or not swap.present:
            continue
        prefix = match["prefix"] or b""
        log = prefix + b"logs/" + name[len(prefix) :]
        if _was_pushed(observer, contents, log, entry.value_of(swap.present)):
            command = _command(match, entry.value_of(swap.present), entry.value_of(swap.goal))
            found[swap.target] = (
                Do.LEAVE,
                f"it was pushed, which cannot be taken back from here; by hand: {command}",
            )
            found[entry.target_of(log)] = (Do.KEEP, "it records a push")
    targets = {swap.target for swap in swaps}
    return {target: what for target, what in found.items() if target in targets}


def _was_pushed(observer: RepositoryObserver, contents: Contents, log: bytes, value: str) -> bool:
    content = entry.content_of(observer.version(log))
    lines = contents.read(*content).splitlines() if content else []
    return bool(lines) and lines[-1].endswith(BY_PUSH) and lines[-1].split()[1] == value.encode()


def _command(match: re.Match[bytes], now: str, before: str) -> str:
    remote, branch = match["remote"].decode(errors="replace"), match["branch"].decode(errors="replace")
    ref = f"refs/heads/{branch}"
    lease = shlex.quote(f"{ref}:{now[:SHOWN]}")
    value = shlex.quote(f"{before[:SHOWN]}:{ref}")
    return f"git push --force-with-lease={lease} {shlex.quote(remote)} {value}"
