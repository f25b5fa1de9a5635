"""Descriptions of changes of a repository, for people."""

from __future__ import annotations

import re
from collections.abc import Callable

from takeback.core.change import Change, Version, ref_said
from takeback.resources.git import entry
from takeback.resources.git.format import refs

Apart = Callable[[Change, str, str], tuple[int, int] | None]
"""Returns how many commits each of two has that the other lacks, in the repository of a change; None if unknown."""

_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_START": "bisect",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "sequencer": "series of picks",
}
_PLACE = re.compile(
    r"^(?:(?P<where>.*?/)??)(?P<name>HEAD|index|refs/.*|[A-Z_]+_(?:HEAD|START)|rebase-\w+|sequencer|objects)$"
)


def tell(change: Change, apart: Apart, *, back: bool) -> str:
    """Return a text like `branch feature back at 3fa9c1e, 2 commits dropped`."""
    name, where = change.target.name, ""
    if entry.kind_of(change.after or change.before) == entry.LOG:
        return f"reflog of {name.replace('logs/', '', 1)}"
    if found := _PLACE.match(name):
        name, where = found["name"], _where(found["where"] or "")
    before, after = change.before, change.after
    kind = entry.kind_of(after or before)
    if kind == entry.REF and name == "HEAD":
        return where + _head(after, back=back)
    if kind == entry.REF:
        return where + _ref(name, change, apart, back=back)
    if name == "objects":
        return where + _objects(before, after, back=back)
    if kind == entry.STASH:
        return where + _stash(before, after, back=back)
    if name in _OPERATIONS:
        return where + _operation(_OPERATIONS[name], before, after, back=back)
    if name == "index":
        return where + _changed("index", before, after, back="restored" if back else "")
    if name.startswith("worktrees/") and name.endswith("/gitdir"):
        return _changed(f"worktree {name.split('/')[1]}", before, after, back="back" if back else "")
    return f".git/{name}" if kind else ""


def _where(prefix: str) -> str:
    words = []
    if found := re.match(r"modules/(.*?)/(?:worktrees/|modules/|$)", prefix):
        words.append(f"submodule {found[1]}: ")
    if found := re.search(r"worktrees/([^/]+)/$", prefix):
        words.append(f"worktree {found[1]}: ")
    return "".join(words)


def _head(after: Version, *, back: bool) -> str:
    again = "back " if back else ""
    if not after:
        return "HEAD removed"
    value = entry.value_of(after)
    if value.startswith("ref: "):
        return f"HEAD {again}on {short(value[5:])}"
    return f"HEAD {again}at {value[:7]}, on no branch"


def _ref(name: str, change: Change, apart: Apart, *, back: bool) -> str:
    what = ref_said(name)
    old, new = entry.value_of(change.before), entry.value_of(change.after)
    if not new:
        return f"{what} removed"
    if not old:
        return f"{what} back at {_at(new)}" if back else f"{what} created at {_at(new)}"
    if not (refs.is_object(old) and refs.is_object(new)):
        return f"{what} back at {_at(new)}" if back else f"{what} at {_at(new)}"
    dropped, added = apart(change, old, new) or (0, 0)
    words = [f"{what} back at {_at(new)}" if back else f"{what} from {_at(old)} to {_at(new)}"]
    if added:
        words.append(f"{_commits(added)} {'back' if back else 'added'}")
    if dropped:
        words.append(f"{_commits(dropped)} dropped")
    return ", ".join(words)


def _stash(before: Version, after: Version, *, back: bool) -> str:
    if not after:
        return "stash emptied"
    if not before:
        return "stash@{0} back" if back else "stashed"
    return "stash list back as it was" if back else "stash list changed"


def _objects(before: Version, after: Version, *, back: bool) -> str:
    """Return how many objects went or came; all of them go or come with the repository."""
    is_store = [entry.kind_of(version) == entry.OBJECTS for version in (before, after)]
    if not all(is_store):
        return f"objects {'back' if back and is_store[1] else 'added' if is_store[1] else 'removed'}"
    number = before.data[1] - after.data[1]
    what = f"{abs(number):,} object{'' if abs(number) == 1 else 's'}"
    return f"{what} {'lost' if number < 0 else 'back'}" if number else "other objects lost"


def _operation(word: str, before: Version, after: Version, *, back: bool) -> str:
    if not after:
        return f"{word} no longer in progress"
    if not before:
        return f"{word} in progress again" if back else f"{word} in progress"
    return f"{word} back where it was" if back else f"{word} in progress continued"


def _changed(what: str, before: Version, after: Version, *, back: str) -> str:
    if not after:
        return f"{what} removed"
    return f"{what} {back or ('changed' if before else 'added')}"


def _at(value: str) -> str:
    return value[:7] if refs.is_object(value) else short(value.removeprefix("ref: "))


def short(ref: str) -> str:
    """Return a ref's name as people say it."""
    for prefix in ("refs/heads/", "refs/tags/", "refs/remotes/"):
        ref = ref.removeprefix(prefix)
    return ref


def _commits(number: int) -> str:
    return f"{number:,} commit{'' if number == 1 else 's'}"
