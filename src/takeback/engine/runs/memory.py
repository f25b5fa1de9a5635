"""The memory of a run, as dictionaries and lists that record each change made to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

from takeback.core.change import Change
from takeback.core.memory import changes, flatten, pointer, unflatten
from takeback.core.values import DEEPEST, plain
from takeback.errors import UsageError

Read = Callable[[], Mapping[str, Any]]
"""Returns the present values by path, including the effect of undos by others."""
Write = Callable[[tuple[Change, ...]], None]


class RunMemory:
    """The memory of one run: reads its values and records their changes."""

    def __init__(self, run: str, read: Read, write: Write) -> None:
        self._run = run
        self._read = read
        self._write = write

    def value(self, path: str) -> Any:
        """Return what is at a path, as plain values; KeyError if there is nothing."""
        below = self._below(path)
        if not below:
            if path:
                raise KeyError(path)
            return {}
        if path in below and len(below) == 1:
            return unflatten({"/v": below[path]})["v"]
        return unflatten({found[len(path) :]: value for found, value in below.items() if found != path})

    def put(self, path: str, value: Any) -> None:
        after = flatten(plain(value, f"memory{path}"), path)
        before = self._below(path)
        above = path.rpartition("/")[0]
        values = self._read()
        if above in values:  # an empty dictionary, which is not empty any more
            before[above] = values[above]
        self._record(before, after)

    def drop(self, path: str) -> None:
        before = self._below(path)
        if not before:
            raise KeyError(path)
        above = path.rpartition("/")[0]
        siblings = [found for found in self._below(above) if found not in before]
        self._record(before, {above: {}} if above and not siblings else {})

    def _below(self, path: str) -> dict[str, Any]:
        return {p: v for p, v in self._read().items() if p == path or p.startswith(f"{path}/")}

    def _record(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        made = changes(self._run, before, after)
        if made:
            self._write(made)


class Handle(ABC):
    """A proxy that behaves like the plain value in memory that it stands for."""

    @abstractmethod
    def plain(self) -> Any:
        """Return the present value."""

    def __len__(self) -> int:
        return len(self.plain())

    def __eq__(self, other: object) -> bool:
        return bool(self.plain() == _bare(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.plain())


class Mapped(MutableMapping[str, Any]):
    """A dictionary that never returns the object that was put into it: a change of that would be lost."""

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]


class DictHandle(Handle, Mapped):
    """A dictionary in memory, each key of which is a target. The outermost one is `run.memory`."""

    def __init__(self, memory: RunMemory, path: str = "") -> None:
        self._memory = memory
        self._path = path

    def plain(self) -> Any:
        return self._memory.value(self._path)

    def __getitem__(self, key: str) -> Any:
        path = self._path + _pointer(key)
        try:
            value = self._memory.value(path)
        except KeyError:
            raise KeyError(key) from None
        if isinstance(value, dict):
            return DictHandle(self._memory, path)
        return _inside(Cell(lambda: self._memory.value(path), lambda new: self._memory.put(path, new)))

    def __setitem__(self, key: str, value: Any) -> None:
        self._memory.put(self._path + _pointer(key), _bare(value))

    def __delitem__(self, key: str) -> None:
        try:
            self._memory.drop(self._path + _pointer(key))
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain())


class Cell:
    """A value that is read and written as a whole, such as a list with everything in it."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.get = get
        self.put = put

    def inside(self, key: Any) -> Cell:
        return Cell(
            lambda: self.get()[key], lambda value: self.change(lambda whole: whole.__setitem__(key, value))
        )

    def change(self, how: Callable[[Any], object]) -> None:
        whole = self.get()
        how(whole)
        self.put(whole)


class ListHandle(Handle):
    """A list, or an element of one: a change in it is a change of the whole list."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def plain(self) -> Any:
        return self._cell.get()

    def __getitem__(self, key: Any) -> Any:
        return self.plain()[key] if isinstance(key, slice) else _inside(self._cell.inside(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._cell.change(lambda whole: whole.__setitem__(key, _bare(value)))

    def __delitem__(self, key: Any) -> None:
        self._cell.change(lambda whole: whole.__delitem__(key))


class Items(ListHandle, MutableSequence[Any]):
    """A list."""

    def insert(self, index: int, value: Any) -> None:
        self._cell.change(lambda whole: whole.insert(index, _bare(value)))


class Entries(ListHandle, Mapped):
    """A dictionary in a list."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain())


def _pointer(key: str) -> str:
    if not isinstance(key, str):
        raise UsageError(
            f"keys of the memory are strings, not {type(key).__name__}; nothing was changed",
            hint="write it as a string, as in run.memory[str(key)]",
        )
    return pointer(key)


def _inside(cell: Cell) -> Any:
    value = cell.get()
    if isinstance(value, dict):
        return Entries(cell)
    return Items(cell) if isinstance(value, list) else value


def _bare(value: Any, depth: int = 0) -> Any:
    """Return a value with handles replaced by plain values."""
    if depth > DEEPEST:
        return value  # it is refused later, when it is recorded
    if isinstance(value, Handle):
        return value.plain()
    if isinstance(value, dict):
        return {key: _bare(item, depth + 1) for key, item in value.items()}
    return [_bare(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value
