"""The literal model beside the reduced one: same states, same queries; equal objectives, and how much slower."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.sqpr import results
from bench.sqpr.workload import Setting, build
from godwit.admission import literal, reduced
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions
from godwit.admission.incumbent import cost
from godwit.admission.model import ObjectiveWeights
from godwit.admission.scope import scope

LIMIT = 30.0
#: (hosts, queries submitted before): few, since most of them run into the limit
SIZES = ((3, 8), (5, 12), (10, 60), (25, 150))
SEEDS = range(5)


def run() -> None:
    """One 2-, 3- and 4-way query a size and seed; the largest sizes with two seeds, for time's sake."""
    rows = []
    for hosts, before in SIZES:
        for seed in SEEDS if hosts < 10 else range(2):
            rows += compare(hosts, before, seed)
            results.save("literal", {"limit": LIMIT, "rows": rows, "summary": summary(rows)})
    print(summary(rows), flush=True)


def compare(hosts: int, before: int, seed: int) -> list[dict[str, Any]]:
    """Solve the next query of each arity with both models."""
    network, catalog, queries = build(Setting(seed, hosts, 10 * hosts, before + 60))
    planner = IncrementalPlanner(network, catalog, None, PlannerOptions(referee=0.0))
    for query in queries[:before]:
        planner.admit(query)
    weights, rows = ObjectiveWeights.paper(network), []
    for streams in (3, 7, 15):
        if hosts >= 10 and streams == 7:
            continue
        query = next(q for q in queries[before:] if len(q.streams) == streams and q.result not in planner.queries)
        problem = scope(network, catalog, planner.ledger.snapshot(), planner.queries, query, weights)
        start = time.process_time()
        fast = reduced.solve(problem, LIMIT)
        middle = time.process_time()
        slow = literal.solve(problem, LIMIT)
        end = time.process_time()
        ours = None if fast.ledger is None else cost(problem, fast.ledger)
        theirs = None if slow.ledger is None else cost(problem, slow.ledger)
        rows.append({"hosts": hosts, "seed": seed, "streams": streams, "reduced_s": round(middle - start, 4),
                     "literal_s": round(end - middle, 3), "reduced_proved": fast.proved, "literal_proved": slow.proved,
                     "reduced": ours, "literal": theirs})  # fmt: skip
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Equal where both finished; the ratio is a lower bound where the literal model hit the limit."""
    both = [row for row in rows if row["literal_proved"] and row["reduced_proved"]]
    equal = [row for row in both if _same(row["reduced"], row["literal"])]
    ratios = [row["literal_s"] / max(row["reduced_s"], 1e-3) for row in rows]
    large = [row["literal_s"] / max(row["reduced_s"], 1e-3) for row in rows if row["hosts"] >= 10]
    return {
        "problems": len(rows),
        "literal_finished": len(both),
        "equal": len(equal),
        "ratio_median": round(float(np.median(ratios)), 1),
        "ratio_median_from_10_hosts": round(float(np.median(large)), 1) if large else None,
        "timeouts": sum(not row["literal_proved"] for row in rows),
    }


def _same(one: float | None, other: float | None) -> bool:
    return (one is None) == (other is None) and (one is None or other is None or abs(one - other) < 1e-6)
