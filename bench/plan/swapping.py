"""A load whose selectivities swap every 60 s: the optimiser against fixed orders and the best order at each time."""

from __future__ import annotations

import random
from typing import Any

from godwit.ids import QueryId
from godwit.replan.forecast import DEFAULTS
from godwit.replan.join_tree import JoinTree, trees
from godwit.replan.load import BoxLoad, Geometry, loads, window
from godwit.replan.optimiser import MeasuredQuery, ReplanMemory, ReplanPolicy, cost, decide

ORDERS = tuple(trees("abcd"))
WINDOW_S = 10.0
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c"), ("b", "d")]


def load(strong: tuple[str, str], weak: tuple[str, str], factor: float) -> BoxLoad:
    sigma = dict.fromkeys(PAIRS, 2e-5)
    return BoxLoad(dict.fromkeys("abcd", 5000.0), sigma | {strong: 2e-5 * factor, weak: 2e-5 / factor})


def run(factor: float, seconds: int = 900, seed: int = 5) -> dict[str, Any]:
    """Shares of the oracle's throughput, work and intermediate rows; simulated, one measurement per second."""
    rng, geometry = random.Random(seed), window(WINDOW_S)
    phases = (load(("a", "b"), ("c", "d"), factor), load(("c", "d"), ("a", "b"), factor))
    costs = [{tree: cost(loads(tree, one, geometry), DEFAULTS) for tree in ORDERS} for one in phases]
    kept = [{tree: intermediate(tree, one, geometry) for tree in ORDERS} for one in phases]
    best = [min(each, key=lambda tree, each=each: each[tree]) for each in costs]  # type: ignore[misc]
    order, memory, policy = ORDERS[0], ReplanMemory(), ReplanPolicy()
    throughput = work = rows = oracle_rows = migrations = 0.0

    def level(tree: JoinTree, phase: int, since_s: float) -> float:
        """States turn over within a window: so much of it is of rows since the swap."""
        fresh = min(1.0, (since_s + 0.5) / WINDOW_S)
        return fresh * kept[phase][tree] + (1 - fresh) * kept[1 - phase][tree]

    changes = 0
    for second in range(seconds):
        phase = second // 60 % 2
        throughput += costs[phase][best[phase]] / costs[phase][order]
        work += costs[phase][order]
        rows += level(order, phase, second % 60)
        oracle_rows += level(best[phase], phase, second % 60)
        query = MeasuredQuery(QueryId("q"), order, ORDERS, noisy(phases[phase], rng), geometry)
        memory, (decision,) = decide(memory, {query.id: query}, second, policy)
        if decision.change and decision.forecast is not None:
            migrations += decision.forecast.extra_s
            changes += 1
            order = decision.order
    half = seconds / 2
    return {
        "factor": factor,
        "changes": changes,
        "throughput": (throughput - migrations) / seconds,
        "work without migrations": half * sum(costs[p][best[p]] for p in (0, 1)) / work,
        "work": half * sum(costs[p][best[p]] for p in (0, 1)) / (work + migrations),
        "intermediate rows": oracle_rows / rows,
        "work of the best fixed order": half * min(costs[0][t] + costs[1][t] for t in ORDERS) / (work + migrations),
    }


def intermediate(tree: JoinTree, one: BoxLoad, geometry: Geometry) -> float:
    joins = loads(tree, one, geometry)
    sides = [(j.tree.left, j.left_rows) for j in joins] + [(j.tree.right, j.right_rows) for j in joins]
    return sum(rows for child, rows in sides if not child.is_leaf)


def noisy(one: BoxLoad, rng: random.Random) -> BoxLoad:
    """As measured: rates within 5 %, reduction factors within 10 %."""
    return BoxLoad(
        {alias: rate * rng.gauss(1, 0.05) for alias, rate in one.rates.items()},
        {pair: share * rng.gauss(1, 0.1) for pair, share in one.sigma.items()},
    )
