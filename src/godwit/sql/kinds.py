"""The type of an expression, where it can be told without asking Spark. Needed where a column may be missing: NULL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from godwit.sql.shape import literal_of

_WHOLE = ("tinyint", "smallint", "int", "integer", "bigint", "long", "byte", "short")
_FRACTIONS = ("float", "double", "real")
_TRUTH = (exp.Predicate, exp.And, exp.Or, exp.Not)


def kind_of(value: exp.Expr, known: Callable[[str], str | None]) -> str | None:
    """Spark's name of the type; None: it is not known. `known`: the types of columns."""
    match value:
        case exp.Column():
            return known(value.name)
        case exp.Paren():
            return kind_of(value.this, known)
        case exp.Cast():
            return str(value.to.sql("spark")).lower()
    if isinstance(value, _TRUTH):
        return "boolean"
    literal = literal_of(value)
    return literal[0] if literal else None


def kind_of_call(function: str, argument: str | None) -> str | None:
    """Of an aggregate of the engine's, by the type of its argument."""
    if function.startswith("count"):
        return "bigint"
    if function.startswith("bool"):
        return "boolean"
    if function in ("min", "max", "mode"):
        return argument
    if function.startswith("collect"):
        return None if argument is None else f"array<{argument}>"
    if argument not in (*_WHOLE, *_FRACTIONS):
        return None  # (of decimals the result's digits depend on the argument's)
    if function == "sum":
        return "bigint" if argument in _WHOLE else "double"
    return "double"
