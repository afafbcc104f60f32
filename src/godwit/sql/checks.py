"""What may not stand where it stands in a SELECT."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from godwit.model.joins import How
from godwit.sql import aggregates
from godwit.sql.fault import SqlFault
from godwit.sql.normalise import is_window
from godwit.sql.scope import ScopeField

_HOW: dict[str, How] = {"LEFT": "left", "RIGHT": "right", "FULL": "full", "SEMI": "semi", "ANTI": "anti"}


def check_join(join: exp.Join) -> How | None:
    """How a join is meant; None: an inner one."""
    side, kind, method = (str(join.args.get(k) or "").upper() for k in ("side", "kind", "method"))
    how = _HOW.get(kind if kind in ("SEMI", "ANTI") else side)
    if side and kind in ("SEMI", "ANTI") and side != "LEFT":
        msg = f"{side} {kind} JOIN is not Spark's"
        raise SqlFault(msg, join.this, f"write it the other way round, as a LEFT {kind} JOIN")
    if (method and not join.args.get("match_condition")) or join.args.get("using"):
        if method == "ASOF":
            msg = "an ASOF JOIN does not say which row is the newest that counts"
            raise SqlFault(msg, join.this, "write ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key")
        msg = f"{method or 'USING'} joins hide which columns are compared"
        raise SqlFault(msg, join.this, "write the condition: JOIN .. ON a.key = b.key AND ..")
    return how


def refuse_aggregates(node: exp.Expr, problem: str, remedy: str) -> None:
    bad = next((n for n in node.walk() if aggregates.name_of(n) or is_window(n)), None)
    if bad is not None:
        raise SqlFault(problem, bad, remedy)


def refuse_totals(key: tuple[str, ...] | None, origin: exp.Expr) -> None:
    """Above totals everything would have to be taken back whenever one is replaced."""
    if key is not None:
        msg = "totals and best rows replace each other, so nothing can be computed of them"
        raise SqlFault(msg, origin, "make them the whole query, or aggregate in a window")


def refuse_distinct(origin: exp.Expr) -> None:
    msg = "DISTINCT over an endless stream keeps every row for ever"
    remedy = "say so: SELECT /*+ keep('1 day') */ DISTINCT .., or keep('forever'); or select a time column, too"
    raise SqlFault(msg, origin, remedy)


def refuse_twins(node: exp.Select, fields: list[ScopeField]) -> None:
    seen: set[str] = set()
    for i, field in enumerate(fields):
        if field.name.lower() in seen:
            msg = f"two result columns are called '{field.name}'"
            origin = node.expressions[i] if i < len(node.expressions) else node
            raise SqlFault(msg, origin, "rename one with AS")
        seen.add(field.name.lower())


def refuse_windows(parts: Iterable[exp.Expr], where: str) -> None:
    for part in parts:
        bad = part.find(exp.Window)
        if bad is not None:
            msg = f"a window function (OVER) cannot stand in {where}"
            raise SqlFault(msg, bad, "select it in a sub-query and filter its result, or use QUALIFY")
