"""Bounds on how many queries fit, each with its name. All see one host with the CPU of all and no network.

AggregateHost      the paper's "optimistic bound": first come, each query planned once with reuse. No true bound: a
                   planner that re-plans may admit more.
FirstComeOrders    first come, join orders of all admitted queries always optimal (multi-query optimisation). A bound
                   for planners that admit every query that fits when it comes, and only for those.
best_subset        offline, all queries known: the largest set that fits. The only true upper bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from godwit.admission.highs import Programme
from godwit.admission.model import SLACK, AdmissionQuery, Catalog, HostNetwork
from godwit.admission.orders import JoinOrders


class AggregateHost:
    """First come, cheapest addition to what runs."""

    def __init__(self, network: HostNetwork, catalog: Catalog) -> None:
        self._catalog = catalog
        self._free = float(network.cpu.sum())
        self._made: set[int] = set()

    def admit(self, query: AdmissionQuery) -> bool:
        """Admit the query if its cheapest plan beside what is made already fits."""
        cost: dict[int, float] = {}
        choice: dict[int, int] = {}
        allowed = set(query.operators)
        for stream in query.streams:
            if self._catalog.streams[stream].homes or stream in self._made:
                cost[stream] = 0.0
                continue
            ways = [(self._price(o, cost), o) for o in self._catalog.makers[stream] if o in allowed]
            cost[stream], choice[stream] = min(ways, default=(float("inf"), -1))
        if cost[query.result] > self._free + SLACK:
            return False
        self._free -= cost[query.result]
        stack = [query.result]
        while stack:
            stream = stack.pop()
            if stream in choice and stream not in self._made:
                self._made.add(stream)
                stack.extend(self._catalog.operators[choice[stream]].inputs)
        return True

    def _price(self, operator: int, cost: dict[int, float]) -> float:
        what = self._catalog.operators[operator]
        return what.cpu + sum(cost[s] for s in what.inputs)


class FirstComeOrders:
    """First come, with optimal join orders over all admitted queries."""

    def __init__(self, network: HostNetwork, catalog: Catalog) -> None:
        self._limit = float(network.cpu.sum())
        self._orders = JoinOrders(catalog)
        self._admitted: set[int] = set()
        #: proved least CPU of everything admitted
        self.cpu = 0.0

    def admit(self, query: AdmissionQuery) -> bool:
        """Admit the query if all admitted queries and it fit under some join orders (by the proved bound)."""
        if query.result in self._admitted:
            return True
        self._orders.demand(query)
        bound = self._orders.solve().bound
        if bound > self._limit + SLACK:
            self._orders.demand(query, False)
            return False
        self._admitted.add(query.result)
        self.cpu = bound
        return True


@dataclass(frozen=True)
class Best:
    """The largest set found, and the proved limit no set exceeds."""

    found: int
    limit: float


def best_subset(network: HostNetwork, catalog: Catalog, queries: Sequence[AdmissionQuery], seconds: float) -> Best:
    """The most queries whose optimal join orders fit into all CPU together; equal queries count each."""
    wanted = Counter(query.result for query in queries)
    distinct = {query.result: query for query in queries}
    programme = Programme()
    runs: dict[int, int] = {}
    for query in distinct.values():
        for operator in query.operators:
            if operator not in runs:
                runs[operator] = programme.column()
    for result, query in distinct.items():
        _demand(programme, catalog, query, runs, programme.column(-float(wanted[result])))
    cpu = [(column, catalog.operators[o].cpu) for o, column in runs.items()]
    programme.at_most(cpu, float(network.cpu.sum()))
    answer = programme.solve(seconds)
    found = 0 if answer.values is None else round(-answer.objective)
    return Best(found, -answer.bound)


def _demand(programme: Programme, catalog: Catalog, query: AdmissionQuery, runs: dict[int, int], admitted: int) -> None:
    """The query's own flow: as much of its stream as it is admitted, inner streams made as much as used."""
    flow = {o: programme.column(integer=False) for o in query.operators}
    for operator, column in flow.items():
        programme.row([(runs[operator], 1.0), (column, -1.0)], lower=0.0)
    for stream in query.streams:
        made = [(flow[o], 1.0) for o in catalog.makers[stream] if o in flow]
        used = [(flow[o], -1.0) for o in query.operators if stream in catalog.operators[o].inputs]
        if stream == query.result:
            programme.equal([*made, (admitted, -1.0)], 0.0)
        elif made:
            programme.equal([*made, *used], 0.0)
