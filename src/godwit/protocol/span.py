"""How far behind the newest row of any source the last window ends that it is in, over all queries and their chains.

Needed to end streams without ending time: when everything is closed, the watermark goes to the newest row plus this
span, so that all windows close, and rows that are sent later than that still count.
"""

from __future__ import annotations

from collections.abc import Iterable

from godwit.ids import StreamId
from godwit.model.joins import AsofJoin, OuterJoin
from godwit.model.plan import Aggregate, Join, Query
from godwit.model.running import RunningAggregate


def span(queries: Iterable[Query]) -> int:
    """Microseconds; 0 if nothing has windows."""
    every = list(queries)
    found: dict[StreamId, int] = {}
    for _ in every:  # a chain of derived streams is at most as long as there are queries
        before = dict(found)
        for query in every:
            if query.target is not None:
                found[query.target] = max(found.get(query.target, 0), _behind(query, before))
        if found == before:
            break
    return max((_behind(query, found) for query in every), default=0)


def _behind(query: Query, derived: dict[StreamId, int]) -> int:
    plan = query.shape.plan
    below = max((derived.get(scan.stream, 0) for _, scan in plan.scans), default=0)
    return below + plan.sink.lag_us + sum(_own(operator) for operator in plan.operators)


def _own(operator: object) -> int:
    match operator:
        case Aggregate():
            return operator.window.longest_us + operator.window.gap_us + operator.lag_us
        case RunningAggregate():
            return operator.window.longest_us + operator.lag_us
        case Join() | OuterJoin():
            bands = abs(operator.lower_us) + abs(operator.upper_us)
            return bands + operator.left_lag_us + operator.right_lag_us
        case AsofJoin():
            return operator.wait_us
    return 0
