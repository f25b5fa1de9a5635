"""The objects of a repository as one target: which of those that it once had are missing.

They are brought back, and never deleted: one too many does no harm, one too few may have been someone's work.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from blake3 import blake3

from takeback.core.change import Target, Version
from takeback.core.events import Did
from takeback.core.rollback import Do
from takeback.errors import TakebackError
from takeback.ports.content import Contents
from takeback.ports.resource import Swap
from takeback.resources.git import entry
from takeback.resources.git.put_back.needs import Needs
from takeback.resources.git.put_back.restore import TargetRestore

STAY = "restored objects are not deleted again"


def names_of(contents: Contents, version: Version) -> set[bytes]:
    """Return the objects that are missing in this version."""
    found = entry.content_of(version)
    if found is None:
        return set()
    data, count = contents.read(*found), version.data[1]
    size = len(data) // count
    return {data[at : at + size] for at in range(0, len(data), size)}


def merged(contents: Contents, mine: Version, base: Version, goal: Version) -> Version:
    """Return the version in which only what the agent lost has come back, and not what others lost."""
    if entry.kind_of(goal) != entry.OBJECTS:
        return mine
    ours, then = names_of(contents, mine), names_of(contents, goal)
    agents = names_of(contents, base) - then if entry.kind_of(base) == entry.OBJECTS else ours - then
    left = ours - agents
    if not left:
        return entry.WHOLE
    data = b"".join(sorted(left))
    return entry.objects(blake3(data).hexdigest(), len(left), contents.put_bytes(data), len(data))


def is_at(contents: Contents, now: Version, goal: Version) -> bool:
    """Return True if nothing is missing that the goal has."""
    if entry.kind_of(now) != entry.OBJECTS or entry.kind_of(goal) != entry.OBJECTS:
        return False
    return names_of(contents, now) <= names_of(contents, goal)


def foresee(swaps: Sequence[Swap], contents: Contents) -> Mapping[Target, tuple[Do, str]]:
    """Return the swaps that would lose objects: they keep them, unless the whole repository goes."""
    leaving = {swap.target.name for swap in swaps if not swap.goal}
    found = {}
    for swap in swaps:
        if entry.kind_of(swap.present) != entry.OBJECTS:
            continue
        head = swap.target.name.removesuffix("objects") + "HEAD"
        goes = not swap.goal and head in leaving
        if not goes and (
            entry.kind_of(swap.goal) != entry.OBJECTS or is_at(contents, swap.present, swap.goal)
        ):
            found[swap.target] = (Do.KEEP, STAY)
    return found


def fill(work: TargetRestore, place: bytes, finder: Needs, contents: Contents) -> None:
    """Bring back what was lost. A link put in place of the folder is removed, and never followed."""
    try:
        if os.path.islink(place):
            if entry.kind_of(work.present) != entry.LINK or os.readlink(place) != entry.link_text(
                work.present
            ):
                work.did, work.why = Did.CONFLICT, "it was replaced by a link since the plan was made"
                return
            os.unlink(place)
        os.makedirs(place, exist_ok=True)
        finder.bring_all_back(names_of(contents, work.goal))
        work.did = Did.RESTORED
    except TakebackError as error:
        work.did, work.why = Did.FAILED, error.message
    except OSError as error:
        work.did, work.why = Did.FAILED, f"the system refused it: {error.strerror or error}"


def only_objects(folder: bytes) -> bool:
    """Return True if nothing but objects is left in a repository; packed refs are judged by their refs."""
    for parent, folders, files in os.walk(folder):
        if parent.rstrip(b"/") == folder.rstrip(b"/") and b"objects" in folders:
            folders.remove(b"objects")
        if [name for name in files if name != b"packed-refs"]:
            return False
    return True
