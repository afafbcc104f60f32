"""How many queries are admitted, by whom, at every prefix; how long planning takes; how much is migrated."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.sqpr import results, runs
from bench.sqpr.workload import REGIMES, Setting, build
from godwit.admission.bounds import AggregateHost, FirstComeOrders, best_subset

SEEDS = range(5)


def run() -> None:
    """All seeds in both regimes; every seed is saved when it is done."""
    for regime, nic in REGIMES.items():
        table: list[dict[str, Any]] = []
        for seed in SEEDS:
            table.append(one(Setting(seed=seed, nic=nic)))
            results.save(
                f"admissions_{regime}", {"regime": regime, "nic": nic, "seeds": table, "pooled": pooled(table)}
            )
            print(regime, seed, {k: v for k, v in table[-1].items() if not isinstance(v, dict | list)}, flush=True)


def one(setting: Setting) -> dict[str, Any]:
    """One seed, all planners and bounds."""
    ours, heuristic, plain = runs.ours(setting), runs.paper_heuristic(setting), runs.paper_heuristic(setting, False)
    greedy, orders = runs.bound(setting, AggregateHost), runs.bound(setting, FirstComeOrders)
    network, catalog, queries = build(setting)
    best = best_subset(network, catalog, queries, 60.0)
    gap = 1 - np.array(ours.curve) / np.array(orders.curve)
    return {
        "seed": setting.seed,
        "gap_to_first_come_orders": round(float(gap.max()), 4),
        "over_heuristic": round(ours.curve[-1] / heuristic.curve[-1] - 1, 4),
        "over_heuristic_without_relays": round(ours.curve[-1] / plain.curve[-1] - 1, 4),
        "over_heuristic_at_half": round(_at_half(ours) / _at_half(heuristic) - 1, 4),
        "best_subset": best.limit,
        "ms": [round(value * 1e3, 3) for value in ours.seconds[1:]],
        "runs": {r.planner: r.summary() for r in (ours, heuristic, plain, greedy, orders)},
    }


def pooled(table: list[dict[str, Any]]) -> dict[str, Any]:
    """All seeds together."""
    times = np.concatenate([seed["ms"] for seed in table])
    return {
        "ms_p50": round(float(np.percentile(times, 50)), 3),
        "ms_p95": round(float(np.percentile(times, 95)), 3),
        "ms_max": round(float(times.max()), 1),
        "worst_gap": max(seed["gap_to_first_come_orders"] for seed in table),
        "worst_over_heuristic": min(seed["over_heuristic"] for seed in table),
        "worst_over_heuristic_without_relays": min(seed["over_heuristic_without_relays"] for seed in table),
        "mean_over_heuristic": round(float(np.mean([seed["over_heuristic"] for seed in table])), 4),
        "migrated": round(float(np.mean([s["runs"]["godwit"]["migrated_per_admitted"] for s in table])), 3),
    }


def _at_half(run: runs.Run) -> int:
    return run.curve[len(run.curve) // 2 - 1]
