"""The last step: the draft tree as the flat, textual plan of `godwit.model.plan`."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from godwit.model import joins, plan, ranking, running
from godwit.sql import draft as d
from godwit.sql.dialect import text
from godwit.sql.fault import SqlFault
from godwit.sql.push import outputs
from godwit.sql.scope import ScopeField
from godwit.sql.shape import Lifter


class Emitter:
    """Writes operators in topological order; an operator's number is its place."""

    def __init__(self, lifter: Lifter) -> None:
        self._lifter = lifter
        self.operators: list[plan.Operator] = []
        self.subscriptions: dict[int, tuple[str, ...]] = {}

    def sink(
        self,
        draft: d.Draft,
        fields: tuple[ScopeField, ...],
        key: tuple[str, ...] | None = None,
        ordered: bool = True,
    ) -> plan.Plan:
        """`key`: of results that replace each other. Not `ordered`: no row waits for an earlier one of its device."""
        top = self._emit(draft)
        time = next((f for f in fields if f.lag_us is not None), None)
        names = tuple(f.name for f in fields)
        each_row = not any(operator.stateful for operator in self.operators)
        lag = time.lag_us or 0 if time else 0
        # (results that come with the watermark are in order anyway: one shape for both)
        self._add(plan.Sink((top,), names, time.name if time else None, lag, key, ordered or not each_row))
        return plan.Plan(tuple(self.operators))

    def _add(self, operator: plan.Operator) -> int:
        self.operators.append(operator)
        return len(self.operators) - 1

    def _emit(self, node: d.Draft) -> int:
        below = tuple(self._emit(child) for child in d.inputs(node))
        match node:
            case d.ScanNode():
                index = self._add(
                    plan.Scan(
                        node.stream.id, node.alias, node.columns, node.subscribe, arrival=node.arrival, late=node.late
                    )
                )
                if node.subscribe is not None:
                    self.subscriptions[index] = node.values
                return index
            case d.FilterNode():
                return self._add(plan.Filter(below, self._all(node.conjuncts) or "true"))
            case d.ProjectNode():
                columns = tuple(plan.Named(c.name, self._lifter.lifted(c.value)) for c in node.columns)
                return self._add(plan.Project(below, columns))
            case d.ExplodeNode():
                kept = [plan.Named(name, f"`{name}`") for name in sorted(outputs(node.input))]
                made = plan.Named(node.name, self._lifter.lifted(node.value))
                return self._add(plan.Project(below, (*kept, made)))
            case d.UnionNode():
                return self._add(plan.Union(below))
            case d.AggregateNode():
                return self._aggregate(node, below)
            case d.RunningNode():
                return self._running(node, below)
            case d.OverNode():
                kind = running.OverAhead if any(call.end < 0 for call in node.calls) else running.Over
                order = (node.keys, node.time, node.ties)
                return self._add(kind(below, node.columns, *order, node.calls, node.lag_us, node.keep_us))
            case d.RankNode():
                return self._add(ranking.Ranked(below, node.columns, node.keys, node.time, node.calls, node.lag_us))
            case d.TopNode():
                best = (node.order, node.limit, node.place, node.time)
                return self._add(ranking.TopRows(below, node.columns, node.keys, *best))
            case d.OuterNode():
                return self._outer(node, below)
            case d.AsofNode():
                return self._asof(node, below)
            case d.JoinNode():
                return self._join(node, below)

    def _all(self, parts: tuple[exp.Expr, ...]) -> str | None:
        return self._lifter.lifted(exp.and_(*parts)) if parts else None

    def _aggregate(self, node: d.AggregateNode, below: tuple[int, ...]) -> int:
        partial, keys, calls = self._partial(node, below)
        return self._add(plan.Aggregate((partial,), node.window, keys, calls, node.lag_us))

    def _running(self, node: d.RunningNode, below: tuple[int, ...]) -> int:
        partial, keys, calls = self._partial(node, below)
        having = self._all(node.having)
        return self._add(
            running.RunningAggregate((partial,), node.window, keys, calls, node.count, having, node.lag_us)
        )

    def _partial(
        self, node: d.AggregateNode | d.RunningNode, below: tuple[int, ...]
    ) -> tuple[int, tuple[str, ...], tuple[plan.AggregateCall, ...]]:
        """(the Partial below it, its keys, its calls)"""
        calls = tuple(
            plan.AggregateCall(
                c.name, c.function, None if c.argument is None else self._lifter.lifted(c.argument), c.constants
            )
            for c in node.calls
        )
        keys = tuple(plan.Named(k.name, text(k.value)) for k in node.keys)
        return self._add(plan.Partial(below, node.window, keys, calls)), tuple(k.name for k in keys), calls

    def _join(self, node: d.JoinNode, below: tuple[int, ...]) -> int:
        return self._add(plan.Join(below, **self._band(node), keep_us=node.keep_us))

    def _outer(self, node: d.OuterNode, below: tuple[int, ...]) -> int:
        left, right = (_columns(node, side) for side in (node.left, node.right))
        return self._add(joins.OuterJoin(below, node.how, **self._band(node), left=left, right=right))

    def _asof(self, node: d.AsofNode, below: tuple[int, ...]) -> int:
        left, right = (_columns(node, side) for side in (node.left, node.right))
        made = joins.AsofJoin(
            below,
            node.keys,
            node.left_time,
            node.right_time,
            node.ties,
            left,
            right,
            outer=node.outer,
            strict=node.strict,
            deleted=node.deleted,
            residual=self._all(node.residual),
            keep_us=node.keep_us,
            left_lag_us=node.left_lag_us,
            right_lag_us=node.right_lag_us,
        )
        return self._add(made)

    def _band(self, node: d.JoinNode) -> dict[str, Any]:
        return {
            "keys": tuple((text(a), text(b)) for a, b in node.keys),
            "left_time": node.left_time,
            "right_time": node.right_time,
            "lower_us": node.lower_us,
            "upper_us": node.upper_us,
            "residual": self._all(node.residual),
            "left_lag_us": node.left_lag_us,
            "right_lag_us": node.right_lag_us,
        }


def _columns(node: d.OuterNode | d.AsofNode, side: d.Draft) -> tuple[plan.Column, ...]:
    """A side's columns; where they may be missing, their types must be known."""
    how = "left" if isinstance(node, d.AsofNode) else node.how
    missing = {"left": (node.right,), "right": (node.left,), "full": (node.left, node.right)}.get(how, ())
    made = []
    for name in sorted(outputs(side)):
        if isinstance(node, d.AsofNode) and name not in node.types:
            continue  # a key that is computed for the join alone
        kind = node.types.get(name)
        if kind is None and any(side is one for one in missing):
            msg = f"the type of '{name.split('__', 1)[-1]}' is not known, and it is NULL where there is no partner"
            raise SqlFault(msg, node.origin, "say it in the sub-query: CAST(.. AS double) AS name")
        made.append(plan.Column(name, kind or ""))
    return tuple(made)
