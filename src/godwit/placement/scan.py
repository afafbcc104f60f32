"""Kernels that look at many plans: the best single move, all good single moves, and a range of signatures.

Each scans with the bounds of `kernels.row_latency` and `row_rest` and confirms with `kernels.evaluate`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels import (
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
        row_latency(
            ar.topo,
            ar.pred_at,
            ar.pred,
            ar.succ_at,
            ar.succ,
            ar.desc_at,
            ar.desc,
            ar.is_sink,
            ar.site,
            ar.latency,
            ar.distance,
            plan,
            v,
            lat,
            tail,
            out,
        )
        row_rest(ar.edge, ar.site, ar.weight, ar.spread, ar.own, ar.throughput, ar.migration, plan, v, rest, traffic)
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
        row_latency(
            ar.topo,
            ar.pred_at,
            ar.pred,
            ar.succ_at,
            ar.succ,
            ar.desc_at,
            ar.desc,
            ar.is_sink,
            ar.site,
            ar.latency,
            ar.distance,
            plan,
            v,
            lat,
            tail,
            out,
        )
        row_rest(ar.edge, ar.site, ar.weight, ar.spread, ar.own, ar.throughput, ar.migration, plan, v, rest, traffic)
        for a in range(actions):
            if a == kept or not out[a] < np.inf:
                continue
            farthest = max(rest[3], ar.migration[v, a])
            slowest = -min(rest[0], ar.throughput[v, a])
            # whoever beat the last candidate is likely to beat this one
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

    Inside a block in which only the last two digits change, the loop runs over the digit with less downstream of
    it: the order within a block is free, and a sink costs one addition where a source costs the whole DAG.
    """
    n, actions = ar.latency.shape
    topo, pred_at, pred, succ_at, succ, desc_at, desc = (
        ar.topo,
        ar.pred_at,
        ar.pred,
        ar.succ_at,
        ar.succ,
        ar.desc_at,
        ar.desc,
    )
    is_sink, site, latency, distance, migration = ar.is_sink, ar.site, ar.latency, ar.distance, ar.migration
    edge, weight, spread, own, throughput, objective = (
        ar.edge,
        ar.weight,
        ar.spread,
        ar.own,
        ar.throughput,
        ar.objective,
    )
    lat, tail, rest, vector = np.empty(n), np.empty(n), np.zeros(4), np.empty(4)
    out, traffic = np.empty(actions), np.zeros(actions)
    plan = start.copy()
    last, pair = n - 1, n > 1 and actions <= 64
    left = count
    while left > 0:
        block = pair and plan[last] == 0 and plan[n - 2] == 0 and left >= actions * actions
        v, outer, times, lo, hi = last, last, 1, plan[last], min(actions, plan[last] + left)
        if block:
            v, outer, times = last, n - 2, actions
            if desc_at[n - 1] - desc_at[n - 2] < desc_at[n] - desc_at[last]:
                v, outer = n - 2, last
        for turn in range(times):
            if block:
                plan[outer] = turn
            row_latency(
                topo,
                pred_at,
                pred,
                succ_at,
                succ,
                desc_at,
                desc,
                is_sink,
                site,
                latency,
                distance,
                plan,
                v,
                lat,
                tail,
                out,
            )
            if objective[0] == 1.0:
                rest[3] = 0.0
                for o in range(n):
                    if o != v:
                        rest[3] = max(rest[3], migration[o, plan[o]])
            else:
                row_rest(edge, site, weight, spread, own, throughput, migration, plan, v, rest, traffic)
            for a in range(lo, hi):
                slowest = -min(rest[0], throughput[v, a])
                farthest = max(rest[3], migration[v, a])
                bound = scalar(objective, slowest, out[a] - EPS, traffic[a] - EPS, farthest)
                if bound <= best[0] and bound < np.inf:
                    plan[v] = a
                    confirm(ar, plan, best, best_plan, vector)
        plan[last] = 0
        at, done = n - 2, hi - lo
        if block:
            plan[n - 2] = 0
            at, done = n - 3, actions * actions
        left -= done
        while at >= 0:
            plan[at] += 1
            if plan[at] < actions:
                break
            plan[at] = 0
            at -= 1


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
        row_latency(
            ar.topo,
            ar.pred_at,
            ar.pred,
            ar.succ_at,
            ar.succ,
            ar.desc_at,
            ar.desc,
            ar.is_sink,
            ar.site,
            ar.latency,
            ar.distance,
            plan,
            v,
            lat,
            tail,
            out,
        )
        row_rest(ar.edge, ar.site, ar.weight, ar.spread, ar.own, ar.throughput, ar.migration, plan, v, rest, traffic)
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
