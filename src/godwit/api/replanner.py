"""The plan optimiser in the running fleet: measures joins, asks `replan/optimiser.py`, and has them changed.

Off unless `Fleet(replan=True)` or `replan=ReplanPolicy(...)`. A change is a command like a user's. Whatever speaks for
another order is in the fleet's history, with its numbers, whether it was decided or declined; a reason that has not
changed since is not reported again.

Counts are of a shape, so only queries that are alone in theirs are looked at.
"""

from __future__ import annotations

import time

from godwit.api.core import FleetCore
from godwit.api.plan_versions import CHOSEN, PlanVersions
from godwit.control.commands import Replan
from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.errors import ConfigError, DeploymentError
from godwit.ids import QueryId
from godwit.model.plan import Query
from godwit.observe.flows import Flows
from godwit.observe.loads import measured
from godwit.replan.box import JoinBox
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.optimiser import MeasuredQuery, ReplanDecision, ReplanMemory, ReplanPolicy, decide


class Replanner:
    """One per fleet; the supervisor lets it look."""

    def __init__(self, fleet: FleetCore, plans: PlanVersions, wanted: bool | ReplanPolicy) -> None:
        self._fleet, self._plans = fleet, plans
        self.policy = wanted if isinstance(wanted, ReplanPolicy) else ReplanPolicy() if wanted else None
        plans.load = self.load
        self._memory = ReplanMemory()
        self._looked_s = 0.0
        #: execution -> what had flowed through it at the last look
        self._flows: dict[QueryId, Flows] = {}
        #: query -> what is known of its load, and what was last reported of it
        self._loads: dict[QueryId, BoxLoad] = {}
        self._reported: dict[QueryId, str] = {}

    def look_if_due(self) -> None:
        now = time.time()
        if self.policy is not None and now - self._looked_s >= self.policy.every_s:
            self.look(now)

    def look(self, at: float) -> tuple[ReplanDecision, ...]:
        """Look once. The first look at a plan only takes the measure that the next one is compared with."""
        if self.policy is None:
            return ()
        self._looked_s = at
        found = {name: one for name in self._fleet.queries if (one := self._measured(name)) is not None}
        self._memory, decisions = decide(self._memory, found, at, self.policy)
        for decision in decisions:
            self._act(decision)
        return decisions

    def load(self, name: QueryId) -> BoxLoad | None:
        """What is known of a query's load: as measured lately or, without looks, since its plan began."""
        if name in self._loads:
            return self._loads[name]
        query = self._fleet.execution(name)
        return measured(query, self._box(query), self._fleet.metrics.flows(query.shape.key), None)

    def _measured(self, name: QueryId) -> MeasuredQuery | None:
        query = self._fleet.execution(name)
        box = self._box(query)
        alone = len(list(self._fleet.deployment.of_shape(query.shape.key))) == 1
        if box is None or len(box.joins) < 2 or not alone or not self._can_change(name, query):
            return None
        now = self._fleet.metrics.flows(query.shape.key)
        before = self._flows.get(query.id)
        if before is None:
            self._flows = {one: flows for one, flows in self._flows.items() if one in self._fleet.deployment.queries}
            self._flows[query.id] = now
            return None
        assert self.policy is not None
        since = now.since(before)
        if since.event_us <= 0 or sum(since.taken.values()) < self.policy.least_rows:
            return None
        self._flows[query.id] = now
        load = measured(query, box, since, self._loads.get(name))
        if load is None:
            return None
        self._loads[name] = load
        geometry = spans_of(query, self._fleet.deployment.streams)
        orders, span_s = tuple(box.orders()), box.span_us / 1e6
        return MeasuredQuery(name, box.tree, orders, load, geometry, CHOSEN, span_s=span_s)

    def _can_change(self, name: QueryId, query: Query) -> bool:
        try:
            self._plans.check(name, query)
        except DeploymentError:
            return False
        return True

    def _box(self, query: Query) -> JoinBox | None:
        try:
            return JoinBox.of(query.shape.plan, self._fleet.deployment.streams)
        except ConfigError:
            return None

    def _act(self, decision: ReplanDecision) -> None:
        if decision.change:
            self._fleet.control.post(Replan(decision.query, str(decision.order), decision.strategy))
        reason = decision.why.rpartition(": ")[2].split(" ")[0] if " would take " in decision.why else ""
        before = self._reported.get(decision.query, "")
        self._reported[decision.query] = "" if decision.change else reason
        if decision.change or (reason and reason != before):
            last = self._fleet.plane.coordinator.record.number
            outcome = "committed" if decision.change else "declined"
            text = f"plan optimiser, query '{decision.query}': {decision.why}"
            self._fleet.history.add(ReconfigurationRecord(last, text, (decision.query,), outcome=outcome))
