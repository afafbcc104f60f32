"""The cheapest way to have every stream of a query at every host: dynamic programming over stream x host.

    at(s, h) = 0                                           where h holds s already
             | min over operators o of s:  sum of at(i, h) for the inputs i of o  +  price of o's CPU at h
             | min over hosts g:           at(s, g) + price of sending s from g to h          (relays, hop by hop)

Streams come inputs first, so one pass suffices. What does not fit is infinitely dear, or, with a finite `penalty`, dear
by how much it overdraws: such a plan is a proposal for the repair moves. Under these prices the result is optimal for
one query, because the parts of a join tree share no stream.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

HELD, SENT, UNREACHABLE = -1, -2, -3

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@njit(cache=True)
def cheapest(
    held: Bools,
    rate: Floats,
    first: Ints,
    left: Ints,
    right: Ints,
    cpu: Floats,
    free: Floats,
    price: Floats,
    links: Ints,
    link_free: Floats,
    penalty: float,
) -> tuple[Floats, Ints, Ints]:
    """Costs, ways (HELD, SENT, UNREACHABLE or an operator) and senders, each stream x host.

    `first[s]:first[s + 1]` are the operators of stream s, `left` and `right` their inputs (right -1: one input).
    Rows of `free` and `price` are CPU, NIC in, NIC out. `links` is empty where every pair of hosts is joined.
    """
    streams, hosts = held.shape
    cost = np.full((streams, hosts), np.inf)
    way = np.full((streams, hosts), UNREACHABLE)
    sender = np.full((streams, hosts), -1)
    for s in range(streams):
        for h in range(hosts):
            if held[s, h]:
                cost[s, h] = 0.0
                way[s, h] = HELD
                continue
            for o in range(first[s], first[s + 1]):
                total = cost[left[o], h] + cpu[o] * price[0, h] + _over(cpu[o], free[0, h], penalty)
                if right[o] >= 0:
                    total += cost[right[o], h]
                if total < cost[s, h]:
                    cost[s, h] = total
                    way[s, h] = o
        if links.shape[0] == 0:
            _send_anywhere(s, rate[s], cost, way, sender, free, price, penalty)
        else:
            _send_by_links(s, rate[s], cost, way, sender, free, price, links, link_free, penalty)
    return cost, way, sender


@njit(cache=True, inline="always")
def _over(need: float, free: float, penalty: float) -> float:
    if need <= free + 1e-6:
        return 0.0
    return penalty * (need - max(free, 0.0))


@njit(cache=True)
def _send_anywhere(s, rate, cost, way, sender, free, price, penalty):  # type: ignore[no-untyped-def]
    hosts = cost.shape[1]
    best, source = np.inf, -1
    for g in range(hosts):
        total = cost[s, g] + rate * price[2, g] + _over(rate, free[2, g], penalty)
        if total < best:
            best, source = total, g
    if source < 0:
        return
    for h in range(hosts):
        total = best + rate * price[1, h] + _over(rate, free[1, h], penalty)
        if total < cost[s, h]:
            cost[s, h], way[s, h], sender[s, h] = total, SENT, source


@njit(cache=True)
def _send_by_links(s, rate, cost, way, sender, free, price, links, link_free, penalty):  # type: ignore[no-untyped-def]
    changed = True
    rounds = 0
    while changed and rounds < cost.shape[1]:
        changed = False
        rounds += 1
        for e in range(links.shape[0]):
            g, h = links[e, 0], links[e, 1]
            total = cost[s, g] + rate * (price[2, g] + price[1, h]) + _over(rate, link_free[e], penalty)
            total += _over(rate, free[2, g], penalty) + _over(rate, free[1, h], penalty)
            if total < cost[s, h] - 1e-12:
                cost[s, h], way[s, h], sender[s, h] = total, SENT, g
                changed = True
