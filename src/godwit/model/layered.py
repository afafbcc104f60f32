"""A large frozen table that differs from the one before in a few rows, without copying it.

A layered table is a shared base and a small patch over it. When the patch has grown to about the root of the base's
size, the two are merged into a new base, so that a change costs that root, not the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE: Any = object()
_UNCHANGED: Any = object()
#: tables up to this size are simply copied
SMALL = 256


class Layered(Mapping[K, V]):
    __slots__ = ("_base", "_patch", "_size")

    def __init__(self, base: dict[K, V], patch: dict[K, V], size: int) -> None:
        self._base, self._patch, self._size = base, patch, size

    def __getitem__(self, key: K) -> V:
        value = self._patch.get(key, _UNCHANGED)
        if value is _UNCHANGED:
            return self._base[key]
        if value is _GONE:
            raise KeyError(key)
        return value  # type: ignore[no-any-return]

    def get(self, key: K, default: Any = None) -> Any:
        value = self._patch.get(key, _UNCHANGED)
        if value is _UNCHANGED:
            return self._base.get(key, default)
        return default if value is _GONE else value

    def __contains__(self, key: object) -> bool:
        value = self._patch.get(key, _UNCHANGED)  # type: ignore[arg-type]
        return key in self._base if value is _UNCHANGED else value is not _GONE

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._base if key not in self._patch)
        yield from (key for key, value in self._patch.items() if value is not _GONE)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return repr(dict(self))


class TableBuilder(Generic[K, V]):
    """A table being changed: holds only the changed rows, reads the rest from below."""

    def __init__(self, table: Mapping[K, V]) -> None:
        if isinstance(table, Layered):
            self._base, self._patch = table._base, dict(table._patch)
        else:
            self._base, self._patch = table if isinstance(table, dict) else dict(table), {}
        self._size = len(table)

    def get(self, key: K) -> V | None:
        value = self._patch.get(key, _UNCHANGED)
        if value is _UNCHANGED:
            return self._base.get(key)
        return None if value is _GONE else value

    def __getitem__(self, key: K) -> V:
        if key not in self:
            raise KeyError(key)
        return self.get(key)  # type: ignore[return-value]

    def __contains__(self, key: K) -> bool:
        value = self._patch.get(key, _UNCHANGED)
        return key in self._base if value is _UNCHANGED else value is not _GONE

    def __setitem__(self, key: K, value: V) -> None:
        self._size += key not in self
        self._patch[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        if key in self._base:
            self._patch[key] = _GONE
        else:
            del self._patch[key]

    def fill(self, keys: Iterable[K], value: V) -> None:
        """The same value for many keys."""
        new = dict.fromkeys(keys, value)
        there = sum(map(self.__contains__, new)) if self._size else 0
        self._size += len(new) - there
        self._patch.update(new)

    def frozen(self) -> Mapping[K, V]:
        """The table with the changes."""
        if len(self._base) > SMALL and len(self._patch) ** 2 <= 4 * len(self._base):
            return Layered(self._base, self._patch, self._size)
        merged = {**self._base, **self._patch}
        for key in [key for key, value in self._patch.items() if value is _GONE]:
            del merged[key]
        return merged


def differing(old: Mapping[K, V], new: Mapping[K, V]) -> dict[K, V | None]:
    """The rows that differ, as the new table has them; None: it has none. Of tables with one base, patches say."""
    if old is new:
        return {}
    (base, left), (other, right) = _layers(old), _layers(new)
    keys: Iterable[K] = {**left, **right} if base is other else {**dict.fromkeys(old), **dict.fromkeys(new)}
    if not old:
        return dict(new)
    return {key: value for key in keys if (value := new.get(key)) is not (was := old.get(key)) and value != was}


def _layers(table: Mapping[K, V]) -> tuple[Mapping[K, V], dict[K, V]]:
    return (table._base, table._patch) if isinstance(table, Layered) else (table, {})
