"""Partial aggregation, switched on or off: the same windows by another plan.

Combining rows at a device's site before they travel saves links where many rows fall into one group, and costs a
grouping for nothing where hardly any do. What the aggregate keeps is the same in both plans, so it goes on with its
state.
"""

from __future__ import annotations

from dataclasses import replace

from godwit.model.plan import Partial, Plan, Query, Shape
from godwit.replan.fault import fault


def with_partials(query: Query, early: bool) -> Query:
    """The query with rows combined before they travel, or after."""
    plan = query.shape.plan
    if not any(isinstance(operator, Partial) for operator in plan.operators):
        msg = "the query aggregates nothing"
        raise fault(msg, remedy="partial aggregation can be switched for a query with GROUP BY")
    operators = tuple(replace(op, early=early) if isinstance(op, Partial) else op for op in plan.operators)
    return replace(query, shape=Shape(Plan(operators), query.shape.parameters))
