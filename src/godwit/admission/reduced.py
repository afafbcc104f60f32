"""The same optimum as the literal model, fast, where links never bind (kappa_hm >= min(beta) for every pair).

What is left out, and why nothing is lost:
- x_hms, potentials and big-M. Receive bits r_ms and copy counts n_hs suffice: if the holders' copy counts add up to the
  number of receivers and some origin sends at least one copy, a causal forest exists (attach receivers that send
  themselves first; there is always a free copy). O2 depends on r alone. `reduced_plan.forest` builds the transfers.
- y_hs. A stream is available where it starts (a constant), is received, or is made.
- The weakness of the relaxation. Each required composite stream gets one continuous flow in the stream x host
  hypergraph:
  as much of an inner stream is made as is used, on whichever host. z and r dominate all flows.
- Most hosts. Among hosts that hold the same streams for good, one with no more CPU and NIC than `spare` others is not
  needed: an optimal plan has at most one fresh host for each operator and one relay.
- Most of O4. Any plan better than the incumbent keeps every host below a known load; operators that would exceed it are
  left out, and where fixed loads reach it, O4 is a constant.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Set
from dataclasses import replace

import numpy as np

from godwit.admission.highs import INF
from godwit.admission.incumbent import cost, incumbent
from godwit.admission.literal import LiteralSolution, move_price
from godwit.admission.model import SLACK, Floats
from godwit.admission.reduced_plan import extract, starting_point
from godwit.admission.reduced_variables import Pair, Reduced, Terms
from godwit.admission.scope import PlanningScope
from godwit.admission.state import AllocationLedger


def solve(scope: PlanningScope, seconds: float) -> LiteralSolution:
    """Solve to proved optimality, or as far as time allows; the query is admitted whenever that is feasible."""
    end = time.monotonic() + seconds
    first = incumbent(scope)
    if first is not None and scope.weights.balance:
        first = _lower_peak(scope, first, seconds)
    best = float("inf") if first is None else cost(scope, first)
    seconds = max(end - time.monotonic(), 0.01)
    model = build(scope, best, set() if first is None else _used(scope, first))
    solution = model.programme.solve(seconds, start=None if first is None else starting_point(model, first))
    found = None if solution.values is None else extract(model, solution.values)
    if found is None or (first is not None and best <= cost(scope, found)):
        found = first
    proved = solution.status == "optimal" or (solution.status == "infeasible" and first is None)
    return LiteralSolution(found, proved, solution)


def _lower_peak(scope: PlanningScope, first: AllocationLedger, seconds: float) -> AllocationLedger:
    """The incumbent, or a better one that keeps the busiest host as low as any plan can.

    Most optimal plans do. Without O4 the model is small; and with such an incumbent most of the whole one falls away.
    """
    low = lowest_peak(scope) + SLACK
    if float((scope.network.cpu - first.cpu_free).max()) <= low:
        return first
    model = build(scope, keep=_used(scope, first), top=low)
    solution = model.programme.solve(seconds)
    found = None if solution.values is None else extract(model, solution.values)
    return first if found is None or cost(scope, found) >= cost(scope, first) else found


def first_plan(scope: PlanningScope, seconds: float) -> LiteralSolution:
    """Any plan that admits the query, or the proof that there is none: what a referee needs."""
    indifferent = replace(scope, weights=replace(scope.weights, balance=0.0))
    model = build(indifferent)
    solution = model.programme.solve(seconds, gap=INF)
    found = None if solution.values is None else extract(model, solution.values)
    return LiteralSolution(found, solution.proved, solution)


def _used(scope: PlanningScope, plan: AllocationLedger) -> set[int]:
    """Hosts that the plan uses for streams of the query."""
    state, streams = plan.snapshot(), set(scope.query.streams)
    used = {h for h, o in state.placed if o in scope.query.operators}
    return used.union(*({g, m} for g, m, s in state.flows if s in streams))


def build(
    scope: PlanningScope, best: float = float("inf"), keep: Set[int] = frozenset(), top: float | None = None
) -> Reduced:
    """The whole model, given the cost of the best plan known and the hosts it uses. `top`: no host is to be busier."""
    cap, top = _caps(scope, best) if top is None else (np.minimum(scope.cpu, top - scope.load), top)
    weights = scope.weights
    scale = 1 / max(weights.network, weights.cpu, 1e-9)
    model = Reduced(scope, sorted({*kept_hosts(scope, cap), *keep}), cap, scale)
    add_operators(model)
    add_receivers(model)
    add_copies(model)
    add_service(model)
    add_inputs(model)
    add_needs(model)
    add_forests(model)
    add_capacities(model)
    add_flows(model)
    add_busiest_host(model, top)
    return model


def _caps(scope: PlanningScope, best: float) -> tuple[Floats, float]:
    """Per host, the CPU a better plan may use; and the highest load such a plan can have."""
    if not scope.weights.balance or not np.isfinite(best):
        return scope.cpu, float(scope.network.cpu.max())
    fixed = sum(scope.catalog.streams[s].rate for _, _, s in scope.fixed().flows) * scope.weights.network
    fixed += float(scope.load.sum()) * scope.weights.cpu
    top = max((best - fixed) / scope.weights.balance, float(scope.load.max())) + SLACK
    return np.minimum(scope.cpu, top - scope.load), top


def kept_hosts(scope: PlanningScope, cap: Floats) -> list[int]:
    """Drop a host if enough others hold the same streams for good and have no less of anything."""
    spare = 1 + sum(max(len(_leaves(scope, s)) - 1, 1) for s in _required(scope))
    groups: dict[tuple[frozenset[int], frozenset[int]], list[int]] = defaultdict(list)
    for host in range(len(scope.network)):
        groups[scope.origins[host], scope.needs[host]].append(host)
    kept: list[int] = []
    for members in groups.values():
        room = np.stack((cap[members], -scope.load[members], scope.nic_in[members], scope.nic_out[members]), axis=1)
        order = sorted(range(len(members)), key=lambda i: (*(-room[i]), members[i]))
        chosen: list[int] = []
        for i in order:
            better = sum(bool((room[j] >= room[i] - 1e-9).all()) for j in chosen)
            if better < spare:
                chosen.append(i)
        kept += [members[i] for i in chosen]
    return sorted(kept)


def _leaves(scope: PlanningScope, stream: int) -> set[int]:
    """The streams with a home that a stream is computed from."""
    if scope.catalog.streams[stream].homes:
        return {stream}
    makers = [o for o in scope.catalog.makers[stream] if o in scope.query.operators]
    return set().union(*(_leaves(scope, s) for s in scope.catalog.operators[makers[0]].inputs)) if makers else set()


def _required(scope: PlanningScope) -> list[int]:
    """Composite streams that a host must make: requested, or needed by a fixed operator, and not made for good."""
    needed = set(scope.wanted).union(*scope.needs)
    given = set().union(*scope.origins) if scope.origins else set()
    return sorted(s for s in needed if not scope.catalog.streams[s].homes and s not in given)


def add_operators(model: Reduced) -> None:
    """z_ho, where the operator fits under the host's cap."""
    scope = model.scope
    for h in model.hosts:
        for o in scope.query.operators:
            cpu = scope.catalog.operators[o].cpu
            if cpu <= model.cap[h] + SLACK and scope.catalog.operators[o].output not in scope.origins[h]:
                price = scope.weights.cpu * cpu + move_price(scope, h, o)
                model.runs[h, o] = model.programme.column(price * model.scale)


