"""Results that leave where they are made: of which queries, and what that saves.

Every region's log of results can be read by every sink, and a device's results come in order whichever regions made
them (`protocol/delivery_order.py`). So where each row is answered by itself, nothing has to travel to one place first:
no messages, no second micro-batch, and no runner in a region that has neither the rows nor a reader of theirs.
"""

from __future__ import annotations

from dataclasses import replace

from godwit.model.plan import Query


def may_scatter(query: Query) -> bool:
    """Whether all that is below the sink runs per device, and nobody reads the results as a stream of one place."""
    plan = query.shape.plan
    alone = query.target is None and query.cut is None and plan.sink.key is None
    return alone and all(plan.is_local(index) for index in range(len(plan.operators) - 1))


def scattered(query: Query) -> Query:
    return replace(query, scattered=True) if may_scatter(query) else query
