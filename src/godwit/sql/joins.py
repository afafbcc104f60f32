"""What stands in FROM, put together: left-deep joins in the order written (or another), each with keys, band, rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

from sqlglot import exp

from godwit.model.joins import How
from godwit.sql.bands import Bands, Bound, bounds, only_bounds
from godwit.sql.draft import Draft, JoinNode, OuterNode, column, filtered, names
from godwit.sql.fault import SqlFault
from godwit.sql.scope import NameScope, Relation, ScopeField

MAX_STREAMS = 5


def combine(scope: NameScope, parts: tuple[exp.Expr, ...], order: tuple[int, ...] = ()) -> tuple[Draft, NameScope]:
    """One draft for all relations of a FROM under the conjuncts of its ON and WHERE, and the scope above it.

    `order`: positions of the relations in the order to join them; without it, as they are written.
    """
    check_width(scope.relations)
    if not order:
        return Joiner(scope, parts).run()
    draft, above = Joiner(NameScope(tuple(scope.relations[i] for i in order)), parts).run()
    # Whatever the order, SELECT * lists columns as they are written.
    return draft, NameScope(tuple(above.relations[order.index(i)] for i in range(len(order))))


def check_width(relations: tuple[Relation, ...]) -> None:
    if len(relations) > MAX_STREAMS:
        msg = f"{len(relations)} streams are joined; at most {MAX_STREAMS} can be"
        remedy = "join some of them in a query of their own and INSERT INTO a derived stream"
        raise SqlFault(msg, relations[MAX_STREAMS].origin, remedy)


class Joiner:
    """Joins relation after relation, handing every conjunct to the first place where it can be decided."""

    def __init__(
        self,
        scope: NameScope,
        parts: tuple[exp.Expr, ...],
        begun: tuple[Draft, int] | None = None,
        held: tuple[exp.Expr, ...] = (),
    ) -> None:
        """`begun`: the relation that the first ones have already been joined to; `held`: what is known to hold
        there."""
        self._relations, self._begun = scope.relations, begun
        self._owner = {f.flat: i for i, r in enumerate(scope.relations) for f in r.fields}
        self._field = {f.flat: f for r in scope.relations for f in r.fields}
        self._lag = {f.flat: f.lag_us for f in self._field.values() if f.lag_us is not None}
        #: the same before anything is joined
        self._own_lag = dict(self._lag)
        # Any timestamp may stand between two times: b.ts <= a.expires and a.expires <= a.ts + 20 s.
        self._instants = frozenset(self._lag) | {name for name, f in self._field.items() if f.type == "timestamp"}
        self._parts = [(p, self._owners(p), bounds(p, self._instants)) for p in parts]
        self._held = Bands(b for part in held for b in bounds(part, self._instants))
        known = [b for part in held for b in bounds(part, self._instants)]
        self._bands = Bands([*known, *(b for _, _, found in self._parts for b in found)])

    def _owners(self, part: exp.Expr) -> frozenset[int]:
        return frozenset(self._owner[name] for name in names([part])) or frozenset((0,))

    def run(self) -> tuple[Draft, NameScope]:
        draft, first = self._begun or (self._source(0), 1)
        if self._begun:
            draft = filtered(draft, (p for p, owners, _ in self._parts if max(owners) < first))
        for i in range(first, len(self._relations)):
            draft = self._join(draft, i)
        told = [tuple(replace(f, lag_us=self._lag.get(f.flat)) for f in r.fields) for r in self._relations]
        return draft, NameScope(tuple(replace(r, fields=f) for r, f in zip(self._relations, told, strict=True)))

    def _source(self, i: int) -> Draft:
        """A relation with the conjuncts that concern it alone."""
        own = (part for part, owners, _ in self._parts if owners == {i})
        return filtered(self._relations[i].draft, own)

    def _join(self, left: Draft, i: int, more: tuple[exp.Expr, ...] = ()) -> JoinNode:
        """`more`: conditions on the pairs, whatever they read."""
        due = [(p, found) for p, owners, found in self._parts if i in owners and len(owners) > 1 and max(owners) <= i]
        direct = [(p, key) for p, _ in due if (key := self._key(p, i)) is not None]
        keys = [key for _, key in direct] or self._derived_keys(i)
        if not keys:
            raise self._no_key(i)
        left_time, right_time, lower, upper = self._band(i, [found for _, found in due])
        settled = {id(p) for p, _ in direct} | {
            id(p)
            for p, found in due
            if found and all(b.pair == {left_time, right_time} for b in found) and only_bounds(p, self._instants)
        }
        joined = JoinNode(
            left=left,
            right=self._source(i),
            keys=tuple(keys),
            left_time=left_time,
            right_time=right_time,
            lower_us=lower,
            upper_us=upper,
            left_lag_us=self._lag[left_time],
            right_lag_us=self._lag[right_time],
            residual=(*(p for p, _ in due if id(p) not in settled), *more),
            keep_us=(self._needed(left_time) if i == 1 else 0, self._needed(right_time)),
        )
        self._lag_before = dict(self._lag)
        self._times_before = ([t for k in range(i) for t in self._times(k)], list(self._times(i)))
        self._age(i)
        return joined

    def outer(self, how: How) -> tuple[Draft, NameScope]:
        """The last relation is joined so that rows without a partner count; the parts are the join's ON."""
        assert self._begun is not None
        left, i = self._begun
        pushed = () if how in ("right", "full") else tuple(p for p, owners, _ in self._parts if owners == {i})
        joined = self._join(left, i, tuple(p for p, owners, _ in self._parts if p not in pushed and i not in owners))
        known = {name: field.type for name, field in self._field.items()}
        band = {f.name: getattr(joined, f.name) for f in fields(JoinNode)}
        rest = tuple(p for p, owners, _ in self._parts if owners == {i} and p not in pushed)
        band |= {"right": filtered(self._relations[i].draft, pushed), "residual": (*joined.residual, *rest)}
        made = OuterNode(**band, how=how, types=known, origin=self._relations[i].origin)
        lags = self._lags_after(made, i)
        relations = self._relations[:i] if how in ("semi", "anti") else self._relations
        told = (replace(r, fields=tuple(replace(f, lag_us=lags.get(f.flat)) for f in r.fields)) for r in relations)
        return made, NameScope(tuple(told))

    def _lags_after(self, made: OuterNode, i: int) -> dict[str, int]:
        """Of the side whose rows are all there: they come out when no partner can come any more. Times that may be NULL
        are time columns no longer."""
        if made.how == "full":
            return {}
        wait_left = max(made.left_lag_us, made.right_lag_us + made.upper_us)
        wait_right = max(made.right_lag_us, made.left_lag_us - made.lower_us)
        if made.how == "right":
            mine, chosen, wait = list(self._times_before[1]), made.right_time, wait_right
        else:
            mine, chosen, wait = list(self._times_before[0]), made.left_time, wait_left
        apart = {time: 0 if time == chosen else self._held.limit(chosen, time) for time in mine}
        known = self._lag_before
        return {t: max(0, known[t], wait + far) for t, far in apart.items() if far is not None}

    def _key(self, part: exp.Expr, i: int) -> tuple[exp.Expr, exp.Expr] | None:
        """The two sides of an equality between relation i and the ones before it, the earlier first."""
        if not isinstance(part, exp.EQ):
            return None
        sides = [(names([side]), side) for side in (part.left, part.right)]
        if not all(read for read, _ in sides):
            return None
        new = [{self._owner[n] for n in read} == {i} for read, _ in sides]
        old = [i not in {self._owner[n] for n in read} for read, _ in sides]
        if old[0] and new[1]:
            return part.left, part.right
        return (part.right, part.left) if new[0] and old[1] else None

    def _derived_keys(self, i: int) -> list[tuple[exp.Expr, exp.Expr]]:
        """a.k = c.k AND b.k = c.k make a.k = b.k, where all types are the same (a cast could break the chain)."""
        groups: list[set[str]] = []
        for part, _, _ in self._parts:
            if isinstance(part, exp.EQ) and isinstance(part.left, exp.Column) and isinstance(part.right, exp.Column):
                pair = {part.left.name, part.right.name}
                if len({self._field[n].type for n in pair}) == 1 and self._field[part.left.name].type:
                    touching = [g for g in groups if g & pair]
                    groups = [g for g in groups if not g & pair] + [pair.union(*touching)]
        return [
            (column(old[0]), column(new[0]))
            for group in groups
            if (old := sorted(n for n in group if self._owner[n] < i))
            and (new := sorted(n for n in group if self._owner[n] == i))
        ]

    def _band(self, i: int, said: list[tuple[Bound, ...]]) -> tuple[str, str, int, int]:
        """The time columns to pair by: those the query speaks of if it can be, else the narrowest derived band."""
        spoken = {b.pair for found in said for b in found}
        choices = []
        for right in self._times(i):
            for left in (name for k in range(i) for name in self._times(k)):
                band = self._bands.band(left, right)
                if band is not None:
                    choices.append((frozenset((left, right)) not in spoken, band[1] - band[0], left, right, *band))
        if not choices:
            raise self._no_band(i)
        _, _, left, right, lower, upper = min(choices)
        if lower > upper:
            a, b = _dotted(self._field[right], self._relations), _dotted(self._field[left], self._relations)
            msg = f"no two rows can lie in this band: {a} - {b} between {lower / 1e6:g} s and {upper / 1e6:g} s"
            raise SqlFault(msg, self._relations[i].origin, "check the signs of the intervals")
        return left, right, lower, upper

    def _times(self, i: int) -> Iterator[str]:
        return (f.flat for f in self._relations[i].fields if f.flat in self._lag)

    def _age(self, i: int) -> None:
        """A pair appears when its later row does, so the time of its older row lags by up to the band more."""
        sides = [[t for k in range(i) for t in self._times(k)], list(self._times(i))]
        aged: dict[str, int] = {}
        for mine, others in (sides, sides[::-1]):
            for time in mine:
                reach = [self._lag[o] + d for o in others if (d := self._bands.limit(o, time)) is not None]
                if reach:
                    aged[time] = max(0, self._lag[time], min(reach))
        for time in (*sides[0], *sides[1]):
            self._lag.pop(time)
        self._lag |= aged

    def _needed(self, time: str) -> int:
        """For how long after its time a row of one stream can be part of a new result, in whatever order the streams
        are joined: a change of the order finds all that it needs."""
        if len(self._relations) < 3:
            return 0
        limits = ((self._bands.limit(other, time), lag) for other, lag in self._own_lag.items() if other != time)
        return max([0, *(limit + lag for limit, lag in limits if limit is not None)])

    def _no_key(self, i: int) -> SqlFault:
        others = _aliases(self._relations[:i])
        me = self._relations[i].alias
        msg = f"'{me}' is joined with {others} without an equality"
        return SqlFault(msg, self._relations[i].origin, f"add one, e.g. ON {self._relations[0].alias}.key = {me}.key")

    def _no_band(self, i: int) -> SqlFault:
        me, others = self._relations[i], self._relations[:i]
        said = (b.pair for _, owners, found in self._parts if i in owners for b in found)
        half = "by only half" if any(pair <= self._lag.keys() for pair in said) else "without"
        msg = f"'{me.alias}' is joined with {_aliases(others)} {half} a time band, so every row would be kept for ever"
        mine, theirs = next(self._times(i), None), next((t for k in range(i) for t in self._times(k)), None)
        if mine is None or theirs is None:
            lacking = me.alias if mine is None else _aliases(others)
            return SqlFault(msg, me.origin, f"{lacking} has no time column left: select its time column bare, as ts")
        a, b = _dotted(self._field[theirs], others), _dotted(self._field[mine], (me,))
        band = f"{b} BETWEEN {a} - INTERVAL 10 SECONDS AND {a} + INTERVAL 10 SECONDS"
        return SqlFault(msg, me.origin, f"add one over their time columns, e.g. AND {band}")


def _aliases(relations: Iterable[Relation]) -> str:
    return ", ".join(f"'{r.alias}'" for r in relations)


def _dotted(field: ScopeField, relations: Iterable[Relation]) -> str:
    return next(f"{r.alias}.{field.name}" for r in relations if field in r.fields)
