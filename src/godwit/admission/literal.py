"""The paper's model as printed, the reference for all others: III.4 to III.8 with IV.9, one function a constraint
family.

Slips of the paper that are corrected here: the cost of an operator is gamma_o (printed s_o in II-A), III.6b sums rho_s
(printed rho_c), lambda_3 scales by the hosts' CPU (printed kappa), IV.9 holds for each admitted query (printed for each
existing stream), and fixed operators outside O(q) still need their inputs (III.5b with z fixed to 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from godwit.admission.highs import Programme, Solution
from godwit.admission.scope import PlanningScope, load_snapshot
from godwit.admission.state import AllocationLedger, LedgerSnapshot

Pair = tuple[int, int]


@dataclass(frozen=True)
class LiteralSolution:
    """A model's answer: the new state as a ledger, or None where the query does not fit (or time ran out)."""

    ledger: AllocationLedger | None
    #: final: optimal, or certainly infeasible
    proved: bool
    solution: Solution


@dataclass
class Literal:
    """Variables III.1, by (host, stream), (host, host, stream) or (host, operator)."""

    scope: PlanningScope
    #: pairs of hosts that have an x; the paper has all of them
    pairs: list[Pair] = field(default_factory=list)
    programme: Programme = field(default_factory=Programme)
    d: dict[Pair, int] = field(default_factory=dict)
    x: dict[tuple[int, int, int], int] = field(default_factory=dict)
    y: dict[Pair, int] = field(default_factory=dict)
    z: dict[Pair, int] = field(default_factory=dict)
    p: dict[Pair, int] = field(default_factory=dict)
    busiest: int = -1

    def into(self, host: int, stream: int) -> list[int]:
        """x_hms of all senders h to a host m."""
        return [self.x[h, m, stream] for h, m in self.pairs if m == host and (h, m, stream) in self.x]

    def out_of(self, host: int, stream: int) -> list[int]:
        """x_hms of all receivers m from a host h."""
        return [self.x[h, m, stream] for h, m in self.pairs if h == host and (h, m, stream) in self.x]

    @property
    def hosts(self) -> range:
        """H."""
        return range(len(self.scope.network))


def solve(scope: PlanningScope, seconds: float) -> LiteralSolution:
    """Solve III.8 with IV.9 for a query."""
    hosts = range(len(scope.network))
    model = Literal(scope, [(h, m) for h in hosts for m in hosts if h != m])
    add_variables(model)
    add_potentials(model)
    add_demand(model)
    add_admitted_queries_stay(model)
    add_availability(model)
    add_operator_inputs(model)
    add_senders_hold(model)
    add_link_capacity(model)
    add_receive_capacity(model)
    add_send_capacity(model)
    add_cpu_capacity(model)
    add_acyclicity(model)
    add_busiest_host(model)
    solution = model.programme.solve(seconds)
    return LiteralSolution(extract(model, solution.values), solution.proved, solution)


def add_variables(model: Literal) -> None:
    """III.1 with the objective III.3 as costs (to be minimised, so O1 counts negative)."""
    scope, weights, add = model.scope, model.scope.weights, model.programme.column
    for h in model.hosts:
        for s in scope.query.streams:
            model.y[h, s] = add()
            if s in scope.wanted:
                model.d[h, s] = add(-weights.admit)
        for o in scope.query.operators:
            model.z[h, o] = add(weights.cpu * scope.catalog.operators[o].cpu + move_price(scope, h, o))
    for h, m in model.pairs:
        for s in scope.query.streams:
            model.x[h, m, s] = add(weights.network * scope.catalog.streams[s].rate)
    model.busiest = add(weights.balance, lower=float(scope.load.max()), upper=float("inf"), integer=False)


def add_potentials(model: Literal) -> None:
    """p_hs, for III.7 only."""
    for pair in model.y:
        model.p[pair] = model.programme.column(upper=len(model.hosts) + 1.0, integer=False)


def move_price(scope: PlanningScope, host: int, operator: int) -> float:
    """Running an operator where it does not run now costs a migration, if it runs elsewhere now."""
    runs = {h for h, o in scope.running if o == operator}
    return scope.weights.migrate if runs and host not in runs else 0.0


def add_demand(model: Literal) -> None:
    """III.4a: who serves a stream holds it. III.4b: one host at most serves it."""
    for (h, s), d in model.d.items():
        model.programme.at_most([(d, 1), (model.y[h, s], -1)], 0)
    for s in model.scope.wanted:
        model.programme.at_most([(model.d[h, s], 1) for h in model.hosts], 1)


