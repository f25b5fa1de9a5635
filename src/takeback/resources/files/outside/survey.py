"""Which of the paths that an action names outside the workspace can be captured before it begins.

A path means its real location: its folder with links resolved; and if it is a link itself, also its target, because
a command may write through it. A path that does not exist yet is captured from its first missing name on. What is
too large or unreadable is reported and not captured.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from takeback.core.codec import path_of, text_of
from takeback.ports.foresight import Reached, Survey
from takeback.resources.files.outside.scope import KIN

FILES_MAX, BYTES_MAX = 10_000, 256 << 20
NAMES_MAX = 1_000
"""The most names that a wildcard may stand for: each of them goes into the record of the action."""

_MACHINE = (b"/proc", b"/sys", b"/dev")
_SHARED_MEMORY = b"/dev/shm"

SETTINGS = b"takeback.toml"
_stat = os.lstat


class NotCaptured(Exception):
    """Why a place is not captured."""


class Forbidden(NotCaptured):
    """A place that must not be written to, whoever names it: a device, a kernel interface, our own state."""


class CaptureLimits(msgspec.Struct, frozen=True):
    """How much is captured for one action. Zero means no limit."""

    capture: bool = True
    files: int = FILES_MAX
    bytes: int = BYTES_MAX


class OutsideSurveyor:
    """Looks at what actions name. Only names, sizes and permissions are read."""

    def __init__(
        self,
        root: Path,
        own: Path,
        limits: Callable[[], CaptureLimits],
        claimed: Callable[[], Collection[bytes]] = tuple,
        guarding: Callable[[], Collection[bytes]] = tuple,
    ) -> None:
        """`own` is where Takeback keeps its state; `claimed` is what another resource captures, with all below it.

        `guarding` are files with which an agent could switch off its own protection: they are captured, and still
        need an approval. These three are asked for again each time.
        """
        self._root = os.fsencode(os.path.realpath(root))
        self._own = os.fsencode(os.path.realpath(own))
        self._limits_now = limits
        self._limits = CaptureLimits()
        self._claimed_now = claimed
        self._others: Collection[bytes] = ()
        self._guarding_now = guarding

    def __call__(self, named: Iterable[Reached], known: Iterable[str] = ()) -> Survey:
        """Survey what is named.

        `known` are places that are looked at anyway, such as whole folders that the run names.
        """
        found: dict[bytes, None] = {}
        missed: dict[str, None] = {}
        held: dict[str, None] = {}
        stated: dict[str, None] = {}
        whole = {os.path.normpath(path_of(place).removesuffix(KIN)) for place in known}
        self._limits, self._others = self._limits_now(), {*self._claimed_now(), *whole}
        outside = [(reached, *one) for reached in named for one in self._places(reached)]
        # Most actions name nothing outside, and these files take long to find.
        left, guarding = _Left(self._limits), self._guarding_now() if outside else ()
        for reached, called, places in outside:
            if guards := [one for one in guarding if _means(reached, called, one)]:
                held[f"an agent can switch off its own protection in {text_of(guards[0])}"] = None
            try:
                new = [place for place in places if not _is_in(place, found)]
                closed = self._take(new, reached, left)
            except NotCaptured as why:
                sure = self._limits.capture and not reached.perhaps and not _is_let_pass(reached)
                serious = sure or isinstance(why, Forbidden)
                (missed if serious else stated)[f"{text_of(called)} was not captured: {why}"] = None
                continue
            found |= dict.fromkeys(new)
            missed |= {f"{text_of(path)} was not captured: it cannot be read": None for path in closed}
        places = [place for place in found if not _is_in(os.path.dirname(place), found)]
        return Survey(tuple(map(text_of, sorted(places))), tuple(missed | held), tuple(stated))

    def _take(self, places: Sequence[bytes], reached: Reached, left: _Left) -> list[bytes]:
        for place in places:
            self._refuse(place)
        if _is_let_pass(reached):
            raise NotCaptured("it is unknown which files in it are written")
        return left.take([place for place in places if not place.endswith(KIN)])

    def _places(self, reached: Reached) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yield where a path really is, outside the workspace; or all that a wildcard may stand for."""
        path = os.path.normpath(_at_home(os.fsencode(reached.path)))
        behind = os.fsencode(reached.really) if reached.really else os.path.realpath(path)
        if reached.names is not None:
            start = os.fsencode(reached.names)
            every = dict.fromkeys(place for found in _beginning(behind, start) for place in _both(found))
            places = [place for place in every if not self._is_known(place)]
            if reached.makes and not self._is_known(behind):
                places.append(_kin(behind, start))
            yield os.path.join(behind, start + b"*"), places
            return
        folder, name = os.path.split(path)
        itself = os.path.join(os.path.realpath(folder), name)
        for place in dict.fromkeys([itself, *([] if is_machine(itself) else [behind])]):
            forbidden = is_below(place, self._own) or is_machine(place)
            if reached.perhaps and _is_folder(place) and not forbidden:
                # Many tools are given a folder, and few change all of it.
                continue
            if not self._is_known(place):
                yield place, [_first_missing(place)]

    def _is_known(self, place: bytes) -> bool:
        """Return True if it is captured anyway."""
        known = is_below(place, self._root) or _is_in(place, self._others)
        return known and not is_below(place, self._own)

    def _refuse(self, place: bytes) -> None:
        if _holds(place, self._own) or is_below(place, self._own):
            raise Forbidden("Takeback keeps its own state there")
        if is_machine(place.removesuffix(KIN)):
            raise Forbidden("it is not an ordinary folder or file")
        if os.path.basename(place) == SETTINGS:
            # An edit by another folder's session would take effect there at once.
            raise NotCaptured("these are the settings of another folder")
        if not self._limits.capture:
            raise NotCaptured("takeback.toml turns capturing outside off")
        if _holds(place, self._root):
            raise NotCaptured("it contains the workspace")
        place = place.removesuffix(KIN)
        if place == b"/":
            raise NotCaptured("it is not an ordinary folder or file")
        if not os.access(os.path.dirname(place), os.R_OK | os.X_OK):
            raise NotCaptured("its folder cannot be opened")
        if not os.access(os.path.dirname(place), os.W_OK):
            raise NotCaptured("its folder is not writable, so it could not be put back")


