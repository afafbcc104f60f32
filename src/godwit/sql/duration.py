"""Lengths of time as SQL spells them, in microseconds.

>>> microseconds("1 minute 30 seconds")
90000000
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from godwit.sql.fault import SqlFault

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_REMEDY = "write a number and a unit from microseconds to weeks, such as '10 seconds' or '1 minute 30 seconds'"


def microseconds(text: str, node: exp.Expr | None = None) -> int:
    """The length of '10 seconds', '1 minute 30 seconds', '-5 minutes', 'interval 2 hours'."""
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    if not rest:
        msg = f"'{text}' is no length of time"
        raise SqlFault(msg, node, _REMEDY)
    total = Fraction(0)
    while rest:
        part = _PART.match(rest)
        if part is None:
            msg = f"'{text}' is no length of time"
            raise SqlFault(msg, node, _REMEDY)
        total += Fraction(part[1].replace(" ", "")) * _unit(part[2], node)
        rest = rest[part.end() :].strip()
    if total.denominator != 1:
        msg = f"'{text}' is finer than a microsecond"
        raise SqlFault(msg, node, _REMEDY)
    return int(total)


def interval(node: exp.Expr) -> int | None:
    """The length of an INTERVAL expression (also negated, or a sum of intervals); None if it is something else."""
    match node:
        case exp.Paren():
            return interval(node.this)
        case exp.Neg():
            length = interval(node.this)
            return None if length is None else -length
        case exp.Add() | exp.Sub():
            left, right = interval(node.left), interval(node.right)
            if left is None or right is None:
                return None
            return left + right if isinstance(node, exp.Add) else left - right
        case exp.Interval():
            return _interval(node)
    return None


def _interval(node: exp.Interval) -> int:
    number, unit = node.this, node.args.get("unit")
    if isinstance(number, exp.Neg):
        number = exp.Literal.string(f"-{number.this.name}")
    if not isinstance(number, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        msg = "this interval's length is not a plain number with one unit"
        raise SqlFault(msg, node, _REMEDY)
    return microseconds(f"{number.this} {unit.name}" if unit else number.this, node)


def _unit(name: str, node: exp.Expr | None) -> int:
    singular = name.lower().removesuffix("s")
    if singular in ("month", "year", "quarter"):
        msg = f"a {singular} has no fixed length"
        raise SqlFault(msg, node, "count in days or weeks, e.g. '30 days'")
    if singular not in _UNITS:
        msg = f"'{name}' is no unit of time"
        raise SqlFault(msg, node, _REMEDY)
    return _UNITS[singular]