def add_admitted_queries_stay(model: Literal) -> None:
    """IV.9, for each admitted query: it stays served, though perhaps by another host."""
    for s in model.scope.wanted:
        if s != model.scope.query.result:
            model.programme.equal([(model.d[h, s], 1) for h in model.hosts], 1)


def add_availability(model: Literal) -> None:
    """III.5a: a held stream is received, made here, or at home here."""
    catalog = model.scope.catalog
    for (m, s), y in model.y.items():
        received = [(x, -1.0) for x in model.into(m, s)]
        made = [(model.z[m, o], -1.0) for o in catalog.makers[s] if (m, o) in model.z]
        model.programme.at_most([(y, 1.0), *received, *made], 1.0 if s in model.scope.origins[m] else 0.0)


def add_operator_inputs(model: Literal) -> None:
    """III.5b: an operator runs only where its inputs are held, fixed operators included."""
    for (h, o), z in model.z.items():
        for s in model.scope.catalog.operators[o].inputs:
            model.programme.at_most([(z, 1), (model.y[h, s], -1)], 0)
    for h in model.hosts:
        for s in model.scope.needs[h]:
            model.programme.fix(model.y[h, s], 1)


def add_senders_hold(model: Literal) -> None:
    """III.5c: only a holder sends."""
    for (h, _, s), x in model.x.items():
        model.programme.at_most([(x, 1), (model.y[h, s], -1)], 0)


def add_link_capacity(model: Literal) -> None:
    """III.6a; pairs without a link have no capacity."""
    for h, m in model.pairs:
        terms = [(model.x[h, m, s], _rate(model, s)) for s in model.scope.query.streams if (h, m, s) in model.x]
        model.programme.at_most(terms, link_room(model.scope, h, m))


def link_room(scope: PlanningScope, source: int, target: int) -> float:
    """What the fixed part leaves of a link."""
    return scope.network.bandwidth(source, target) if scope.links is None else scope.links.get((source, target), 0.0)


def add_receive_capacity(model: Literal) -> None:
    """III.6b."""
    for m in model.hosts:
        terms = [(x, _rate(model, s)) for s in model.scope.query.streams for x in model.into(m, s)]
        model.programme.at_most(terms, float(model.scope.nic_in[m]))


def add_send_capacity(model: Literal) -> None:
    """III.6c: to other hosts and to clients."""
    for h in model.hosts:
        sent = [(x, _rate(model, s)) for s in model.scope.query.streams for x in model.out_of(h, s)]
        served = [(model.d[h, s], _rate(model, s)) for s in model.scope.wanted]
        model.programme.at_most([*sent, *served], float(model.scope.nic_out[h]))


def add_cpu_capacity(model: Literal) -> None:
    """III.6d."""
    for h in model.hosts:
        model.programme.at_most(_cpu_terms(model, h), float(model.scope.cpu[h]))


def add_acyclicity(model: Literal) -> None:
    """III.7: a stream flows downhill, so it cannot feed itself."""
    big = len(model.hosts) + 2.0
    for (h, m, s), x in model.x.items():
        model.programme.row([(model.p[h, s], 1), (model.p[m, s], -1), (x, -big)], lower=1 - big)


def add_busiest_host(model: Literal) -> None:
    """O4, linearised: no host's load exceeds it."""
    for h in model.hosts:
        model.programme.at_most([*_cpu_terms(model, h), (model.busiest, -1.0)], -float(model.scope.load[h]))


def _cpu_terms(model: Literal, host: int) -> list[tuple[int, float]]:
    return [(model.z[host, o], model.scope.catalog.operators[o].cpu) for o in model.scope.query.operators]


def _rate(model: Literal, stream: int) -> float:
    return model.scope.catalog.streams[stream].rate


def extract(model: Literal, values: NDArray[np.float64] | None) -> AllocationLedger | None:
    """The state that the variables say, if it admits the query."""
    if values is None or not any(values[model.d[h, model.scope.query.result]] > 0.5 for h in model.hosts):
        return None
    fixed = model.scope.fixed()
    state = LedgerSnapshot(
        fixed.served | {pair for pair, d in model.d.items() if values[d] > 0.5},
        fixed.flows | {key for key, x in model.x.items() if values[x] > 0.5},
        fixed.placed | {pair for pair, z in model.z.items() if values[z] > 0.5},
    )
    return load_snapshot(model.scope.network, model.scope.catalog, state)
