"""How long the exact model takes to prove optimality, at every load, for more hosts and for wider joins."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.sqpr import results
from bench.sqpr.workload import Setting, build
from godwit.admission.check import violations
from godwit.admission.exact import optimum
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions
from godwit.admission.model import ObjectiveWeights
from godwit.admission.scope import scope

#: submitted queries, for 50 hosts, at which the exact model is tried: from empty to saturated
LOADS = (0, 60, 150, 300, 400, 470, 600)


@dataclass(frozen=True)
class Case:
    """A series of problems: `each` queries at every load."""

    name: str
    hosts: int
    arities: tuple[int, ...]
    seeds: int
    each: int
    #: wall seconds: generous, because the times reported are CPU seconds and the machine may be shared
    limit: float
    target: float


CASES = (
    Case("50 hosts", 50, (2, 3, 4), 5, 6, 120.0, 1.0),
    Case("100 hosts", 100, (2, 3, 4), 3, 4, 120.0, 2.0),
    Case("500 hosts", 500, (2, 3, 4), 1, 3, 120.0, 10.0),
    Case("50 hosts, 5-way", 50, (5,), 2, 3, 120.0, 10.0),
)


def run() -> None:
    """All cases with lambda_4 = 1; each is saved when it is done."""
    table = []
    for case in CASES:
        problems = [row for seed in range(case.seeds) for row in problems_of(case, seed)]
        seconds = np.array([row["seconds"] for row in problems])
        table.append(
            {
                "case": case.name,
                "problems": len(problems),
                "seeds": case.seeds,
                "proved": round(float(np.mean([row["proved"] for row in problems])), 4),
                "p50": round(float(np.percentile(seconds, 50)), 3),
                "p95": round(float(np.percentile(seconds, 95)), 3),
                "max": round(float(seconds.max()), 3),
                "target_p95": case.target,
                "by_load": by_load(problems),
                "all": problems,
            }
        )
        results.save("exact", {"cases": table})
        print({k: v for k, v in table[-1].items() if k != "all"}, flush=True)


def problems_of(case: Case, seed: int) -> list[dict[str, Any]]:
    """Fill the system with the everyday planner; at each load solve the next queries, without admitting them."""
    size = case.hosts / 50
    setting = Setting(seed, case.hosts, int(500 * size), int(700 * size), arities=case.arities)
    network, catalog, queries = build(setting)
    planner = IncrementalPlanner(network, catalog, None, PlannerOptions(reorder=case.hosts <= 100, referee=0.0))
    rows, submitted, weights = [], 0, ObjectiveWeights.paper(network)
    for load in LOADS:
        while submitted < int(load * size):
            planner.admit(queries[submitted])
            submitted += 1
        fresh = [query for query in queries[submitted:] if query.result not in planner.queries]
        for query in fresh[: case.each]:
            state = planner.ledger.snapshot()
            start = time.process_time()
            answer = optimum(scope(network, catalog, state, planner.queries, query, weights), case.limit)
            seconds = time.process_time() - start
            if answer.ledger is not None:
                wanted = {*planner.queries, query.result}
                assert not violations(network, catalog, answer.ledger.snapshot(), wanted)
            rows.append({"seed": seed, "load": load, "streams": len(query.streams), "seconds": round(seconds, 3),
                         "proved": answer.proved, "admitted": answer.ledger is not None})  # fmt: skip
    return rows


def by_load(problems: list[dict[str, Any]]) -> dict[str, float]:
    """The 95th percentile at each load."""
    loads = sorted({row["load"] for row in problems})
    return {
        str(load): round(float(np.percentile([r["seconds"] for r in problems if r["load"] == load], 95)), 3)
        for load in loads
    }
