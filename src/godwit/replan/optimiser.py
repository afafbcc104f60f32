"""When to change a plan, and to what: from measured loads to the best order of every query, or to staying.

    cost(order)   seconds of work per second that its joins take, plus what keeping intermediate rows costs;
                  a join that several queries have is counted once, so an order that would end sharing pays for it
    change        if gain x horizon > migration x margin, for several measurements in a row, and not too soon again

The horizon is how long a load has lasted so far, learned from past changes: an order that will be wrong again in a
moment is not worth moving to. Everything is an argument; every decision says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from godwit.ids import QueryId
from godwit.replan import auto
from godwit.replan.forecast import DEFAULTS, ChangeCase, CostConstants, Forecast, forecasts, running_s
from godwit.replan.join_tree import JoinTree
from godwit.replan.load import BoxLoad, Geometry, JoinLoad, loads

#: what keeping one intermediate row for a second costs, in seconds of work: reading it again whenever rows meet it
KEEP_S = 1e-7


@dataclass(frozen=True)
class MeasuredQuery:
    """One query as the optimiser sees it."""

    id: QueryId
    order: JoinTree
    #: the orders that it may have; all without cross joins
    orders: tuple[JoinTree, ...]
    load: BoxLoad
    geometry: Geometry
    #: the strategies that are possible for it
    strategies: tuple[str, ...] = ("moving-state", "parallel-track", "background")
    #: leaves -> what a join of them means, equal for joins of other queries that do the same; None: its own
    meaning: Callable[[frozenset[str]], str] | None = None
    #: how far apart rows of one result can lie (`JoinBox.span_us`); None: as the joins one by one say
    span_s: float | None = None

    def share_key(self, node: JoinTree) -> tuple[str, object]:
        """Equal for joins that are executed once: the same meaning, made in the same way."""
        if self.meaning is None:
            return str(self.id), node.canonical
        return "", (self.meaning(node.covers), tuple(sorted(self.meaning(child.covers) for child in node.children)))


@dataclass(frozen=True)
class ReplanPolicy:
    #: a change must win this share of what the order costs now
    least_gain: float = 0.1
    #: and its gain within the horizon must be this multiple of the cost of the change
    margin: float = 1.5
    #: orders that take at most this share more than the best one count as good: the change to one may cost less
    nearly: float = 0.05
    #: consecutive measurements that must agree; one is enough if it wins more than noise can (`clear_gain`)
    confirm: int = 2
    clear_gain: float = 0.5
    #: seconds between two changes of a query, at least
    pause_s: float = 5.0
    #: what is taken for the horizon before any change was seen, and at most
    horizon_s: float = 60.0
    constants: CostConstants = DEFAULTS
    #: seconds between two looks
    every_s: float = 1.0
    #: rows that must have arrived since the last look, or it says too little
    least_rows: int = 50


@dataclass(frozen=True)
class QueryMemory:
    """What the optimiser remembers of one query."""

    wanted: JoinTree | None = None
    #: measurements in a row that wanted it
    times: int = 0
    changed_s: float | None = None
    #: how long orders have lasted, smoothed
    lasted_s: float | None = None


@dataclass(frozen=True)
class ReplanDecision:
    query: QueryId
    order: JoinTree
    change: bool
    why: str
    strategy: str = ""
    forecast: Forecast | None = None


@dataclass(frozen=True)
class ReplanMemory:
    queries: Mapping[QueryId, QueryMemory] = field(default_factory=dict)

    def of(self, query: QueryId) -> QueryMemory:
        return self.queries.get(query, QueryMemory())


def cost(joins: tuple[JoinLoad, ...], constants: CostConstants) -> float:
    """What an order takes of the machine, in seconds per second."""
    kept = sum(j.rate * 1.0 for j in joins[:-1]) + sum(_intermediate(j) for j in joins)
    return running_s(joins, constants) + KEEP_S * kept


def best_orders(queries: Mapping[QueryId, MeasuredQuery], constants: CostConstants) -> dict[QueryId, JoinTree]:
    """The order of each query under which all of them together cost least.

    One query after the other takes the best order given those of the others, until none wants another; shared joins
    are paid once. From what they have now, so a query does not leave a shared join for an equal.
    """
    chosen = {query.id: query.order for query in queries.values()}
    for _ in range(len(queries) + 2):
        before = dict(chosen)
        for query in queries.values():
            others = [queries[q] for q in queries if q != query.id]
            paid = {query_.share_key(node) for query_ in others for node in chosen[query_.id].joins}
            current = _marginal(query, chosen[query.id], paid, constants)
            ranked = [(_marginal(query, tree, paid, constants), str(tree), tree) for tree in query.orders]
            least, _, tree = min(ranked)
            if least < current * (1 - 1e-9):
                chosen[query.id] = tree
        if chosen == before:
            break
    return chosen


def decide(
    memory: ReplanMemory, queries: Mapping[QueryId, MeasuredQuery], now_s: float, policy: ReplanPolicy
) -> tuple[ReplanMemory, tuple[ReplanDecision, ...]]:
    """One decision per query, and what to remember of it."""
    wanted = best_orders(queries, policy.constants)
    found, remembered = [], dict(memory.queries)
    for query in queries.values():
        others = [q for q in queries.values() if q.id != query.id]
        paid = {other.share_key(node) for other in others for node in other.order.joins}
        known, decision = _decide(memory.of(query.id), query, wanted[query.id], paid, now_s, policy)
        remembered[query.id] = known
        found.append(decision)
    return ReplanMemory(remembered), tuple(found)


def _decide(
    known: QueryMemory,
    query: MeasuredQuery,
    wanted: JoinTree,
    paid: set[tuple[str, object]],
    now_s: float,
    policy: ReplanPolicy,
) -> tuple[QueryMemory, ReplanDecision]:
    def stay(why: str) -> ReplanDecision:
        return ReplanDecision(query.id, query.order, False, why)

    constants = policy.constants
    if wanted.same_order(query.order):
        return replace(known, wanted=None, times=0), stay(f"{query.order} is the best of {len(query.orders)} orders")
    horizon = min(policy.horizon_s, known.lasted_s or policy.horizon_s)
    wanted, then, forecast = _cheapest(query, wanted, known.wanted, paid, horizon, policy)
    now = _marginal(query, query.order, paid, constants)
    gain = now - then
    says = f"{wanted} would take {then:.3g} s/s in place of {now:.3g} ({gain / now:.0%} less)"
    if gain < policy.least_gain * now:
        return replace(known, wanted=None, times=0), stay(f"{says}: below {policy.least_gain:.0%}")
    worth = gain * max(0.0, horizon - forecast.length_s)
    if worth <= policy.margin * forecast.extra_s:
        why = f"{says}: wins {worth:.3g} s in {horizon:.0f} s, but {forecast.strategy} costs {forecast.extra_s:.3g} s"
        return replace(known, wanted=None, times=0), stay(why)
    # Which of several nearly equal orders is named may change with the noise; that the order is wrong does not.
    times = known.times + 1
    known = replace(known, wanted=wanted, times=times)
    if times < policy.confirm and gain < policy.clear_gain * now:
        return known, stay(f"{says}: seen {times} of {policy.confirm} times")
    if known.changed_s is not None and now_s - known.changed_s < policy.pause_s:
        return known, stay(f"{says}: changed {now_s - known.changed_s:.0f} s ago, waits {policy.pause_s:.0f} s")
    why = f"{says}: wins {worth:.3g} s in {horizon:.0f} s, {forecast.strategy} costs {forecast.extra_s:.3g} s"
    decision = ReplanDecision(query.id, wanted, True, why, forecast.strategy, forecast)
    return _changed(known, now_s), decision


def _cheapest(
    query: MeasuredQuery,
    best: JoinTree,
    before: JoinTree | None,
    paid: set[tuple[str, object]],
    horizon: float,
    policy: ReplanPolicy,
) -> tuple[JoinTree, float, Forecast]:
    """(order, what it takes, what the change to it will cost): of the best order and those that are nearly as good the
    one that costs least within the horizon, the change included; one that was wanted before, if it is as good."""
    least = _marginal(query, best, paid, policy.constants)
    costs = {tree: _marginal(query, tree, paid, policy.constants) for tree in query.orders}
    near = [tree for tree, each in costs.items() if each <= least * (1 + policy.nearly) or tree == best]
    found: list[tuple[float, str, JoinTree, Forecast]] = []
    for tree in near:
        if tree.same_order(query.order):
            continue
        case = ChangeCase(query.order, tree, query.load, query.geometry, policy.constants, span_s=query.span_s)
        forecast = auto.best(forecasts(case), query.strategies)
        total = costs.get(tree, least) * horizon + forecast.extra_s
        same = before is not None and tree.same_order(before)
        found.append((total * (1 - policy.nearly / 2 if same else 1), str(tree), tree, forecast))
    _, _, chosen, forecast = min(found, key=lambda one: one[:2])
    return chosen, costs.get(chosen, least), forecast


def _changed(known: QueryMemory, now_s: float) -> QueryMemory:
    lasted = known.lasted_s
    if known.changed_s is not None:
        took = now_s - known.changed_s
        lasted = took if lasted is None else 0.5 * lasted + 0.5 * took
    return QueryMemory(None, 0, now_s, lasted)


def _marginal(query: MeasuredQuery, tree: JoinTree, paid: set[tuple[str, object]], constants: CostConstants) -> float:
    """What an order costs beyond the joins that are executed for others anyway."""
    joins = loads(tree, query.load, query.geometry)
    return sum(cost((j,), constants) for j in joins if query.share_key(j.tree) not in paid)


def _intermediate(join: JoinLoad) -> float:
    """Combinations of more than one row that a join keeps."""
    sides = ((join.tree.left, join.left_rows), (join.tree.right, join.right_rows))
    return sum(rows for child, rows in sides if not child.is_leaf)
