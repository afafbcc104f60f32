"""Run one planner over one workload and keep everything the tables and plots need. Every state is checked."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.sqpr.workload import Setting, build
from godwit.admission import heuristic
from godwit.admission.bounds import AggregateHost, FirstComeOrders
from godwit.admission.check import violations
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions
from godwit.admission.model import ObjectiveWeights
from godwit.admission.state import AllocationLedger

#: an independent check of the whole state after every so many queries (and always at the end)
CHECK_EVERY = 25


@dataclass
class Run:
    """One planner over one workload."""

    planner: str
    seed: int
    #: admitted after each submitted query
    curve: list[int] = field(default_factory=list)
    #: CPU seconds a query, on one thread; wall seconds beside them
    seconds: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    migrated: int = 0
    steps: dict[str, int] = field(default_factory=dict)
    proved_refusals: int = 0
    cpu_used: float = 0.0
    nic_in_used: float = 0.0

    def summary(self) -> dict[str, Any]:
        """The run without its long lists."""
        times = np.array(self.seconds[1:] or [0.0]) * 1e3
        return {
            "planner": self.planner,
            "seed": self.seed,
            "admitted": self.curve[-1],
            "curve": self.curve[:: max(len(self.curve) // 100, 1)],
            "ms_p50": round(float(np.percentile(times, 50)), 3),
            "ms_p95": round(float(np.percentile(times, 95)), 3),
            "ms_max": round(float(times.max()), 1),
            "wall_ms_p95": round(float(np.percentile(np.array(self.wall[1:] or [0.0]) * 1e3, 95)), 3),
            "migrated_per_admitted": round(self.migrated / max(self.curve[-1], 1), 3),
            "steps": self.steps,
            "proved_refusals": self.proved_refusals,
            "cpu_used": round(self.cpu_used, 4),
            "nic_in_used": round(self.nic_in_used, 4),
        }


def ours(setting: Setting, options: PlannerOptions | None = None) -> Run:
    """The everyday planner, query by query."""
    network, catalog, queries = build(setting)
    planner = IncrementalPlanner(network, catalog, None, options or PlannerOptions())
    run, steps = Run("godwit", setting.seed), Counter[str]()
    for number, query in enumerate(queries):
        outcome = _timed(run, lambda q=query: planner.admit(q))
        steps[outcome.step] += 1
        run.migrated += outcome.migrated
        run.proved_refusals += outcome.proved
        run.curve.append((run.curve[-1] if run.curve else 0) + outcome.admitted)
        if number % CHECK_EVERY == 0:
            _check(planner.ledger)
    run.steps = dict(steps)
    return _finish(run, planner.ledger)


def paper_heuristic(setting: Setting, relays: bool = True) -> Run:
    """The paper's heuristic with the paper's weights, in the kind reading or without relays."""
    network, catalog, queries = build(setting)
    name = "heuristic" if relays else "heuristic_without_relays"
    ledger, weights, run = AllocationLedger(network, catalog), ObjectiveWeights.paper(network), Run(name, setting.seed)
    for query in queries:
        fine = _timed(run, lambda q=query: heuristic.plan(ledger, q, weights, relays=relays))
        run.curve.append((run.curve[-1] if run.curve else 0) + fine)
    return _finish(run, ledger)


def bound(setting: Setting, which: type[AggregateHost] | type[FirstComeOrders]) -> Run:
    """A first-come bound."""
    network, catalog, queries = build(setting)
    one, run = which(network, catalog), Run(which.__name__, setting.seed)
    for query in queries:
        fine = _timed(run, lambda q=query: one.admit(q))
        run.curve.append((run.curve[-1] if run.curve else 0) + fine)
    return run


def _timed(run: Run, act: Any) -> Any:
    wall, cpu = time.perf_counter(), time.process_time()
    answer = act()
    run.seconds.append(time.process_time() - cpu)
    run.wall.append(time.perf_counter() - wall)
    return answer


def _check(ledger: AllocationLedger) -> None:
    wrong = violations(ledger.network, ledger.catalog, ledger.snapshot(), set(ledger.served))
    assert not wrong, wrong[:5]


def _finish(run: Run, ledger: AllocationLedger) -> Run:
    _check(ledger)
    run.cpu_used = 1 - float(ledger.cpu_free.sum() / ledger.network.cpu.sum())
    run.nic_in_used = 1 - float(ledger.in_free.sum() / ledger.network.nic_in.sum())
    return run
