"""GROUP BY ROLLUP(..), CUBE(..), GROUPING SETS(..): several groupings in one query.

As Spark does it: every row goes into each grouping, with a number that says which; a key that the grouping leaves out
is NULL there. So it is one aggregate with one key more. The window is part of every grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from godwit.sql.draft import Draft, ExplodeNode, column
from godwit.sql.fault import SqlFault
from godwit.sql.functions import GROUPING

#: the number of a grouping
SET = "__set"
_SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)
_MOST = 64
BESIDE = "write the window beside it: GROUP BY window(ts, '10 seconds'), ROLLUP(train, coach)"

_Set = tuple[exp.Expr, ...]


@dataclass(frozen=True, eq=False)
class GroupingSets:
    #: every key there is
    items: tuple[exp.Expr, ...]
    sets: tuple[_Set, ...]

    def is_partial(self, item: exp.Expr) -> bool:
        """Whether a grouping leaves it out."""
        return not all(item in chosen for chosen in self.sets)

    def value(self, item: exp.Expr, resolved: exp.Expr) -> exp.Expr:
        """The key in whichever grouping a row is in."""
        return exp.Case(ifs=[exp.If(this=self._has(item), true=resolved.copy())]) if self.is_partial(item) else resolved

    def left_out(self, item: exp.Expr) -> exp.Expr:
        """grouping(item), of Spark's type"""
        zero, one = exp.Literal.number(0), exp.Literal.number(1)
        case = exp.Case(ifs=[exp.If(this=self._has(item), true=zero)], default=one)
        return exp.Cast(this=case if self.is_partial(item) else zero.copy(), to=exp.DataType.build("tinyint"))

    def spread(self, source: Draft) -> Draft:
        """Each row once for every grouping."""
        numbers = exp.Array(expressions=[exp.Literal.number(n) for n in range(len(self.sets))])
        return ExplodeNode(source, exp.Anonymous(this="explode", expressions=[numbers]), SET)

    def _has(self, item: exp.Expr) -> exp.Expr:
        numbers = [exp.Literal.number(n) for n, chosen in enumerate(self.sets) if item in chosen]
        return exp.In(this=column(SET), expressions=numbers)


def has_sets(select: exp.Select) -> bool:
    group = select.args.get("group")
    return group is not None and (any(isinstance(item, _SEVERAL) for item in group.expressions) or _with(group))


def grouping_sets(group: exp.Group, meant: Callable[[exp.Expr], exp.Expr]) -> GroupingSets | None:
    """What GROUP BY says; None: one grouping. `meant`: what a position or an alias stands for."""
    if _with(group):
        msg = "WITH ROLLUP and WITH CUBE leave the window out, too"
        raise SqlFault(msg, group, BESIDE)
    if not any(isinstance(item, _SEVERAL) for item in group.expressions):
        return None
    parts = [_sets(item) for item in group.expressions]
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MOST:
        msg = f"these are {count} groupings, and every row would go into each"
        raise SqlFault(msg, group, f"name those that are needed, at most {_MOST}: GROUPING SETS ((a, b), (a), ())")
    sets = tuple(tuple(_distinct(meant(i) for one in chosen for i in one)) for chosen in product(*parts))
    items = tuple(_distinct(meant(i) for part in parts for one in part for i in one))
    return GroupingSets(items, sets)


def ids_as_sums(select: exp.Select) -> None:
    """grouping_id(a, b) is what grouping(a) and grouping(b) say as one number; without arguments, of all keys that are
    in ROLLUP, CUBE or GROUPING SETS."""
    parts = [*select.expressions, *filter(None, [select.args.get("having")])]
    for call in [node for part in parts for node in part.find_all(exp.Anonymous)]:
        if call.name.lower() != "grouping_id":
            continue
        given = call.expressions or _distinct(
            i for item in select.args["group"].expressions if isinstance(item, _SEVERAL) for s in _sets(item) for i in s
        )
        if not given or (not call.expressions and any(isinstance(item, exp.Literal) for item in given)):
            msg = "grouping_id() does not say of which keys"
            raise SqlFault(msg, call, "write grouping_id(train, coach)")
        bits = [
            exp.Anonymous(
                this="shiftleft",
                expressions=[_bit(item, call), exp.Literal.number(len(given) - 1 - place)],
            )
            for place, item in enumerate(given)
        ]
        total: exp.Expr = bits[0]
        for bit in bits[1:]:
            total = exp.Add(this=total, expression=bit)
        call.replace(exp.paren(total) if len(bits) > 1 else total)


def _bit(item: exp.Expr, call: exp.Anonymous) -> exp.Expr:
    made = exp.Anonymous(this="grouping", expressions=[item.copy()])
    made.meta.update(call.meta)
    return exp.Cast(this=made, to=exp.DataType.build("bigint"))


def is_grouping(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in GROUPING


def _with(group: exp.Group) -> bool:
    return any(group.args.get(arg) for arg in ("rollup", "cube"))


def _sets(item: exp.Expr) -> list[_Set]:
    """The groupings that one item of GROUP BY stands for."""
    units = [_unit(unit) for unit in item.expressions] if isinstance(item, exp.Rollup | exp.Cube) else []
    match item:
        case exp.Rollup():
            return [_all(units[:n]) for n in range(len(units), -1, -1)]
        case exp.Cube():
            return [_all(c) for n in range(len(units), -1, -1) for c in combinations(units, n)]
        case exp.GroupingSets():
            return [found for one in item.expressions for found in _sets(one)]
        case _:
            return [_unit(item)]


def _unit(item: exp.Expr) -> _Set:
    return (
        tuple(item.expressions)
        if isinstance(item, exp.Tuple)
        else (item.this if isinstance(item, exp.Paren) else item,)
    )


def _all(units: list[_Set] | tuple[_Set, ...]) -> _Set:
    return tuple(item for unit in units for item in unit)


def _distinct(items: Iterable[exp.Expr]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found
