"""The planner for every day: cheap steps first, dearer ones only where the cheap ones fail.

    known     the stream is served already
    plan      dynamic programming over stream x host at scarcity prices (a tenth of a millisecond)
    repair    a proposal that overdraws, then repair moves: migrate, swap, re-source
    reorder   new join orders for queries that share streams, from the linear programme over all of them
    referee   the exact model, before a query is refused

Each step leaves the ledger as it was if it fails. A moved or replaced operator costs `weights.migrate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from godwit.admission.dp import Floats
from godwit.admission.exact import any_plan
from godwit.admission.model import AdmissionQuery, Catalog, HostNetwork, ObjectiveWeights
from godwit.admission.orders import JoinOrders
from godwit.admission.proposal import PENALTY, QueryArrays, propose
from godwit.admission.reorder import add, affected, clusters, reorder
from godwit.admission.repair import overdraft, repair
from godwit.admission.scope import scope
from godwit.admission.state import AllocationLedger


@dataclass(frozen=True)
class PlannerOptions:
    """How much effort each step may take."""

    reorder: bool = True
    #: seconds for the exact model before a refusal; 0 refuses without asking it
    referee: float = 1.0
    #: CPU units that starting an operator must save before join orders change
    start_price: float = 2.0
    #: CPU units that each stopped operator must save for new orders to be kept without the query that asked for them
    worth: float = 5.0
    #: how fast prices rise with utilisation: exp(steepness * used / capacity) / capacity
    steepness: float = 3.0


@dataclass(frozen=True)
class AdmissionOutcome:
    """What happened to a query."""

    admitted: bool
    #: the step that decided
    step: str
    #: running operators that were moved or replaced for it
    migrated: int = 0
    #: a refusal is proved if the exact model has no plan either
    proved: bool = False


@dataclass
class IncrementalPlanner:
    """Admits queries one by one into a ledger."""

    network: HostNetwork
    catalog: Catalog
    weights: ObjectiveWeights | None = None
    options: PlannerOptions = field(default_factory=PlannerOptions)

    def __post_init__(self) -> None:
        self.ledger = AllocationLedger(self.network, self.catalog)
        #: admitted queries by the stream they asked for
        self.queries: dict[int, AdmissionQuery] = {}
        self._orders = JoinOrders(self.catalog)
        self._proved = False
        #: groups and orders that could not be carried out; worth another try only when resources were freed
        self._failed: set[tuple[frozenset[int], frozenset[int]]] = set()

    def admit(self, query: AdmissionQuery) -> AdmissionOutcome:
        """Admit a query if any step finds a plan."""
        if query.result in self.ledger.served:
            return AdmissionOutcome(True, "known")
        if not len(self.network):
            return AdmissionOutcome(False, "refused", proved=True)
        before = self._running()
        shape, price = QueryArrays.of(self.catalog, query), self.prices()
        self._proved = False
        for step in (self._plan, self._repair, self._reorder, self._referee):
            if step(query, shape, price):
                self._keep(query)
                return AdmissionOutcome(True, step.__name__[1:], len(before - self._running()))
        return AdmissionOutcome(False, "refused", len(before - self._running()), self._proved)

    def admit_batch(self, queries: Sequence[AdmissionQuery]) -> list[AdmissionOutcome]:
        """Admit several queries, those first that need least CPU beside what runs; answers in the order given."""
        outcomes: dict[int, AdmissionOutcome] = {}
        waiting = list(range(len(queries)))
        while waiting:
            first = min(waiting, key=lambda number: (self.addition(queries[number]), number))
            waiting.remove(first)
            outcomes[first] = self.admit(queries[first])
        return [outcomes[number] for number in range(len(queries))]

    def addition(self, query: AdmissionQuery) -> float:
        """The least CPU the query adds to what runs, hosts left aside."""
        cost: dict[int, float] = {}
        allowed = set(query.operators)
        for stream in query.streams:
            if self.ledger.holders(stream):
                cost[stream] = 0.0
                continue
            makers = [self.catalog.operators[o] for o in self.catalog.makers[stream] if o in allowed]
            cost[stream] = min((o.cpu + sum(cost[s] for s in o.inputs) for o in makers), default=float("inf"))
        return cost[query.result]

    def withdraw(self, query: AdmissionQuery) -> None:
        """Forget an admitted query; what only it needed is dropped."""
        del self.queries[query.result]
        self._orders.demand(query, False)
        self.ledger.withdraw(query.result)
        self.ledger.forget()
        self._failed.clear()

    def restore(self, ledger: AllocationLedger, queries: Mapping[int, AdmissionQuery]) -> None:
        """Go on from another state."""
        for query in [*self.queries.values(), *queries.values()]:
            self._orders.demand(query, query.result in queries)
        self.ledger, self.queries = ledger, dict(queries)
        self._failed.clear()

    def replan(self, query: AdmissionQuery) -> bool:
        """Plan an admitted query again; kept if it overdraws less than before, or as little with less CPU."""
        before = (overdraft(self.ledger), -float(self.ledger.cpu_free.sum()))
        mark = self.ledger.mark()
        self.ledger.withdraw(query.result)
        shape = QueryArrays.of(self.catalog, query)
        fine = propose(self.ledger, query, shape, self.prices(), PENALTY) < float("inf")
        if fine and not self.ledger.fits():
            repair(self.ledger)
        after = (overdraft(self.ledger), -float(self.ledger.cpu_free.sum()))
        if fine and (after[0] < before[0] - 1e-9 or (after[0] <= before[0] and after[1] < before[1] - 1e-9)):
            self.ledger.forget()
            return True
        self.ledger.rollback(mark)
        return False

    def prices(self) -> Floats:
        """A unit of a resource costs more the less of it is left (rows: CPU, NIC in, NIC out).

        Without a weight on balance it is the other way round for CPU: what is in use is used up first.
        """
        free = np.stack((self.ledger.cpu_free, self.ledger.in_free, self.ledger.out_free))
        capacity = np.maximum(np.stack((self.network.cpu, self.network.nic_in, self.network.nic_out)), 1e-9)
        used = np.clip(1 - free / capacity, 0, 1)
        slope = np.full((3, 1), self.options.steepness)
        if self.weights is not None and not self.weights.balance:
            slope[0] = -1.0
        return np.asarray(np.exp(slope * used) / capacity)

    def _running(self) -> set[tuple[int, int]]:
        return {(o, h) for h, operators in enumerate(self.ledger.running) for o in operators}

    def _keep(self, query: AdmissionQuery) -> None:
        self.queries[query.result] = query
        if self.options.reorder:
            self._orders.demand(query)
        self.ledger.forget()

    def _plan(self, query: AdmissionQuery, shape: QueryArrays, price: Floats) -> bool:
        mark = self.ledger.mark()
        if propose(self.ledger, query, shape, price) < float("inf") and self.ledger.fits():
            return True
        self.ledger.rollback(mark)
        return False

    def _repair(self, query: AdmissionQuery, shape: QueryArrays, price: Floats) -> bool:
        mark = self.ledger.mark()
        for penalty in (float("inf"), PENALTY):
            if propose(self.ledger, query, shape, price, penalty) < float("inf") and repair(self.ledger):
                return True
            self.ledger.rollback(mark)
        return False

    def _reorder(self, query: AdmissionQuery, shape: QueryArrays, price: Floats) -> bool:
        """New join orders with the query; or else, group by group, whatever saves enough CPU, and then the query."""
        if not self.options.reorder:
            return False
        chosen = self._best_orders(query)
        if chosen is None:
            return False
        touched = affected(self.ledger, self.queries, chosen)
        if not touched:
            return False
        if reorder(self.ledger, self.queries, touched, chosen, price, [query]):
            return True
        return self._improve(chosen) and add(self.ledger, query, shape, self.prices())

    def _referee(self, query: AdmissionQuery, shape: QueryArrays, price: Floats) -> bool:
        """Ask the exact model over S(q) and O(q) whether there is any plan at all."""
        if not self.options.referee:
            return False
        weights = self.weights or ObjectiveWeights.paper(self.network)
        problem = scope(self.network, self.catalog, self.ledger.snapshot(), self.queries, query, weights)
        answer = any_plan(problem, self.options.referee)
        self._proved = answer.proved
        if answer.ledger is None:
            return False
        self.ledger = answer.ledger
        return True

    def _improve(self, chosen: frozenset[int]) -> bool:
        """Keep the new orders of each group that saves enough for what it stops."""
        improved = False
        for group in clusters(self.ledger, self.queries, chosen):
            operators = {o for stream in group for o in self.queries[stream].operators}
            attempt = (frozenset(group), chosen & operators)
            if attempt in self._failed:
                continue
            mark, before, free = self.ledger.mark(), self._running(), self.ledger.cpu_free.sum()
            if reorder(self.ledger, self.queries, group, chosen, self.prices()):
                stopped = len(before - self._running())
                if self.ledger.cpu_free.sum() - free >= self.options.worth * max(stopped, 1):
                    self.ledger.forget()
                    improved = True
                    continue
            self.ledger.rollback(mark)
            self._failed.add(attempt)
        if improved:
            self._failed.clear()
        return improved

    def _best_orders(self, query: AdmissionQuery) -> frozenset[int] | None:
        """The operators of the best join orders with the query; None where they exceed all CPU together."""
        live = {o for operators in self.ledger.running for o in operators}
        self._orders.demand(query)
        self._orders.surcharge(live, self.options.start_price)
        answer = self._orders.solve()
        self._orders.demand(query, False)
        cpu = sum(self.catalog.operators[o].cpu for o in answer.operators)
        return answer.operators if cpu <= self.network.cpu.sum() + 1e-6 else None