def add_receivers(model: Reduced) -> None:
    """r_hs: kept hosts may receive anything that fits, others only what their fixed operators need."""
    scope, kept = model.scope, set(model.hosts)
    for h in range(len(scope.network)):
        for s in scope.query.streams:
            if s in scope.origins[h] or not (h in kept or s in scope.needs[h]):
                continue
            if model.rate(s) <= scope.nic_in[h] + SLACK:
                price = scope.weights.network * model.rate(s) * model.scale
                forced = s in scope.needs[h] and not model.made(h, s)
                model.gets[h, s] = model.programme.column(price, lower=1.0 if forced else 0.0)


def add_copies(model: Reduced) -> None:
    """n_hs: how many hosts get the stream from here."""
    scope = model.scope
    for h in range(len(scope.network)):
        for s in scope.query.streams:
            if s in scope.origins[h] or (h, s) in model.gets or model.made(h, s):
                rate = model.rate(s)
                most = len(scope.network) - 1.0
                if rate > 0:
                    most = min(most, float(np.floor((scope.nic_out[h] + SLACK) / rate)))
                if most > 0:
                    model.copies[h, s] = model.programme.column(upper=most)


def add_service(model: Reduced) -> None:
    """d_hs: each wanted stream is served by exactly one host that holds it (III.4, IV.9)."""
    for s in model.scope.wanted:
        for h in range(len(model.scope.network)):
            terms = model.available(h, s)
            if terms is None or terms:
                model.serves[h, s] = model.programme.column()
                if terms:
                    model.programme.row([*terms, (model.serves[h, s], -1.0)], lower=0.0)
        model.programme.equal([(c, 1.0) for (_, t), c in model.serves.items() if t == s], 1.0)


