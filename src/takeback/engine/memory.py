"""What a run remembers, as dictionaries and lists that record each change made to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

from takeback.core.change import Change
from takeback.core.memory import changes, flatten, pointer, unflatten
from takeback.core.values import plain

Read = Callable[[], Mapping[str, Any]]
"""The values by path as the journal has them now, others' undos included."""
Write = Callable[[tuple[Change, ...]], None]


class Memory:
    """The memory of one run: where its values are read from and their changes go to."""

    def __init__(self, run: str, read: Read, write: Write) -> None:
        self._run = run
        self._read = read
        self._write = write

    def value(self, path: str) -> Any:
        """What is at a path, as plain values; KeyError where there is nothing."""
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
        if above in values:  # an empty place, which is none any more
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


class Place(MutableMapping[str, Any]):
    """A dictionary in the memory. The outermost one is `run.memory`."""

    def __init__(self, memory: Memory, path: str = "") -> None:
        self._memory = memory
        self._path = path

    def __getitem__(self, key: str) -> Any:
        try:
            return _handle(self._memory, self._at(key))
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: Any) -> None:
        self._memory.put(self._at(key), _bare(value))

    def __delitem__(self, key: str) -> None:
        try:
            self._memory.drop(self._at(key))
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._memory.value(self._path))

    def __len__(self) -> int:
        return len(self._memory.value(self._path))

    def __eq__(self, other: object) -> bool:
        return bool(self._memory.value(self._path) == _bare(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._memory.value(self._path))

    def _at(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"keys of the memory are strings, not {type(key).__name__}")
        return self._path + pointer(key)


class Items(MutableSequence[Any]):
    """A list in the memory. It is one value: whatever changes in it is a change of the whole."""

    def __init__(self, memory: Memory, path: str) -> None:
        self._memory = memory
        self._path = path

    def __getitem__(self, index: Any) -> Any:
        return self._memory.value(self._path)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        items = self._memory.value(self._path)
        items[index] = value
        self._memory.put(self._path, items)

    def __delitem__(self, index: Any) -> None:
        items = self._memory.value(self._path)
        del items[index]
        self._memory.put(self._path, items)

    def insert(self, index: int, value: Any) -> None:
        items = self._memory.value(self._path)
        items.insert(index, _bare(value))
        self._memory.put(self._path, items)

    def __len__(self) -> int:
        return len(self._memory.value(self._path))

    def __eq__(self, other: object) -> bool:
        return bool(self._memory.value(self._path) == _bare(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._memory.value(self._path))


def _handle(memory: Memory, path: str) -> Any:
    value = memory.value(path)
    if isinstance(value, dict):
        return Place(memory, path)
    return Items(memory, path) if isinstance(value, list) else value


def _bare(value: Any) -> Any:
    """The plain value behind a handle."""
    if isinstance(value, Place | Items):
        return value._memory.value(value._path)
    return value
