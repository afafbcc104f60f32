"""The route table as people see it: of every operator whose keys are divided, which instance has how many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from godwit.ids import QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.keys import Key, Listed
from godwit.model.routing import Route, RouteTable
from godwit.model.signature import StateKey
from godwit.observe.key_usage import held, newest
from godwit.storage.state_memory import StateMemory
from godwit.storage.store import Store

#: number of hottest keys named per instance
HOTTEST = 3
#: keys of ranges and of the rest are counted only in state of at most this number of rows: requests must not wait
COUNTED = 100_000


@dataclass(frozen=True)
class RouteStatus:
    """The keys of one route."""

    instance: str
    #: which keys, in words
    keys: str
    region: str
    site: str
    #: keys that are listed; of ranges and the rest: those that there is state of; None: that cannot be seen
    count: int | None
    #: regions that rows or state of them are copied to, while they migrate
    copies: tuple[str, ...] = ()
    #: (key, its share of the newest rows of the operator)
    hottest: tuple[tuple[str, float], ...] = ()


def routes(
    deployment: Deployment, memories: Mapping[tuple[RegionId, str], StateMemory], store: Store
) -> list[RouteStatus]:
    """Every route of every divided operator."""
    found: list[RouteStatus] = []
    for query, operator in sorted(deployment.key_routes):
        # (as it is in force: the rest follows the operator's place)
        known = deployment.queries.get(query)
        table = None if known is None else deployment.routes(known, operator)
        if table is not None and table.divided:
            found += _of(deployment, query, operator, table, memories, store)
    return found


def _of(
    deployment: Deployment,
    query: QueryId,
    operator: int,
    table: RouteTable,
    memories: Mapping[tuple[RegionId, str], StateMemory],
    store: Store,
) -> Iterator[RouteStatus]:
    shape = deployment.queries[query].shape
    instance = instance_id(query, operator)
    state = str(StateKey(shape.signatures[operator], 0))
    hot = newest(store, shape.plan, operator, sorted(set(deployment.sites.values())))
    for route in table.routes:
        memory = memories.get((route.process, shape.key), StateMemory())
        segments = memory.states.get(state, ())
        many = isinstance(route.keys, Listed) or sum(segment.rows for segment in segments) > COUNTED
        known = None if many else held(shape.plan, operator, query, segments)
        mine = None if known is None else sum(table.route_of(key) == _way(route) for key in known)
        yield RouteStatus(
            str(instance),
            str(route.keys),
            route.process,
            route.site or str(deployment.placement.get(instance, "-")),
            len(route.keys.keys) if isinstance(route.keys, Listed) else mine,
            (*route.copies, *route.backups),
            tuple(_hottest(hot, table, route)),
        )


def _hottest(hot: Counter[Key], table: RouteTable, route: Route) -> Iterator[tuple[str, float]]:
    total = sum(hot.values())
    mine = [(key, rows) for key, rows in hot.most_common() if table.route_of(key) == _way(route)]
    yield from (("/".join(key), round(rows / total, 3)) for key, rows in mine[:HOTTEST])


def _way(route: Route) -> Route:
    """What the table answers for a key of the route."""
    return route.way if isinstance(route.keys, Listed) else route
