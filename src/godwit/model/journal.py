"""Undo for plain dicts: every write notes what was there before.

The planner keeps its tables in dicts of immutable values and writes them only through a journal. To take back a
placement that did not fit, a dry run or a whole reconfiguration is then one call, exact, and as cheap as the writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Any = object()


class Journal:
    """What has been written since the last `forget`, newest last."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[Any, Any], Any, Any]] = []
        #: (since which mark, up to which) -> table, by its id -> what its keys had at the mark
        self._firsts: tuple[tuple[int, int], dict[int, dict[Any, Any]]] = ((0, 0), {})

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        self._before.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Remove the key, if it is there."""
        if key in table:
            self._before.append((table, key, table.pop(key)))

    def into(self, table: dict[K, dict[Any, V]], outer: K, inner: Any, value: V) -> None:
        """Write `table[outer][inner]`, making the inner table where there is none."""
        if outer not in table:
            self.put(table, outer, {})
        self.put(table[outer], inner, value)

    def out_of(self, table: dict[K, dict[Any, V]], outer: K, inner: Any) -> None:
        """Remove `table[outer][inner]`, and the inner table with its last entry."""
        row = table.get(outer)
        if row is None:
            return
        self.drop(row, inner)
        if not row:
            self.drop(table, outer)

    def mark(self) -> int:
        """A point to which `undo` can return."""
        return len(self._before)

    def changed(self, table: Mapping[K, V], since: int = 0) -> dict[K, V | None]:
        """The keys of a table that differ from what they were at the mark, with what they had then (None: nothing)."""
        return {
            key: None if before is _ABSENT else before
            for key, before in self._first(table, since).items()
            if table.get(key, _ABSENT) != before
        }

    def was_absent(self, table: Mapping[K, V], key: K, since: int = 0) -> bool:
        """Whether the key, written since the mark, was not there before."""
        return self._first(table, since).get(key) is _ABSENT

    def _first(self, table: Mapping[K, V], since: int) -> dict[K, V]:
        """What the keys that were written since the mark had before. Callers ask for many tables, and again after
        some writes: each write is looked at once."""
        (known, upto), found = self._firsts
        if known != since:
            upto, found = since, {}
        for written, key, before in self._before[upto:]:
            found.setdefault(id(written), {}).setdefault(key, before)
        self._firsts = ((since, len(self._before)), found)
        return found.get(id(table), {})

    def undo(self, mark: int = 0) -> None:
        while len(self._before) > mark:
            self._firsts = ((0, 0), {})
            table, key, value = self._before.pop()
            if value is _ABSENT:
                del table[key]
            else:
                table[key] = value

    def forget(self) -> None:
        """What was written so far can no longer be taken back."""
        self._before.clear()
        self._firsts = ((0, 0), {})
