"""The numeric core: what a plan costs, and what all its neighbours cost. numba, no GIL, compiled once and cached.

`evaluate` is the definition: the costs that searches report and compare come from it, to the last bit. `row` is the
shortcut: for one operator on every action in turn, bounds on the four aggregates in a few nanoseconds each, from
the longest paths into and out of the operator. Searches scan with `row` and confirm with `evaluate` what survives.

Kernels that are called in a hot loop take plain arrays: passing the `Arrays` tuple on costs more than their work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Plan = NDArray[np.int64]
Index = NDArray[np.int64]

#: a plan that breaks a hard constraint costs this much, and more the farther it is off
BROKEN = 1e12
#: what two ways of adding the same latencies may differ by, in ms (far above rounding, far below a microsecond)
EPS = 1e-9


def kernel(function: F) -> F:
    """Compile on first use, keep the machine code on disk, let other threads run meanwhile."""
    return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


class Arrays(NamedTuple):
    """A problem as flat arrays; built by `arrays.build`."""

    topo: Index  # operators, producers first
    pred_at: Index  # pred[pred_at[o]:pred_at[o + 1]] are the producers of o
    pred: Index
    pred_weight: Vector  # weight of the edge from that producer
    succ_at: Index
    succ: Index
    desc_at: Index  # the operators downstream of o, producers first, without o
    desc: Index
    is_sink: NDArray[np.bool_]
    edge: Index  # E x 2
    mbps: Vector
    site: Index  # of each action
    latency: Matrix  # operators x actions
    throughput: Matrix
    migration: Matrix
    distance: Matrix  # sites x sites, symmetric
    tree: Index  # (site, parent) with parents first, where the network is a tree; 1 x 2 where it is not
    tree_up: Vector  # latency from that site to its parent
    # The third aggregate: sum of weight[e] * spread[site, site] over the edges + own[o, a] over the operators.
    # Weighted mode: Mb/s, hops, 0. Latency mode: 1, ms, ms, the delay summed over all edges and operators; it does not
    # enter the cost, but shows HEURISTIC which of two plans with the same longest path is closer to a shorter one.
    weight: Vector
    spread: Matrix
    own: Matrix
    objective: Vector  # latency mode?, 4 weights, 4 bounds, 4 spans, 'whole plans must be checked'?
    cpu: Vector
    cpu_free: Vector
    apart: Index
    region: Index  # of each edge: the region its route must stay in, or -1
    inside: NDArray[np.bool_]  # regions x sites
    before: NDArray[np.int32]  # routes; 1 x 1 where nothing asks for them
    link: NDArray[np.int32]
    link_free: Vector
    latency_limit: float


@kernel
def scalar(objective: Vector, slowest: float, latency: float, traffic: float, migration: float) -> float:
    """One number out of (-throughput, latency, traffic, migration)."""
    if not latency < np.inf:
        return np.inf
    if objective[0] == 1.0:
        return float(np.floor(1000.0 * latency) + np.floor(1000.0 * migration))
    return float(
        objective[1] * (slowest - objective[5]) / objective[9]
        + objective[2] * (latency - objective[6]) / objective[10]
        + objective[3] * (traffic - objective[7]) / objective[11]
        + objective[4] * (migration - objective[8]) / objective[12]
    )


@kernel
def route_excess(ar: Arrays, plan: Plan, e: int, load: Vector) -> float:
    """Walk the route of an edge: leave its traffic in `load`, count the sites outside its region."""
    source = ar.site[plan[ar.edge[e, 0]]]
    at = ar.site[plan[ar.edge[e, 1]]]
    outside = 0.0
    region = ar.region[e]
    if region >= 0 and not ar.inside[region, at]:
        outside += 1.0
    while at != source:
        step = ar.before[source, at]
        if load.shape[0] > 1:
            load[ar.link[step, at]] += ar.mbps[e]
        at = np.int64(step)
        if region >= 0 and not ar.inside[region, at]:
            outside += 1.0
    return outside


@kernel
def cpu_excess(ar: Arrays, plan: Plan) -> float:
    """How far sites are over their CPU, each as a share of what is asked of it."""
    total, n = 0.0, plan.shape[0]
    for o in range(n):
        s = ar.site[plan[o]]
        used, first = 0.0, True
        for other in range(n):
            if ar.site[plan[other]] == s:
                first = first and other >= o
                used += ar.cpu[other]
        if first and used > ar.cpu_free[s] + EPS:
            total += (used - ar.cpu_free[s]) / used
    return total


@kernel
def violation(ar: Arrays, plan: Plan, latency: float) -> float:
    """0 for a plan that keeps all hard constraints, otherwise how far it is off (to lead a search back)."""
    total = 0.0
    for k in range(ar.apart.shape[0]):
        if ar.site[plan[ar.apart[k, 0]]] == ar.site[plan[ar.apart[k, 1]]]:
            total += 1.0
    if ar.cpu_free.shape[0] > 1:
        total += cpu_excess(ar, plan)
    if ar.before.shape[0] > 1:
        load = np.zeros(ar.link_free.shape[0])
        for e in range(ar.edge.shape[0]):
            total += route_excess(ar, plan, e, load)
        if load.shape[0] > 1:
            for k in range(load.shape[0]):
                if load[k] > ar.link_free[k] + EPS:
                    total += (load[k] - ar.link_free[k]) / load[k]
    if latency > ar.latency_limit + EPS:
        total += (latency - ar.latency_limit) / latency
    return total


@kernel
def ready(
    pred_at: Index, pred: Index, site: Index, latency: Matrix, distance: Matrix, plan: Plan, o: int, lat: Vector
) -> float:
    """When o's result is ready, given its producers' times."""
    a = plan[o]
    s = site[a]
    latest = 0.0
    for j in range(pred_at[o], pred_at[o + 1]):
        u = pred[j]
        latest = max(latest, lat[u] + distance[site[plan[u]], s])
    return float(latency[o, a] + latest)


@kernel
def evaluate(ar: Arrays, plan: Plan, vector: Vector) -> float:
    """Fill `vector` with the four aggregates (throughput negated); return the cost."""
    n = plan.shape[0]
    lat = np.empty(n)
    total, slowest, farthest, traffic = 0.0, np.inf, 0.0, 0.0
    for k in range(n):
        o = ar.topo[k]
        lat[o] = ready(ar.pred_at, ar.pred, ar.site, ar.latency, ar.distance, plan, o, lat)
        if ar.is_sink[o]:
            total = max(total, lat[o])
        farthest = max(farthest, ar.migration[o, plan[o]])
        slowest = min(slowest, ar.throughput[o, plan[o]])
    for o in range(n):
        traffic += ar.own[o, plan[o]]
    for e in range(ar.edge.shape[0]):
        traffic += ar.weight[e] * ar.spread[ar.site[plan[ar.edge[e, 0]]], ar.site[plan[ar.edge[e, 1]]]]
    vector[0], vector[1], vector[2], vector[3] = -slowest, total, traffic, farthest
    cost = scalar(ar.objective, -slowest, total, traffic, farthest)
    if ar.objective[13] == 1.0 and cost < np.inf:
        off = violation(ar, plan, total)
        if off > 0.0:
            return BROKEN * (1.0 + off)
    return cost


@kernel
def evaluate_many(ar: Arrays, plans: Index, vectors: Matrix, costs: Vector) -> None:
    """`evaluate` for each row."""
    for i in range(plans.shape[0]):
        costs[i] = evaluate(ar, plans[i], vectors[i])


@kernel
def row_latency(
    topo: Index,
    pred_at: Index,
    pred: Index,
    succ_at: Index,
    succ: Index,
    desc_at: Index,
    desc: Index,
    is_sink: NDArray[np.bool_],
    site: Index,
    latency: Matrix,
    distance: Matrix,
    plan: Plan,
    v: int,
    lat: Vector,
    tail: Vector,
    out: Vector,
) -> None:
    """out[a]: latency of the plan with v on action a, up to rounding: two passes, then O(degree) an action."""
    n = plan.shape[0]
    around = 0.0  # the longest path that does not touch v
    for k in range(n):
        o = topo[k]
        if o != v:
            a = plan[o]
            s, latest = site[a], 0.0
            for j in range(pred_at[o], pred_at[o + 1]):
                u = pred[j]
                if u != v:
                    latest = max(latest, lat[u] + distance[site[plan[u]], s])
            lat[o] = latency[o, a] + latest
            if is_sink[o]:
                around = max(around, lat[o])
    for k in range(desc_at[v + 1] - 1, desc_at[v] - 1, -1):
        o = desc[k]
        s, after = site[plan[o]], 0.0
        for j in range(succ_at[o], succ_at[o + 1]):
            w = succ[j]
            after = max(after, tail[w] + distance[site[plan[w]], s])
        tail[o] = latency[o, plan[o]] + after
    out[:] = 0.0
    for j in range(pred_at[v], pred_at[v + 1]):
        u = pred[j]
        s, start = site[plan[u]], lat[u]
        for a in range(out.shape[0]):
            out[a] = max(out[a], start + distance[s, site[a]])
    if succ_at[v] == succ_at[v + 1]:
        for a in range(out.shape[0]):
            out[a] = max(around, out[a] + latency[v, a])
        return
    for a in range(out.shape[0]):
        out[a] += latency[v, a]
    for a in range(out.shape[0]):
        after = 0.0
        for j in range(succ_at[v], succ_at[v + 1]):
            w = succ[j]
            after = max(after, tail[w] + distance[site[plan[w]], site[a]])
        out[a] = max(around, out[a] + after)


@kernel
def row_rest(
    edge: Index,
    site: Index,
    weight: Vector,
    spread: Matrix,
    own: Matrix,
    throughput: Matrix,
    migration: Matrix,
    plan: Plan,
    v: int,
    rest: Vector,
    traffic: Vector,
) -> None:
    """rest[0], rest[3]: throughput and migration of all but v; traffic[a]: with v on action a."""
    rest[0], rest[3] = np.inf, 0.0
    fixed = 0.0
    for o in range(plan.shape[0]):
        if o != v:
            rest[0] = min(rest[0], throughput[o, plan[o]])
            rest[3] = max(rest[3], migration[o, plan[o]])
            fixed += own[o, plan[o]]
    for e in range(edge.shape[0]):
        if edge[e, 0] != v and edge[e, 1] != v:
            fixed += weight[e] * spread[site[plan[edge[e, 0]]], site[plan[edge[e, 1]]]]
    for a in range(traffic.shape[0]):
        traffic[a] = fixed + own[v, a]
    for e in range(edge.shape[0]):
        if edge[e, 0] == v or edge[e, 1] == v:
            other = edge[e, 0] + edge[e, 1] - v
            s, heavy = site[plan[other]], weight[e]
            for a in range(traffic.shape[0]):
                traffic[a] += heavy * spread[s, site[a]]
