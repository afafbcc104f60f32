"""Kernels that look at many plans: the best single move, all good single moves, and a range of signatures.

Each scans with the bounds of `kernels.row_latency` and `row_rest` and confirms with `kernels.evaluate`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels.cost import (
    EPS,
    Arrays,
    Index,
    Matrix,
    Plan,
    Vector,
    evaluate,
    kernel,
    row_latency,
    row_rest,
    scalar,
)


@kernel
def rows(ar: Arrays, plan: Plan, v: int, lat: Vector, tail: Vector, out: Vector, rest: Vector, traffic: Vector) -> None:
    """What every action of operator v would make of the plan: latency and traffic by action, the rest without v."""
    row_latency(
        ar.topo, ar.pred_at, ar.pred, ar.succ_at, ar.succ, ar.desc_at, ar.desc,
        ar.is_sink, ar.site, ar.latency, ar.distance, plan, v, lat, tail, out,
    )  # fmt: skip
    row_rest(ar.edge, ar.site, ar.weight, ar.spread, ar.own, ar.throughput, ar.migration, plan, v, rest, traffic)


@kernel
def best_move(ar: Arrays, plan: Plan, free: NDArray[np.bool_]) -> tuple[int, int]:
    """The cheapest (operator, action) among the free operators, ties to the first; (-1, -1) if nothing can run."""
    n, actions = ar.latency.shape
    lat, tail, rest, vector = np.empty(n), np.empty(n), np.empty(4), np.empty(4)
    out, traffic = np.empty(actions), np.empty(actions)
    best, operator, action = np.inf, -1, -1
    for v in range(n):
        if not free[v]:
            continue
        kept = plan[v]
        rows(ar, plan, v, lat, tail, out, rest, traffic)
        for a in range(actions):
            farthest = max(rest[3], ar.migration[v, a])
            slowest = -min(rest[0], ar.throughput[v, a])
            if scalar(ar.objective, slowest, out[a] - EPS, traffic[a] - EPS, farthest) < best:
                plan[v] = a
                cost = evaluate(ar, plan, vector)
                if cost < best:
                    best, operator, action = cost, v, a
        plan[v] = kept
    return operator, action


@kernel
def beats(rows: Matrix, i: int, slowest: float, latency: float, traffic: float, migration: float) -> bool:
    """Row i is at least as good in every dimension (equal rows beat each other: the first one stays)."""
    return bool(rows[i, 1] <= latency and rows[i, 3] <= migration and rows[i, 2] <= traffic and rows[i, 0] <= slowest)


@kernel
def beaten_by(rows: Matrix, count: int, slowest: float, latency: float, traffic: float, migration: float) -> int:
    """The first row that beats the vector, or -1."""
    for i in range(count):
        if beats(rows, i, slowest, latency, traffic, migration):
            return i
    return -1


@kernel
def good_moves(ar: Arrays, plan: Plan, known: Matrix, vectors: Matrix, moves: Index, costs: Vector) -> int:
    """All single moves of `plan` that nothing in `known` and no earlier move beats; returns how many."""
    n, actions = ar.latency.shape
    lat, tail, rest, vector = np.empty(n), np.empty(n), np.empty(4), np.empty(4)
    out, traffic = np.empty(actions), np.empty(actions)
    found, last = 0, 0
    for v in range(n):
        kept = plan[v]
        rows(ar, plan, v, lat, tail, out, rest, traffic)
        for a in range(actions):
            if a == kept or not out[a] < np.inf:
                continue
            farthest = max(rest[3], ar.migration[v, a])
            slowest = -min(rest[0], ar.throughput[v, a])
            # the plan that beat the last candidate is likely to beat this one
            if known.shape[0] > 0 and beats(known, last, slowest, out[a] - EPS, traffic[a] - EPS, farthest):
                continue
            by = beaten_by(known, known.shape[0], slowest, out[a] - EPS, traffic[a] - EPS, farthest)
            if by >= 0:
                last = by
                continue
            if (
                found == vectors.shape[0]
                or beaten_by(vectors, found, slowest, out[a] - EPS, traffic[a] - EPS, farthest) >= 0
            ):
                continue
            plan[v] = a
            cost = evaluate(ar, plan, vector)
            plan[v] = kept
            if cost < 1e12 and beaten_by(known, known.shape[0], vector[0], vector[1], vector[2], vector[3]) < 0:
                vectors[found] = vector
                moves[found, 0], moves[found, 1] = v, a
                costs[found] = cost
                found += 1
    return found


@kernel
def first_before(a: Plan, b: Plan) -> bool:
    """Lexicographic order of two signatures."""
    for i in range(a.shape[0]):
        if a[i] != b[i]:
            return bool(a[i] < b[i])
    return False


@kernel
def confirm(ar: Arrays, plan: Plan, best: Vector, best_plan: Plan, vector: Vector) -> None:
    """Evaluate; keep the plan if it is cheaper than best[0], or as cheap with the smaller signature."""
    cost = evaluate(ar, plan, vector)
    if cost < best[0] or (cost == best[0] and first_before(plan, best_plan)):
        best[0] = cost
        best_plan[:] = plan


@kernel
def enumerate_range(ar: Arrays, start: Plan, count: int, best: Vector, best_plan: Plan) -> None:
    """All plans of `count` consecutive signatures from `start`; the cheapest goes to best[0] and best_plan.

    The range is cut into cubes: the last k digits run through all actions. Inside a cube the order is free, so the
    loops nest along the DAG, sources outermost: a step recomputes only what lies after the operator that changed.
    """
    n, actions = ar.latency.shape
    plan, free = start.copy(), np.empty(n, dtype=np.int64)
    lat, rows = np.empty(n), np.empty((4, n + 1))
    vector = np.empty(4)
    left = count
    while left > 0:
        k, size = 0, 1
        while k < n and plan[n - 1 - k] == 0 and size * actions <= left:
            size *= actions
            k += 1
        if k > 0:
            enumerate_cube(ar, plan, n - k, 0, actions, free, lat, rows, vector, best, best_plan)
            at = n - 1 - k
        else:  # a piece of a row, at the ragged ends of a range
            lo = plan[n - 1]
            hi = min(actions, lo + left)
            size = hi - lo
            enumerate_cube(ar, plan, n - 1, lo, hi, free, lat, rows, vector, best, best_plan)
            plan[n - 1] = hi if hi < actions else 0
            at = n - 2 if hi == actions else -1
        left -= size
        while at >= 0:
            plan[at] += 1
            if plan[at] < actions:
                break
            plan[at] = 0
            at -= 1


@kernel
def enumerate_cube(
    ar: Arrays,
    plan: Plan,
    first: int,
    lo: int,
    hi: int,
    free: Index,
    lat: Vector,
    rows: Matrix,
    vector: Vector,
    best: Vector,
    best_plan: Plan,
) -> None:
    """Operators `first`.. run through the actions lo..hi-1, the others stay; leaves the plan's free digits at 0.

    Prefix sums along the DAG: ended, slowest, traffic, moved [q] are latency, throughput, traffic and migration of the
    first q operators in topological order. The step is written out twice: calling a function would cost more than it.
    """
    n = plan.shape[0]
    topo, pred_at, pred, pred_weight, is_sink = ar.topo, ar.pred_at, ar.pred, ar.pred_weight, ar.is_sink
    site, latency, distance, migration = ar.site, ar.latency, ar.distance, ar.migration
    throughput, spread, own, objective = ar.throughput, ar.spread, ar.own, ar.objective
    ended, slowest, traffic, moved = rows[0], rows[1], rows[2], rows[3]
    weighted, found = objective[0] == 0.0, 0
    for q in range(n):
        if topo[q] >= first:
            free[found] = q
            plan[topo[q]] = lo
            found += 1
    last = free[found - 1]
    inner, begin, p = topo[last], 0, 0
    ended[0], slowest[0], traffic[0], moved[0] = 0.0, np.inf, 0.0, 0.0
    while p >= 0:
        reached = last
        for q in range(begin, last):
            o = topo[q]
            a = plan[o]
            s, latest, flow = site[a], 0.0, traffic[q]
            for j in range(pred_at[o], pred_at[o + 1]):
                u = pred[j]
                here = site[plan[u]]
                latest = max(latest, lat[u] + distance[here, s])
                if weighted:
                    flow += pred_weight[j] * spread[here, s]
            lat[o] = latency[o, a] + latest
            ended[q + 1] = max(ended[q], lat[o]) if is_sink[o] else ended[q]
            moved[q + 1] = max(moved[q], migration[o, a])
            if weighted:
                slowest[q + 1] = min(slowest[q], throughput[o, a])
                traffic[q + 1] = flow + own[o, a]
            if not lat[o] < np.inf:
                reached = q  # cannot run there: nothing behind it needs a look
                break
        for a in range(lo, hi if reached == last else lo):
            plan[inner] = a
            for q in range(last, n):
                o = topo[q]
                x = plan[o]
                s, latest, flow = site[x], 0.0, traffic[q]
                for j in range(pred_at[o], pred_at[o + 1]):
                    u = pred[j]
                    here = site[plan[u]]
                    latest = max(latest, lat[u] + distance[here, s])
                    if weighted:
                        flow += pred_weight[j] * spread[here, s]
                lat[o] = latency[o, x] + latest
                ended[q + 1] = max(ended[q], lat[o]) if is_sink[o] else ended[q]
                moved[q + 1] = max(moved[q], migration[o, x])
                if weighted:
                    slowest[q + 1] = min(slowest[q], throughput[o, x])
                    traffic[q + 1] = flow + own[o, x]
            # latency mode: 1000 x - 1 < floor(1000 x), so what is out by this sum is out by the cost
            bound = 1000.0 * (ended[n] + moved[n]) - 2.1
            if weighted:
                bound = scalar(objective, -slowest[n], ended[n] - EPS, traffic[n] - EPS, moved[n])
            if bound <= best[0] and bound < np.inf:
                confirm(ar, plan, best, best_plan, vector)
        p = found - 2
        while p >= 0 and free[p] > reached:
            plan[topo[free[p]]] = lo
            p -= 1
        while p >= 0:
            o = topo[free[p]]
            plan[o] += 1
            if plan[o] < hi:
                begin = free[p]
                break
            plan[o] = lo
            p -= 1
    for q in range(found):
        plan[topo[free[q]]] = 0


@kernel
def enumerate_moves(
    ar: Arrays, root: Plan, moved: Index, digits: Index, count: int, best: Vector, best_plan: Plan
) -> None:
    """`count` plans that move exactly the operators `moved`; digits skip the root's action. Last operator fastest."""
    n, actions = ar.latency.shape
    lat, tail, rest, vector = np.empty(n), np.empty(n), np.empty(4), np.empty(4)
    out, traffic = np.empty(actions), np.empty(actions)
    plan, digit, h = root.copy(), digits.copy(), moved.shape[0]
    v = moved[h - 1]
    left = count
    while left > 0:
        for k in range(h - 1):
            o = moved[k]
            plan[o] = digit[k] + (1 if digit[k] >= root[o] else 0)
        rows(ar, plan, v, lat, tail, out, rest, traffic)
        lo = digit[h - 1]
        hi = min(actions - 1, lo + left)
        for d in range(lo, hi):
            a = d + (1 if d >= root[v] else 0)
            slowest = -min(rest[0], ar.throughput[v, a])
            farthest = max(rest[3], ar.migration[v, a])
            bound = scalar(ar.objective, slowest, out[a] - EPS, traffic[a] - EPS, farthest)
            if bound <= best[0] and bound < np.inf:
                plan[v] = a
                confirm(ar, plan, best, best_plan, vector)
        left -= hi - lo
        digit[h - 1] = 0
        at = h - 2
        while at >= 0:
            digit[at] += 1
            if digit[at] < actions - 1:
                break
            digit[at] = 0
            at -= 1
