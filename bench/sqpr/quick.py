"""The headline figures of the admission planner on a smaller workload, in under a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.sqpr import results, runs
from bench.sqpr.workload import REGIMES, Setting, build
from godwit.admission import literal, reduced
from godwit.admission.bounds import FirstComeOrders
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions
from godwit.admission.incumbent import cost
from godwit.admission.model import ObjectiveWeights
from godwit.admission.scope import scope

#: a third of the paper's system, so that both regimes fit into the time
_SMALL = {"hosts": 16, "streams": 160, "queries": 260}


def figures() -> Iterator[dict[str, Any]]:
    """Admissions in both regimes, planning time, and the two exact models side by side."""
    for regime, nic in REGIMES.items():
        yield from _admissions(regime, Setting(0, nic=nic, **_SMALL))
    yield _models()


def _admissions(regime: str, setting: Setting) -> Iterator[dict[str, Any]]:
    ours, theirs = runs.ours(setting), runs.paper_heuristic(setting)
    note = f"one seed, {setting.hosts} hosts, {setting.queries} queries"
    more = ours.curve[-1] / theirs.curve[-1] - 1
    least = 0.07 if regime == "cpu" else 0.35
    yield results.figure(
        f"{regime}: admitted", ours.curve[-1], theirs.curve[-1], f">= +{least:.0%}", more >= least, f"{note}, heuristic"
    )
    p95 = round(float(np.percentile(ours.seconds[1:], 95)) * 1e3, 2)
    limit = 100.0 if regime == "cpu" else 300.0
    yield results.figure(f"{regime}: planning ms p95", p95, limit, f"<= {limit:g} ms", p95 <= limit, note)
    if regime == "cpu":
        orders = runs.bound(setting, FirstComeOrders)
        gap = float((1 - np.array(ours.curve) / np.array(orders.curve)).max())
        yield results.figure("cpu: gap to first-come orders", round(gap, 4), 0.03, "<= 3 %", gap <= 0.03, note)


def _models() -> dict[str, Any]:
    """One 2-way query on six hosts: the literal model finishes there, and must agree."""
    network, catalog, queries = build(Setting(0, 6, 60, 90))
    planner = IncrementalPlanner(network, catalog, None, PlannerOptions(referee=0.0))
    for query in queries[:30]:
        planner.admit(query)
    query = next(q for q in queries[30:] if len(q.streams) == 3 and q.result not in planner.queries)
    state, weights = planner.ledger.snapshot(), ObjectiveWeights.paper(network)
    problem = scope(network, catalog, state, planner.queries, query, weights)
    start = time.process_time()
    fast = reduced.solve(problem, 10.0)
    middle = time.process_time()
    slow = literal.solve(problem, 30.0)
    end = time.process_time()
    assert fast.ledger is not None
    equal = slow.ledger is not None and abs(cost(problem, fast.ledger) - cost(problem, slow.ledger)) < 1e-6
    ratio = (end - middle) / max(middle - start, 1e-4)
    note = f"6 hosts, 2-way; literal {'finished' if slow.proved else 'stopped at 30 s'}, equal objective: {equal}"
    figure = results.figure(
        "literal over reduced model, s", round(end - middle, 3), round(middle - start, 4), ">= 100x", ratio >= 100, note
    )
    return {**figure, "oracle": "equal" if equal else "n/a"}