def add_inputs(model: Reduced) -> None:
    """III.5b for free operators; and no host has a stream twice."""
    for (h, o), column in model.runs.items():
        for s in model.scope.catalog.operators[o].inputs:
            terms = model.available(h, s)
            if terms is not None:
                model.programme.row([*terms, (column, -1.0)], lower=0.0)
    for h in model.hosts:
        for s in model.scope.query.streams:
            terms = model.available(h, s)
            if terms and len(terms) > 1:
                model.programme.at_most(terms, 1.0)


def add_needs(model: Reduced) -> None:
    """III.5b for fixed operators."""
    for h, streams in enumerate(model.scope.needs):
        for s in streams:
            terms = model.available(h, s)
            if terms is not None:
                model.programme.row(terms, lower=1.0)


def add_forests(model: Reduced) -> None:
    """As many copies sent as received, only by holders, and at least one by an origin: then a causal forest exists."""
    for s in model.scope.query.streams:
        senders = [(h, c) for (h, t), c in model.copies.items() if t == s]
        receivers = [c for (_, t), c in model.gets.items() if t == s]
        if not receivers:
            continue
        model.programme.equal([*((c, 1.0) for _, c in senders), *((c, -1.0) for c in receivers)], 0.0)
        first: Terms = []
        for h, column in senders:
            terms = model.available(h, s)
            if terms is None:
                first.append((column, 1.0))
                continue
            most = model.programme.upper[column]
            model.programme.row([*((c, most * v) for c, v in terms), (column, -1.0)], lower=0.0)
            if model.made(h, s):
                starts = model.programme.column(integer=False)
                model.programme.row([(column, 1.0), (starts, -1.0)], lower=0.0)
                model.programme.row([*((c, 1.0) for c in model.made(h, s)), (starts, -1.0)], lower=0.0)
                first.append((starts, 1.0))
        for column in receivers:
            model.programme.row([*first, (column, -1.0)], lower=0.0)


def add_capacities(model: Reduced) -> None:
    """III.6b, III.6c, III.6d; CPU under the cap, since a plan above it is not better than the incumbent."""
    scope = model.scope
    into: dict[int, Terms] = defaultdict(list)
    out: dict[int, Terms] = defaultdict(list)
    cpu: dict[int, Terms] = defaultdict(list)
    for (h, s), column in model.gets.items():
        into[h].append((column, model.rate(s)))
    for (h, s), column in [*model.copies.items(), *model.serves.items()]:
        out[h].append((column, model.rate(s)))
    for (h, o), column in model.runs.items():
        cpu[h].append((column, scope.catalog.operators[o].cpu))
    for terms, free in ((into, scope.nic_in), (out, scope.nic_out), (cpu, model.cap)):
        for h, used in terms.items():
            model.programme.at_most(used, float(free[h]))


