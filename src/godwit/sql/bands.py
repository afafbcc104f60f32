"""Time bands between streams: reads `a.ts <= b.ts + INTERVAL 10 SECONDS` as `a.ts - b.ts <= 10 s`, and what follows.

All bounds of a FROM together are difference constraints; shortest paths give the tightest bound between any two time
columns, so a band may also follow from two others (a near b, b near c: a near c).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from godwit.sql.duration import interval

#: meta key of an equality of two tumbling windows, with their size: see `normalise.py`
SAME_WINDOW = "godwit_same_window_us"


@dataclass(frozen=True)
class Bound:
    """`later - earlier <= limit_us`"""

    later: str
    earlier: str
    limit_us: int

    @property
    def pair(self) -> frozenset[str]:
        return frozenset((self.later, self.earlier))


class Bands:
    """The tightest known bound between each two time columns."""

    def __init__(self, bounds: Iterable[Bound]) -> None:
        self._limit: dict[tuple[str, str], int] = {}
        for bound in bounds:
            self._tighten(bound.later, bound.earlier, bound.limit_us)
        columns = sorted({name for pair in self._limit for name in pair})
        for k in columns:
            for i in columns:
                for j in columns:
                    if (i, k) in self._limit and (k, j) in self._limit and i != j:
                        self._tighten(i, j, self._limit[i, k] + self._limit[k, j])

    def _tighten(self, later: str, earlier: str, limit: int) -> None:
        known = self._limit.get((later, earlier))
        self._limit[later, earlier] = limit if known is None else min(known, limit)

    def limit(self, later: str, earlier: str) -> int | None:
        """The most that `later - earlier` can be, if anything bounds it."""
        return self._limit.get((later, earlier))

    def band(self, left: str, right: str) -> tuple[int, int] | None:
        """(lower, upper) of `right - left`, if both are bounded."""
        upper, lower = self.limit(right, left), self.limit(left, right)
        return None if upper is None or lower is None else (-lower, upper)


def bounds(part: exp.Expr, times: frozenset[str]) -> tuple[Bound, ...]:
    """What one conjunct says about the distance of time columns. It may say more than that (`only_bounds`)."""
    size = part.meta.get(SAME_WINDOW)
    if size:
        a, b = (next(side.find_all(exp.Column)).name for side in (part.left, part.right))  # type: ignore[attr-defined]
        return (Bound(a, b, size - 1), Bound(b, a, size - 1)) if a != b else ()
    return tuple(b for b in _bounds(part, times) if b)


def only_bounds(part: exp.Expr, times: frozenset[str]) -> bool:
    """Whether a conjunct says no more than its bounds do: half a BETWEEN may be one."""
    return SAME_WINDOW not in part.meta and all(_bounds(part, times))


def _bounds(part: exp.Expr, times: frozenset[str]) -> list[Bound | None]:
    return [_bound(low, high, strict, times) for low, high, strict in _inequalities(part)]


def _inequalities(part: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, bool]]:
    """(a, b, strict) for each `a <= b` that the conjunct says."""
    match part:
        case exp.Between():
            yield part.args["low"], part.this, False
            yield part.this, part.args["high"], False
        case exp.LT() | exp.LTE():
            yield part.left, part.right, isinstance(part, exp.LT)
        case exp.GT() | exp.GTE():
            yield part.right, part.left, isinstance(part, exp.GT)
        case exp.EQ():
            yield part.left, part.right, False
            yield part.right, part.left, False
        case exp.Paren():
            yield from _inequalities(part.this)


def _bound(low: exp.Expr, high: exp.Expr, strict: bool, times: frozenset[str]) -> Bound | None:
    a, b = _linear(low, times), _linear(high, times)
    if a is None or b is None:
        return None
    weights = {name: a[0].get(name, 0) - b[0].get(name, 0) for name in {**a[0], **b[0]}}
    plus = [name for name, weight in weights.items() if weight == 1]
    minus = [name for name, weight in weights.items() if weight == -1]
    if len(plus) != 1 or len(minus) != 1 or any(abs(w) > 1 for w in weights.values()):
        return None
    # timestamps are whole microseconds, so `<` is `<=` one less
    return Bound(plus[0], minus[0], b[1] - a[1] - (1 if strict else 0))


def _linear(node: exp.Expr, times: frozenset[str]) -> tuple[dict[str, int], int] | None:
    """The expression as a sum of time columns and a constant; None if it is no such sum."""
    length = interval(node)
    if length is not None:
        return {}, length
    match node:
        case exp.Paren():
            return _linear(node.this, times)
        case exp.Column():
            return ({node.name: 1}, 0) if node.name in times else None
        case exp.Add() | exp.Sub():
            left, right = _linear(node.left, times), _linear(node.right, times)
            if left is None or right is None:
                return None
            sign = 1 if isinstance(node, exp.Add) else -1
            keys = {**left[0], **right[0]}
            return {k: left[0].get(k, 0) + sign * right[0].get(k, 0) for k in keys}, left[1] + sign * right[1]
    return None
