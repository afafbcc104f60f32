"""Overlap, hosts, arity and batches: the paper's Figures 4(b), 4(c), 5 and 6.

Two seeds each, and the everyday planner without its referee, for time's sake; `admissions` has the full planner.
"""

from __future__ import annotations

from typing import Any

from bench.sqpr import results, runs
from bench.sqpr.workload import Setting, build
from godwit.admission.bounds import AggregateHost, FirstComeOrders
from godwit.admission.check import violations
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions

SEEDS = range(2)


def overlap() -> None:
    """Zipf 0, 1, 2 and fewer base streams: more overlap, more queries."""
    rows = [
        _row({"zipf": zipf, "streams": streams}, Setting(seed, zipf=zipf, streams=streams))
        for zipf, streams in ((0.0, 500), (1.0, 500), (2.0, 500), (1.0, 200))
        for seed in SEEDS
    ]
    results.save("overlap", {"rows": rows})


def hosts() -> None:
    """10 to 500 hosts, streams and queries in proportion; from 200 on one seed, and without new join orders."""
    rows = []
    for count in (10, 25, 50, 100, 200, 500):
        large = count > 100
        options = PlannerOptions(reorder=not large, referee=0.0)
        for seed in SEEDS if not large else range(1):
            setting = Setting(seed, hosts=count, streams=10 * count, queries=13 * count)
            rows.append(_row({"hosts": count}, setting, options))
            results.save("hosts", {"rows": rows})


def arity() -> None:
    """Only 2-, 3-, 4- or 5-way joins. The best orders of 5-way joins, a programme of its own, would take hours."""
    rows = []
    for ways in (2, 3, 4, 5):
        for seed in SEEDS:
            rows.append(_row({"arity": ways}, Setting(seed, arities=(ways,), queries=700)))
            results.save("arity", {"rows": rows})


def batches() -> None:
    """The same queries in batches: cheapest additions first within a batch."""
    rows: list[dict[str, Any]] = []
    for size in (1, 2, 5, 10, 50):
        for seed in SEEDS:
            rows.append({"batch": size, "seed": seed, "admitted": _in_batches(Setting(seed), size)})
            results.save("batches", {"rows": rows})


def _row(what: dict[str, Any], setting: Setting, options: PlannerOptions | None = None) -> dict[str, Any]:
    mine, theirs = runs.ours(setting, options or PlannerOptions(referee=0.0)), runs.paper_heuristic(setting)
    greedy = runs.bound(setting, AggregateHost).curve[-1]
    bounded = setting.hosts <= 100 and max(setting.arities) < 5
    orders = runs.bound(setting, FirstComeOrders).curve[-1] if bounded else None
    row = {**what, "seed": setting.seed, "submitted": setting.queries, "godwit": mine.curve[-1],
           "heuristic": theirs.curve[-1], "aggregate_host": greedy, "first_come_orders": orders}  # fmt: skip
    summary = mine.summary()
    row |= {key: summary[key] for key in ("ms_p50", "ms_p95", "ms_max", "migrated_per_admitted")}
    print(row, flush=True)
    return row


def _in_batches(setting: Setting, size: int) -> int:
    network, catalog, queries = build(setting)
    planner = IncrementalPlanner(network, catalog, None, PlannerOptions(referee=0.0))
    admitted = 0
    for start in range(0, len(queries), size):
        admitted += sum(outcome.admitted for outcome in planner.admit_batch(queries[start : start + size]))
    assert not violations(network, catalog, planner.ledger.snapshot(), planner.queries)
    return admitted
