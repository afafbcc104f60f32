"""What a box of joins demands of its rows, whatever the order: keys, bands between times, and the rest.

Read back from the joins of a plan, so a plan that was reordered, shared or restored from a log says it as well as one
that has just been compiled. A band that follows from others counts as said (`sql/bands.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from godwit.model.plan import Join
from godwit.sql.bands import Bands, Bound, bounds, only_bounds
from godwit.sql.dialect import parse, text
from godwit.sql.draft import conjuncts, names


@dataclass(frozen=True)
class BoxLeaf:
    """An input of the box: a stream, or a sub-query of one."""

    alias: str
    #: the operator whose rows come in
    root: int
    #: the column by which its rows are paired, and how far that lags behind the query's clock
    time: str
    lag_us: int
    columns: frozenset[str]


@dataclass(frozen=True)
class Residual:
    sql: str
    aliases: frozenset[str]
    #: it says bounds between times, and nothing else
    bound: bool = False


@dataclass(frozen=True)
class KeyPair:
    """`left` (over columns of `left_aliases`) = `right`."""

    left: str
    right: str
    left_aliases: frozenset[str]
    right_aliases: frozenset[str]


@dataclass(frozen=True)
class JoinConditions:
    leaves: tuple[BoxLeaf, ...]
    keys: tuple[KeyPair, ...]
    bounds: tuple[Bound, ...]
    residuals: tuple[Residual, ...]
    #: those of the bounds that residuals say
    told: tuple[Bound, ...] = ()
    #: column -> its type, where it is known
    types: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def read(joins: Iterable[Join], leaves: tuple[BoxLeaf, ...], types: Mapping[str, str]) -> JoinConditions:
        joins = tuple(joins)
        owner = {column: leaf.alias for leaf in leaves for column in leaf.columns}
        # Any timestamp may stand between two times: b.ts <= a.expires and a.expires <= a.ts + 20 s.
        stamps = {column for column, kind in types.items() if kind == "timestamp" and column in owner}
        times = frozenset(
            stamps | {leaf.time for leaf in leaves} | {t for j in joins for t in (j.left_time, j.right_time)}
        )

        def aliases(sql: exp.Expr) -> frozenset[str]:
            return frozenset(owner[name] for name in names([sql]) if name in owner)

        keys = [KeyPair(a, b, aliases(expression(a)), aliases(expression(b))) for j in joins for a, b in j.keys]
        rest = [part for j in joins if j.residual for part in conjuncts(expression(j.residual))]
        told = [b for part in rest for b in bounds(part, times)]
        said = [b for j in joins for b in _both_ways(j.left_time, j.right_time, j.lower_us, j.upper_us)]
        return JoinConditions(
            leaves,
            tuple(dict.fromkeys(keys)),
            tuple(dict.fromkeys(said + told)),
            tuple(
                dict.fromkeys(
                    Residual(text(part), aliases(part), bool(bounds(part, times)) and only_bounds(part, times))
                    for part in rest
                )
            ),
            tuple(dict.fromkeys(told)),
            tuple(sorted((c, t) for c, t in types.items() if c in owner)),
        )

    @cached_property
    def bands(self) -> Bands:
        return Bands(self.bounds)

    @cached_property
    def leaf(self) -> dict[str, BoxLeaf]:
        return {leaf.alias: leaf for leaf in self.leaves}

    @cached_property
    def groups(self) -> tuple[frozenset[str], ...]:
        """Columns that must be equal, also through others, where all types are the same (a cast breaks the chain)."""
        types = dict(self.types)
        found: list[frozenset[str]] = []
        for key in self.keys:
            pair = frozenset((key.left, key.right))
            kinds = {types.get(name) for name in pair}
            if len(kinds) == 1 and None not in kinds:
                touching = [g for g in found if g & pair]
                found = [g for g in found if not g & pair] + [pair.union(*touching)]
        return tuple(sorted(found, key=sorted))

    def keys_between(self, left: frozenset[str], right: frozenset[str]) -> tuple[tuple[str, str], ...]:
        """(over the left, over the right): what is said directly, else what follows through other streams."""
        direct = [(k.left, k.right) for k in self.keys if k.left_aliases <= left and k.right_aliases <= right]
        turned = [(k.right, k.left) for k in self.keys if k.left_aliases <= right and k.right_aliases <= left]
        if direct or turned:
            return tuple(direct + turned)
        mine, theirs = self._columns(left), self._columns(right)
        return tuple((min(g & mine), min(g & theirs)) for g in self.groups if g & mine and g & theirs)

    def band_between(self, left: frozenset[str], right: frozenset[str]) -> tuple[str, str, int, int] | None:
        """(left time, right time, lower, upper): said directly if it can be, else the narrowest that follows."""
        direct = {bound.pair for bound in self.bounds}
        pairs = [(self.leaf[x].time, self.leaf[y].time) for x in left for y in right]
        found = [(a, b, band) for a, b in pairs if (band := self.bands.band(a, b)) is not None]
        choices = [(frozenset((a, b)) not in direct, band[1] - band[0], a, b, *band) for a, b, band in found]
        return min(choices)[2:] if choices else None

    def joinable(self, left: frozenset[str], right: frozenset[str]) -> bool:
        return bool(self.keys_between(left, right)) and self.band_between(left, right) is not None

    def residuals_at(self, left: frozenset[str], right: frozenset[str]) -> tuple[str, ...]:
        """What else is decided at this join: all that reads both inputs and is neither its keys nor its band."""
        due = [r for r in self.residuals if self._due(r.aliases, left, right)]
        equal = [
            f"{k.left} = {k.right}"
            for k in self.keys
            if self._due(k.left_aliases | k.right_aliases, left, right)
            and not (k.left_aliases <= left and k.right_aliases <= right)
            and not (k.left_aliases <= right and k.right_aliases <= left)
        ]
        return (*(r.sql for r in due), *equal, *self._further_bounds(left, right))

    def _due(self, reads: frozenset[str], left: frozenset[str], right: frozenset[str]) -> bool:
        below = any(reads <= side and len(side) > 1 for side in (left, right))
        return reads <= left | right and not below

    def _further_bounds(self, left: frozenset[str], right: frozenset[str]) -> list[str]:
        """Bounds across the join that do not follow from its band, from what holds below it, or from a residual."""
        band = self.band_between(left, right)
        assert band is not None
        mine, theirs = self._columns(left), self._columns(right)
        below = [b for b in self.bounds if b.pair <= mine or b.pair <= theirs]
        known = [*below, *_both_ways(*band), *(b for b in self.told if self._crosses(b, mine, theirs))]
        found = []
        for bound in self.bounds:
            if self._crosses(bound, mine, theirs):
                limit = Bands(known).limit(bound.later, bound.earlier)
                if limit is None or limit > bound.limit_us:
                    found.append(_bound_sql(bound))
                    known.append(bound)
        return found

    @staticmethod
    def _crosses(bound: Bound, left: frozenset[str], right: frozenset[str]) -> bool:
        return bound.pair <= left | right and not bound.pair <= left and not bound.pair <= right

    def need_us(self, time: str, others: Iterable[str]) -> int:
        """For how long after `time` a row can still meet a new row of these leaves, directly or through others."""
        limits = [(self.bands.limit(self.leaf[o].time, time), self.leaf[o].lag_us) for o in others]
        return max([0, *(limit + lag for limit, lag in limits if limit is not None)])

    def within(self, aliases: frozenset[str]) -> tuple[object, ...]:
        """A normal form of all that is demanded of these leaves: equal exactly for equal demands, in any order."""
        columns = self._columns(aliases)
        grouped = {name for group in self.groups for name in group}
        times = sorted({name for bound in self.bounds for name in bound.pair} & columns)
        return (
            sorted(sorted(group & columns) for group in self.groups if len(group & columns) > 1),
            sorted(
                sorted((k.left, k.right))
                for k in self.keys
                if k.left_aliases | k.right_aliases <= aliases and not {k.left, k.right} <= grouped
            ),
            [(a, b, limit) for a in times for b in times if a != b and (limit := self.bands.limit(a, b)) is not None],
            sorted(r.sql for r in self.residuals if r.aliases <= aliases and not r.bound),
        )

    def _columns(self, aliases: frozenset[str]) -> frozenset[str]:
        return frozenset(column for leaf in self.leaves if leaf.alias in aliases for column in leaf.columns)


def expression(sql: str) -> exp.Expr:
    """A scalar expression of a plan as a syntax tree."""
    (select,) = parse(f"SELECT {sql}")
    assert isinstance(select, exp.Select)
    found = select.expressions[0]
    assert isinstance(found, exp.Expr)
    return found


def _both_ways(left: str, right: str, lower_us: int, upper_us: int) -> tuple[Bound, Bound]:
    return Bound(right, left, upper_us), Bound(left, right, -lower_us)


def _bound_sql(bound: Bound) -> str:
    sign = "-" if bound.limit_us < 0 else "+"
    return f"{bound.later} <= {bound.earlier} {sign} INTERVAL '{abs(bound.limit_us)}' MICROSECOND"
