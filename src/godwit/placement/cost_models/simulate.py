"""A placement simulator: what running a plan would write to the metrics log.

Every site is a queue (M/M/1): operators on it share its speed, so latency grows with utilisation; measurements
scatter by a lognormal factor that is wider on small devices. It stands in for a fleet where none has run yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from godwit.placement.problem.network import Network
from godwit.placement.problem.problem import PlanVector
from godwit.placement.problem.workflow import Workflow

#: an engine's overhead on the work of a tuple
PLATFORM_FACTOR = {
    "minifi-c": 0.9,
    "minifi-java": 1.2,
    "kafka-streams": 1.1,
    "flink": 1.0,
    "spark": 1.3,
    "python": 10.0,
    "java": 1.1,
}
#: scatter of measurements by kind of device
SCATTER = {"CLOUD": 0.05, "WORKSTATION": 0.08, "LAPTOP": 0.12, "NVIDIA_JETSON": 0.15, "RASPBERRY_PI": 0.25}


def run_plan(
    workflow: Workflow,
    network: Network,
    plan: PlanVector,
    rate_ktps: float,
    random: np.random.Generator,
    moved_from: PlanVector | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows one plan writes in one interval."""
    site = [network.actions[a][0] for a in plan]
    load = _load(workflow, network, plan, rate_ktps)
    for o, operator in enumerate(workflow.operators):
        where, platform = network.sites[site[o]], network.actions[plan[o]][1]
        scatter = random.lognormal(0.0, SCATTER.get(where.kind, 0.2))
        service_ms = operator.work * PLATFORM_FACTOR.get(platform, 1.0) / where.mips * 1000.0
        used = min(load[site[o]], 0.98)
        sources = list(workflow.graph.predecessors(o))
        mbps = sum(e.mbps for e in workflow.edges if e.target == operator.name) * rate_ktps
        hops = float(np.mean([network.paths.hops[site[u], site[o]] for u in sources])) if sources else 0.0
        moved = 0.0 if moved_from is None else float(network.paths.distance[network.actions[moved_from[o]][0], site[o]])
        yield {
            "workflow": workflow.name,
            "operator": operator.name,
            "site": where.name,
            "site_kind": where.kind,
            "platform": platform,
            "work": operator.work,
            "mips": where.mips,
            "input_ktps": rate_ktps,
            "neighbours": float(site.count(site[o]) - 1),
            "edge_mbps": mbps,
            "edge_hops": hops,
            "state_mb": operator.state_mb,
            "moved_ms": moved,
            "throughput_ktps": min(1.0, 1.0 - used + rate_ktps * service_ms) / service_ms / scatter,
            "latency_ms": service_ms / (1.0 - used) * scatter,
            "traffic_mbps": mbps * hops,
            "migration_ms": 0.0 if moved == 0.0 else (2.0 + operator.state_mb / 100.0 + moved) * scatter,
        }


def _load(workflow: Workflow, network: Network, plan: PlanVector, rate_ktps: float) -> list[float]:
    """Utilisation of each site."""
    load = [0.0] * len(network.sites)
    for operator, action in zip(workflow.operators, plan, strict=True):
        site, platform = network.actions[action]
        work = operator.work * PLATFORM_FACTOR.get(platform, 1.0)
        load[site] += rate_ktps * 1000.0 * work / network.sites[site].mips
    return load


def simulate(workflow: Workflow, network: Network, plans: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Rows of `plans` random plans, each at a random rate; every other one was just migrated to."""
    random = np.random.default_rng(seed)
    for k in range(plans):
        plan, old = (
            tuple(random.integers(0, len(network.actions), len(workflow.operators)).tolist()) for _ in range(2)
        )
        rate = float(random.uniform(0.01, 2.0))
        yield from run_plan(workflow, network, plan, rate, random, old if k % 2 else None)
