"""What a plan costs: the tables a cost model fills in, and the objective that makes one number of them.

Four aggregates (section 2.1 of APEROL), for a plan pi that gives every operator an action (site, platform):

    throughput  Thr  = min over operators of R[o, a]                                  (K tuples/s, higher is better)
    latency     Lat  = max over source-sink paths of (sum L[o, a] + sum D[site, site])      (ms)
    traffic     Comm = sum over edges of mbps[e] * hops between the two sites               (Mb/s over all links)
    migration   Migr = max over moved operators of restart[o] + factor[o] * D[root site, site]   (ms)

`Objective.latency_only()` is the mode of section 4.2: cost = int(1000 Lat) + int(1000 Migr), in whole microseconds.

`Objective.weighted(...)` is the weighted sum. The paper does not say how it normalises; ours is written here:
each aggregate x becomes (x - best) / span, with thr negated first so that lower is better throughout, where best
is a proven bound (no plan is better, see `bounds.py`) and span = worst - best with worst the worst value among
the root plan and 1,024 plans drawn with a fixed seed. The cost is the weighted sum of the four, the score
1 - cost (weights add up to 1), and the plan cost improvement score(plan) - score(root).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from godwit.errors import PlacementError
from godwit.placement.problem.network import Floats, Network
from godwit.placement.problem.workflow import Workflow

DIMENSIONS = ("throughput", "latency", "traffic", "migration")


@dataclass(frozen=True)
class CostTables:
    """A cost model's estimates for one workflow on one network; rows follow `Workflow.operators`."""

    #: operators x actions, ms; inf where the operator cannot run
    latency: Floats
    #: operators x actions, K tuples/s
    throughput: Floats
    #: one an edge, in the order of `Workflow.edges`
    mbps: Floats
    #: ms to stop and start an operator, whatever the distance
    restart_ms: Floats
    #: ms of migration for a ms of distance
    distance_factor: Floats

    def migration(self, workflow: Workflow, network: Network, root: tuple[int, ...]) -> Floats:
        """Operators x actions: ms to move from the root's action; 0 where nothing moves."""
        site = np.array([s for s, _ in network.actions])
        table = np.empty_like(self.latency)
        for o in range(len(workflow.operators)):
            away = network.paths.distance[site[root[o]], site]
            table[o] = self.restart_ms[o] + self.distance_factor[o] * away
            table[o, root[o]] = 0.0
        return table

    def check(self, workflow: Workflow, network: Network) -> None:
        """Refuse NaN, negative or misshapen estimates, and operators that can run nowhere."""
        shape = (len(workflow.operators), len(network.actions))
        for what, table in (("latency", self.latency), ("throughput", self.throughput)):
            if table.shape != shape:
                msg = f"the {what} table is {table.shape}, but there are {shape[0]} operators and {shape[1]} actions"
                raise PlacementError(msg)
            _check_numbers(what, table, workflow, network)
        for what, row in (("mbps", self.mbps), ("restart_ms", self.restart_ms), ("factor", self.distance_factor)):
            if not np.all(np.isfinite(row)) or np.any(row < 0):
                msg = f"{what} has a negative or undefined entry: {row.tolist()}; estimates must be at least 0"
                raise PlacementError(msg)
        nowhere = [
            o.name for o, row in zip(workflow.operators, self.latency, strict=True) if not np.isfinite(row).any()
        ]
        if nowhere:
            msg = (
                f"{', '.join(nowhere)} can run nowhere: no site has a platform that fits; "
                f"add a platform to a site or widen the operator's platforms (there are {', '.join(network.platforms)})"
            )
            raise PlacementError(msg)


def _check_numbers(what: str, table: Floats, workflow: Workflow, network: Network) -> None:
    bad = np.argwhere(np.isnan(table) | (table < 0))
    if len(bad):
        o, a = bad[0]
        site, platform = network.actions[a]
        msg = (
            f"{what} of {workflow.operators[o].name} on {network.sites[site].name} ({platform}) is {table[o, a]}; "
            "costs must be numbers of at least 0 (inf: cannot run there)"
        )
        raise PlacementError(msg)


class CostModel(Protocol):
    """Anything that estimates: measured tables, distributions, learned trees."""

    def tables(self, workflow: Workflow, network: Network) -> CostTables:
        """Estimate every operator on every action, and every edge."""


@dataclass(frozen=True)
class Objective:
    """How the four aggregates become one number to minimise."""

    #: throughput, latency, traffic, migration; they add up to 1. None: the latency-only mode
    weights: tuple[float, float, float, float] | None
    #: bound and span of each aggregate (throughput negated); filled in by `build_problem`
    best: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    span: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    @staticmethod
    def latency_only() -> Objective:
        """Whole microseconds of latency and migration (section 4.2)."""
        return Objective(None)

    @staticmethod
    def weighted(
        throughput: float = 0.25, latency: float = 0.25, traffic: float = 0.25, migration: float = 0.25
    ) -> Objective:
        """A weighted sum of the normalised aggregates; weights are scaled to add up to 1."""
        weights = (throughput, latency, traffic, migration)
        total = sum(weights)
        if any(not math.isfinite(w) or w < 0 for w in weights) or total <= 0:
            msg = f"weights {weights} must be at least 0 and not all 0"
            raise PlacementError(msg)
        return Objective((throughput / total, latency / total, traffic / total, migration / total))

    @property
    def is_latency(self) -> bool:
        """True in the latency-only mode."""
        return self.weights is None
