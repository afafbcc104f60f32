"""Which aggregates keep the values themselves, and not a few numbers made of them: for `explain`."""

from __future__ import annotations

from collections.abc import Iterable

_ALL = frozenset(("percentile", "mode", "collect_list"))
_DIFFERENT = frozenset(("count_distinct", "collect_set"))


def values_kept(functions: Iterable[str]) -> str:
    """What a partial row has beside numbers, in words; nothing, where it has numbers only."""
    called = set(functions)
    told = []
    if called & _ALL:
        told.append(f"every value for {', '.join(sorted(called & _ALL))}")
    if called & _DIFFERENT:
        told.append(f"each different value for {', '.join(sorted(called & _DIFFERENT))}")
    return f" (with {' and '.join(told)})" if told else ""
