"""The aggregates: how each SQL spelling becomes one of the few functions that the engine merges.

The engine knows those of FUNCTIONS in `operators/aggregates.py`.
To add an aggregate see docs/howto/add_an_aggregate.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from godwit.sql import functions
from godwit.sql.fault import SqlFault


@dataclass(frozen=True, eq=False)
class Reading:
    """An aggregate call as the engine will compute it."""

    function: str
    argument: exp.Expr | None
    constants: tuple[str, ...] = ()


#: of which equal values count once anyway
_SAME_OF_DISTINCT = ("min", "max", "bool_and", "every", "bool_or", "bit_and", "bit_or")
#: SQL name -> the engine's name, where the one argument passes through as it is
_SAME_ARGUMENT = {
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "approx_count_distinct": "count_distinct",
    **{name: name for name in ("skewness", "kurtosis", "bit_and", "bit_or", "bit_xor", "collect_list", "collect_set")},
    # Spark's own definition: false < true
    "bool_and": "min",
    "every": "min",
    "bool_or": "max",
    "any": "max",
    "some": "max",
}


def name_of(node: exp.Expr) -> str | None:
    """The aggregate that the node calls, or None."""
    match node:
        case exp.Anonymous():
            return node.name.lower() if node.name.lower() in functions.AGGREGATES else None
        case exp.Count():
            return "count"
        case exp.Any() if not isinstance(node.parent, exp.Like | exp.ILike):  # x LIKE ANY ('a%', 'b%')
            return "any"
    return None


def read(node: exp.Expr) -> Reading | None:
    """The node as an aggregate of the engine (FILTER (WHERE ..) included), or None if it is none."""
    if isinstance(node, exp.Filter):
        inner = read(node.this)
        return None if inner is None else _only_where(inner, node.expression.this)
    name = name_of(node)
    if name is None:
        return None
    arguments = _arguments(node)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(node, arguments)
    return Reading(_SAME_ARGUMENT[name], _one(node, arguments))


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    first = node.this.this if isinstance(node, exp.Any) and isinstance(node.this, exp.Paren) else node.this
    return [first, *node.expressions] if first is not None else []


def _one(node: exp.Expr, arguments: list[exp.Expr]) -> exp.Expr:
    if len(arguments) != 1 or isinstance(arguments[0], exp.Star):
        msg = f"{name_of(node)} takes one argument here"
        raise SqlFault(msg, node, "give it one expression over the stream's columns")
    if isinstance(arguments[0], exp.Distinct):
        if name_of(node) in _SAME_OF_DISTINCT and len(arguments[0].expressions) == 1:
            value: exp.Expr = arguments[0].expressions[0]
            return value
        msg = f"{name_of(node)}(DISTINCT ..) is not supported"
        raise SqlFault(msg, node, "GROUP BY the value, too, in a sub-query, and aggregate its rows by window.end")
    return arguments[0]


def _count(node: exp.Expr, arguments: list[exp.Expr]) -> Reading:
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return Reading("count", None)
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct) and arguments[0].expressions:
        return Reading("count_distinct", _as_one(arguments[0].expressions))
    argument = _one(node, arguments)
    return Reading("count", None if isinstance(argument, exp.Literal) else argument)


def _as_one(values: list[exp.Expr]) -> exp.Expr:
    """count(DISTINCT a, b) counts the pairs in which nothing is null."""
    if len(values) == 1:
        return values[0]
    present = exp.and_(*[exp.Not(this=exp.Is(this=v.copy(), expression=exp.Null())) for v in values])
    pair = exp.Struct(expressions=[v.copy() for v in values])
    return exp.Case(ifs=[exp.If(this=present, true=pair)])


def _count_if(node: exp.Expr, arguments: list[exp.Expr]) -> Reading:
    return _only_where(Reading("count", None), _one(node, arguments))


def _only_where(reading: Reading, condition: exp.Expr) -> Reading:
    """Every aggregate here passes over nulls, so rows outside FILTER (WHERE ..) become nulls."""
    value = reading.argument if reading.argument is not None else exp.Literal.number(1)
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    return Reading(reading.function, case, reading.constants)


def _median(node: exp.Expr, arguments: list[exp.Expr]) -> Reading:
    return Reading("percentile", _one(node, arguments), ("0.5",))


def _mode(node: exp.Expr, arguments: list[exp.Expr]) -> Reading:
    return Reading("mode", _one(node, arguments[:1]))


def _percentile(node: exp.Expr, arguments: list[exp.Expr]) -> Reading:
    fraction = arguments.pop() if len(arguments) == 2 else None
    if not isinstance(fraction, exp.Literal) or fraction.is_string or not 0 <= float(fraction.name) <= 1:
        msg = "percentile needs one fraction between 0 and 1"
        raise SqlFault(msg, node, "write e.g. percentile(x, 0.95); for several fractions, several calls")
    return Reading("percentile", _one(node, arguments), (fraction.name,))


def _pairs(node: exp.Expr, arguments: list[exp.Expr]) -> Reading:
    """Functions of two values: of (y, x), as SQL has them."""
    if len(arguments) != 2 or any(isinstance(a, exp.Star | exp.Distinct) for a in arguments):
        msg = f"{name_of(node)} takes two arguments"
        raise SqlFault(msg, node, f"write {name_of(node)}(y, x)")
    parts = [p for name, a in zip("yx", arguments, strict=True) for p in (exp.Literal.string(name), a.copy())]
    return Reading(str(name_of(node)), exp.Anonymous(this="named_struct", expressions=parts))


_SPECIAL: dict[str, Callable[[exp.Expr, list[exp.Expr]], Reading]] = {
    "count": _count,
    "count_if": _count_if,
    "median": _median,
    "mode": _mode,
    "percentile": _percentile,
    **{name: _pairs for name in functions.AGGREGATES if name.startswith(("regr_", "corr", "covar_"))},
}
