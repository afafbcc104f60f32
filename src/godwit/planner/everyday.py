"""The planner for every day: cheap steps first, dearer ones only where the cheap ones fail.

    known     the stream is served already
    plan      dynamic programming over stream x host at scarcity prices (a tenth of a millisecond)
    repair    a proposal that overdraws, then repair moves: migrate, swap, re-source
    reorder   new join orders for queries that share streams, from the linear programme over all of them
    referee   the exact model, before a query is refused

Each step leaves the ledger as it was if it fails. A moved or replaced operator costs `weights.migrate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from godwit.planner.dp import Floats
from godwit.planner.exact import any_plan
from godwit.planner.model import Catalog, Network, Query, Weights
from godwit.planner.orders import JoinOrders
from godwit.planner.proposal import PENALTY, Shape, propose
from godwit.planner.reorder import add, affected, clusters, reorder
from godwit.planner.repair import repair
from godwit.planner.scope import scope
from godwit.planner.state import Ledger


@dataclass(frozen=True)
class Options:
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
class Outcome:
    """What happened to a query."""

    admitted: bool
    #: the step that decided
    step: str
    #: running operators that were moved or replaced for it
    migrated: int = 0
    #: a refusal is proved if the exact model has no plan either
    proved: bool = False


@dataclass
class EverydayPlanner:
    """Admits queries one by one into a ledger."""

    network: Network
    catalog: Catalog
    weights: Weights | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.network, self.catalog)
        #: admitted queries by the stream they asked for
        self.queries: dict[int, Query] = {}
        self._orders = JoinOrders(self.catalog)
        self._proved = False

    def admit(self, query: Query) -> Outcome:
        """Admit a query if any step finds a plan."""
        if query.result in self.ledger.served:
            return Outcome(True, "known")
        before = self._running()
        shape, price = Shape.of(self.catalog, query), self.prices()
        self._proved = False
        for step in (self._plan, self._repair, self._reorder, self._referee):
            if step(query, shape, price):
                self._keep(query)
                return Outcome(True, step.__name__[1:], len(before - self._running()))
        return Outcome(False, "refused", len(before - self._running()), self._proved)

    def withdraw(self, query: Query) -> None:
        """Forget an admitted query; what only it needed is dropped."""
        del self.queries[query.result]
        self._orders.demand(query, False)
        self.ledger.withdraw(query.result)
        self.ledger.forget()

    def prices(self) -> Floats:
        """A unit of a resource costs more the less of it is left (rows: CPU, NIC in, NIC out)."""
        free = np.stack((self.ledger.cpu_free, self.ledger.in_free, self.ledger.out_free))
        capacity = np.maximum(np.stack((self.network.cpu, self.network.nic_in, self.network.nic_out)), 1e-9)
        used = np.clip(1 - free / capacity, 0, 1)
        return np.asarray(np.exp(self.options.steepness * used) / capacity)

    def _running(self) -> set[tuple[int, int]]:
        return {(o, h) for h, operators in enumerate(self.ledger.running) for o in operators}

    def _keep(self, query: Query) -> None:
        self.queries[query.result] = query
        if self.options.reorder:
            self._orders.demand(query)
        self.ledger.forget()

    def _plan(self, query: Query, shape: Shape, price: Floats) -> bool:
        mark = self.ledger.mark()
        if propose(self.ledger, query, shape, price) < float("inf") and self.ledger.fits():
            return True
        self.ledger.rollback(mark)
        return False

    def _repair(self, query: Query, shape: Shape, price: Floats) -> bool:
        mark = self.ledger.mark()
        for penalty in (float("inf"), PENALTY):
            if propose(self.ledger, query, shape, price, penalty) < float("inf") and repair(self.ledger):
                return True
            self.ledger.rollback(mark)
        return False

    def _reorder(self, query: Query, shape: Shape, price: Floats) -> bool:
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

    def _referee(self, query: Query, shape: Shape, price: Floats) -> bool:
        """Ask the exact model over S(q) and O(q) whether there is any plan at all."""
        if not self.options.referee:
            return False
        weights = self.weights or Weights.paper(self.network)
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
            mark, before, free = self.ledger.mark(), self._running(), self.ledger.cpu_free.sum()
            if reorder(self.ledger, self.queries, group, chosen, self.prices()):
                stopped = len(before - self._running())
                if self.ledger.cpu_free.sum() - free >= self.options.worth * max(stopped, 1):
                    self.ledger.forget()
                    improved = True
                    continue
            self.ledger.rollback(mark)
        return improved

    def _best_orders(self, query: Query) -> frozenset[int] | None:
        """The operators of the best join orders with the query; None where they exceed all CPU together."""
        live = {o for operators in self.ledger.running for o in operators}
        self._orders.demand(query)
        self._orders.surcharge(live, self.options.start_price)
        answer = self._orders.solve()
        self._orders.demand(query, False)
        cpu = sum(self.catalog.operators[o].cpu for o in answer.operators)
        return answer.operators if cpu <= self.network.cpu.sum() + 1e-6 else None