def add_flows(model: Reduced) -> None:
    """One unit of every required composite stream is made; inner streams are made as much as they are used."""
    for goal in _required(model.scope):
        _add_flow(model, goal)


def _add_flow(model: Reduced, goal: int) -> None:
    scope, programme = model.scope, model.programme
    inside = _below(scope, goal)
    flow = {
        (h, o): programme.column(upper=1.0, integer=False)
        for (h, o) in model.runs
        if scope.catalog.operators[o].output in inside
    }
    for pair, column in flow.items():
        programme.row([(model.runs[pair], 1.0), (column, -1.0)], lower=0.0)
    users: dict[Pair, Terms] = defaultdict(list)
    makers: dict[Pair, Terms] = defaultdict(list)
    for (h, o), column in flow.items():
        makers[h, scope.catalog.operators[o].output].append((column, 1.0))
        for s in scope.catalog.operators[o].inputs:
            users[h, s].append((column, -1.0))
    for s in inside:
        everywhere: Terms = []
        for h in model.hosts:
            if s == goal:
                everywhere += makers[h, s]
            elif s not in scope.origins[h] and (users[h, s] or makers[h, s]):
                everywhere += _balance(model, h, s, makers[h, s], users[h, s])
        given = any(s in origins for origins in scope.origins)
        if s == goal:
            programme.equal(everywhere, 1.0)
        elif not given:
            programme.equal(everywhere, 0.0)


def _balance(model: Reduced, host: int, stream: int, made: Terms, used: Terms) -> Terms:
    """At one host: made + net received = used. Returns the net receipt, which sums to zero over hosts."""
    if (host, stream) not in model.gets and not made:
        model.programme.equal(used, 0.0)
        return []
    most = 1.0 if (host, stream) in model.gets else 0.0
    net = model.programme.column(lower=-1.0 if made else 0.0, upper=most, integer=False)
    if most:
        model.programme.row([(model.gets[host, stream], 1.0), (net, -1.0)], lower=0.0)
    model.programme.equal([*made, (net, 1.0), *used], 0.0)
    return [(net, 1.0)]


def _below(scope: PlanningScope, goal: int) -> set[int]:
    """The goal and every stream it may be computed from."""
    found, stack = {goal}, [goal]
    while stack:
        for o in scope.catalog.makers[stack.pop()]:
            if o in scope.query.operators:
                fresh = set(scope.catalog.operators[o].inputs) - found
                found |= fresh
                stack += fresh
    return found


def add_busiest_host(model: Reduced, top: float) -> None:
    """O4 above the lowest load any plan can have; left out where it cannot rise."""
    scope, low = model.scope, lowest_peak(model.scope)
    if not scope.weights.balance or top <= float(scope.load.max()) + 2 * SLACK:
        return
    above = model.programme.column(scope.weights.balance * model.scale, upper=max(top - low, 0.0), integer=False)
    for h in model.hosts:
        terms = [(c, scope.catalog.operators[o].cpu) for (g, o), c in model.runs.items() if g == h]
        if terms:
            model.programme.at_most([*terms, (above, -1.0)], low - float(scope.load[h]))


def lowest_peak(scope: PlanningScope) -> float:
    """A lower bound of O4: each required stream needs some chain of operators, each on the host with least load.

    bottleneck(s) = 0 where s is given, else the least over its operators o of max(gamma_o + least load, their inputs').
    """
    least = float(scope.load.min())
    bottleneck: dict[int, float] = {}
    for s in scope.query.streams:
        makers = [scope.catalog.operators[o] for o in scope.catalog.makers[s] if o in scope.query.operators]
        if any(s in origins for origins in scope.origins):
            bottleneck[s] = 0.0
        else:
            peaks = [max(o.cpu + least, *(bottleneck[i] for i in o.inputs)) for o in makers]
            bottleneck[s] = min(peaks, default=float("inf"))
    return max(float(scope.load.max()), *(bottleneck[s] for s in _required(scope)), 0.0)
