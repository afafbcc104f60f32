"""The placement problem: workflow, network, estimates, root plan, objective and constraints, in one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from godwit.errors import PlacementError
from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Floats, Network
from godwit.placement.problem.workflow import Workflow

if TYPE_CHECKING:
    from godwit.placement.kernels.cost import Arrays

#: a plan: for each operator (sorted by name) the position of its action in `Network.actions`
PlanVector = tuple[int, ...]


@dataclass(frozen=True)
class Evaluation:
    """What a plan costs and why."""

    cost: float
    throughput: float
    latency_ms: float
    traffic_mbps: float
    migration_ms: float
    feasible: bool


@dataclass(frozen=True)
class Problem:
    """Build with `build_problem` (build.py), which checks everything and fixes the normalisation."""

    workflow: Workflow
    network: Network
    tables: CostTables
    root: PlanVector
    objective: Objective = field(default_factory=Objective.latency_only)
    constraints: Constraints = field(default_factory=Constraints)

    def checked(self) -> Problem:
        """This problem, if its parts fit together; PlacementError or ConfigError says which do not."""
        self.tables.check(self.workflow, self.network)
        self._check_root()
        self.constraints.check(self.workflow, self.network)
        self._check_allowed()
        return self

    def at(self, root: PlanVector) -> Problem:
        """The same problem seen from another deployed plan; the normalisation stays, so that costs compare."""
        moved = replace(self, root=tuple(root))
        moved._check_root()
        return moved

    @cached_property
    def latency(self) -> Floats:
        """Operators x actions; inf also where a constraint or a capability forbids the action."""
        return np.where(self.constraints.allowed(self.workflow, self.network), self.tables.latency, math.inf)

    @cached_property
    def choices(self) -> tuple[NDArray[np.int64], ...]:
        """The allowed actions of each operator."""
        return tuple(np.flatnonzero(np.isfinite(row)) for row in self.latency)

    @cached_property
    def arrays(self) -> Arrays:
        """The problem as the kernels want it."""
        from godwit.placement.problem.arrays import build

        return build(self)

    def evaluate(self, plan: PlanVector) -> Evaluation:
        """The four aggregates and the cost of one plan."""
        return self.evaluate_all(np.array([plan], dtype=np.int64))[0]

    def evaluate_all(self, plans: NDArray[np.int64]) -> list[Evaluation]:
        """`evaluate` for each row."""
        from godwit.placement.kernels import cost as kernels

        vectors, costs = np.empty((len(plans), 4)), np.empty(len(plans))
        kernels.evaluate_many(self.arrays, plans, vectors, costs)
        if self.objective.is_latency:
            vectors[:, [0, 2]] = 0.0
        return [
            Evaluation(cost, -slowest, latency, traffic, migration, feasible=cost < kernels.BROKEN)
            for cost, (slowest, latency, traffic, migration) in zip(costs.tolist(), vectors.tolist(), strict=True)
        ]

    def describe(self, plan: PlanVector) -> dict[str, tuple[str, str]]:
        """Operator name -> (site name, platform)."""
        actions, sites = self.network.actions, self.network.sites
        return {
            o.name: (sites[actions[a][0]].name, actions[a][1])
            for o, a in zip(self.workflow.operators, plan, strict=True)
        }

    def plan_of(self, where: dict[str, tuple[str, str]]) -> PlanVector:
        """The reverse of `describe`."""
        action = {(self.network.sites[s].name, p): i for i, (s, p) in enumerate(self.network.actions)}
        plan = []
        for operator in self.workflow.operators:
            if operator.name not in where:
                msg = f"the plan does not place {operator.name!r}; give it a site and a platform"
                raise PlacementError(msg)
            if where[operator.name] not in action:
                msg = f"the plan places {operator.name} on {where[operator.name]}, which the network does not offer"
                raise PlacementError(msg)
            plan.append(action[where[operator.name]])
        return tuple(plan)

    def _check_root(self) -> None:
        if len(self.root) != len(self.workflow.operators):
            msg = f"the root plan places {len(self.root)} operators, the workflow has {len(self.workflow.operators)}"
            raise PlacementError(msg)
        wrong = [a for a in self.root if not 0 <= a < len(self.network.actions)]
        if wrong:
            msg = f"the root plan uses action {wrong[0]}, but there are only {len(self.network.actions)} actions"
            raise PlacementError(msg)

    def _check_allowed(self) -> None:
        shut = [o.name for o, c in zip(self.workflow.operators, self.choices, strict=True) if not len(c)]
        if shut:
            demands = [words for words, _ in self.constraints.parts() if any(name in words for name in shut)]
            why = "; ".join(demands) or "its platforms and capabilities"
            msg = f"{', '.join(shut)} can run nowhere: {why} leave no action that can run it; relax one of them"
            raise PlacementError(msg)