class _Left:
    """How much may still be captured for this action."""

    def __init__(self, limits: CaptureLimits) -> None:
        self._limits = limits
        self._files = self._bytes = 0

    def take(self, places: Sequence[bytes]) -> list[bytes]:
        """Count what is there, or refuse all of it. Return files that could be lost and cannot be read."""
        files, size, closed = self._files, self._bytes, []
        if len(places) > NAMES_MAX:
            raise NotCaptured(f"it stands for more than {NAMES_MAX:,} names")
        devices = {place: _seen(os.path.dirname(place)).st_dev for place in places}
        for top, (path, found) in ((place, one) for place in places for one in _everything(place)):
            files += 1
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
            if stat.S_ISDIR(found.st_mode) and found.st_dev != devices[top]:
                raise NotCaptured(f"{text_of(path)} is on another file system than the folder around it")
            if self._limits.files and files > self._limits.files:
                raise NotCaptured(f"with it there would be more than {self._limits.files:,} files")
            if self._limits.bytes and size > self._limits.bytes:
                raise NotCaptured(f"with it there would be more than {self._limits.bytes / 2**20:,.0f} MB")
            if stat.S_ISREG(found.st_mode) and not os.access(path, os.R_OK):
                closed.append(path)
        self._files, self._bytes = files, size
        return closed


def _everything(place: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield a path and all below it, not following links."""
    pending = [place]
    while pending:
        path = pending.pop()
        try:
            found = _stat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NotCaptured(f"{text_of(path)} cannot be read ({error.strerror})") from error
        yield path, found
        if not stat.S_ISDIR(found.st_mode):
            continue
        try:
            pending += [os.path.join(path, name) for name in os.listdir(path)]
        except FileNotFoundError:
            continue
        except OSError as error:
            if found.st_uid != os.geteuid():
                # It is closed to us, and so to the command: its content stays.
                continue
            raise NotCaptured(f"{text_of(path)} cannot be opened ({error.strerror})") from error


def _seen(path: bytes) -> os.stat_result:
    try:
        return _stat(path)
    except OSError as error:
        raise NotCaptured(f"{text_of(path)} cannot be read ({error.strerror})") from error


def _at_home(path: bytes) -> bytes:
    """Return the path for `/~name`, which stands for the home of a named user."""
    home = os.path.expanduser(path[1:]) if path.startswith(b"/~") else path
    return home if home.startswith(b"/") else path


def _first_missing(place: bytes) -> bytes:
    """Return the highest name on the way that does not exist, or the place itself."""
    while not os.path.lexists(os.path.dirname(place)):
        place = os.path.dirname(place)
    return place


def _beginning(folder: bytes, start: bytes) -> list[bytes]:
    """Return what is in a folder and has this prefix; the folder itself if it cannot be listed."""
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(start)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return [folder]


def _kin(folder: bytes, start: bytes) -> bytes:
    """Return the place for every name with a prefix in a folder; the folder itself if it does not exist yet."""
    return os.path.join(folder, start) + KIN if os.path.isdir(folder) else _first_missing(folder)


def _both(place: bytes) -> list[bytes]:
    """Return a path itself, and its target if it is a link."""
    return [place, os.path.realpath(place)] if os.path.islink(place) else [place]


def _is_in(path: bytes, places: Container[bytes]) -> bool:
    """Return True if it is one of these, or below one."""
    while path not in places:
        if path == b"/":
            return False
        path = os.path.dirname(path)
    return True


def _is_let_pass(reached: Reached) -> bool:
    """Return True if something is put into a folder that all users share, such as /tmp: that is only reported."""
    anywhere = reached.names is None or (reached.makes and not reached.names)
    somewhere = reached.somewhere and anywhere and not reached.deletes
    return somewhere and _is_shared(os.fsencode(reached.really or reached.path))


def _means(reached: Reached, called: bytes, path: bytes) -> bool:
    """Return True if writing there may change this file: it is the path, or below it."""
    if called.endswith(b"*"):
        return path.startswith(called[:-1])
    return path == called or ((reached.deletes or reached.somewhere) and is_below(path, called))


def _holds(place: bytes, path: bytes) -> bool:
    """Return True if a path is a place, or in it."""
    return path.startswith(place.removesuffix(KIN)) if place.endswith(KIN) else is_below(path, place)


def is_below(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top.rstrip(b"/") + b"/")


def is_machine(place: bytes) -> bool:
    """Return True if it is a kernel interface, and not a file on a disk."""
    return any(is_below(place, top) for top in _MACHINE) and not is_below(place, _SHARED_MEMORY)


def _is_folder(place: bytes) -> bool:
    try:
        return stat.S_ISDIR(_stat(place).st_mode)
    except OSError:
        return False


def _is_shared(place: bytes) -> bool:
    """Return True if all users write there, as in /tmp."""
    try:
        mode = _stat(place).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)
