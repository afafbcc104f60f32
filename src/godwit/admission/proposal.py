"""From prices to a proposal: run the dynamic programme for one query and write its plan into the ledger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from godwit.admission import dp
from godwit.admission.model import AdmissionQuery, Catalog
from godwit.admission.state import AllocationLedger

#: what a unit of overdraft costs in a soft proposal, relative to prices near 1 / capacity
PENALTY = 1e3


@dataclass(frozen=True)
class QueryArrays:
    """S(q) and O(q) of one query as arrays, computed once per query."""

    streams: tuple[int, ...]
    operators: tuple[int, ...]
    rate: dp.Floats
    first: dp.Ints
    left: dp.Ints
    right: dp.Ints
    cpu: dp.Floats

    @staticmethod
    def of(catalog: Catalog, query: AdmissionQuery, allowed: set[int] | None = None) -> QueryArrays:
        """The arrays of a query; `allowed` restricts its operators (a join order that was chosen elsewhere)."""
        local = {stream: number for number, stream in enumerate(query.streams)}
        makers: list[list[int]] = [[] for _ in query.streams]
        for operator in query.operators:
            if allowed is None or operator in allowed:
                makers[local[catalog.operators[operator].output]].append(operator)
        operators = tuple(operator for some in makers for operator in some)
        inputs = [catalog.operators[operator].inputs for operator in operators]
        return QueryArrays(
            query.streams,
            operators,
            np.array([catalog.streams[stream].rate for stream in query.streams]),
            np.concatenate([[0], np.cumsum([len(some) for some in makers])]).astype(np.int64),
            np.array([local[pair[0]] for pair in inputs], dtype=np.int64),
            np.array([local[pair[1]] if len(pair) > 1 else -1 for pair in inputs], dtype=np.int64),
            np.array([catalog.operators[operator].cpu for operator in operators], dtype=float),
        )


def propose(
    ledger: AllocationLedger,
    query: AdmissionQuery,
    shape: QueryArrays,
    price: dp.Floats,
    penalty: float = np.inf,
    result: int | None = None,
) -> float:
    """Write the cheapest plan into the ledger and return its price; infinite, and nothing written, if there is none.

    With a finite penalty the plan may overdraw resources. So may a plan whose operators meet on one host. `result` may
    name another stream of the query to be served.
    """
    goal = query.result if result is None else result
    free = np.stack((ledger.cpu_free, ledger.in_free, ledger.out_free))
    links, link_free = _links(ledger)
    cost, way, sender = dp.cheapest(
        _held(ledger, shape), shape.rate, shape.first, shape.left, shape.right, shape.cpu,
        free, price, links, link_free, penalty,
    )  # fmt: skip
    wanted = shape.streams.index(goal)
    total = cost[wanted] + shape.rate[wanted] * price[2]
    short = np.maximum(shape.rate[wanted] - np.maximum(free[2], 0) - 1e-6, 0)
    total = total + np.where(short > 0, short * penalty if np.isfinite(penalty) else np.inf, 0.0)
    host = int(np.argmin(total))
    if not np.isfinite(total[host]):
        return float("inf")
    _write(ledger, shape, way, sender, wanted, host)
    ledger.serve(goal, host)
    return float(total[host])


def _write(ledger: AllocationLedger, shape: QueryArrays, way: dp.Ints, sender: dp.Ints, stream: int, host: int) -> None:
    """Make the stream available at the host the way the dynamic programme chose."""
    if ledger.holds(shape.streams[stream], host):
        return
    choice = int(way[stream, host])
    if choice == dp.SENT:
        source = int(sender[stream, host])
        _write(ledger, shape, way, sender, stream, source)
        ledger.receive(shape.streams[stream], host, source)
    elif choice >= 0:
        _write(ledger, shape, way, sender, int(shape.left[choice]), host)
        if shape.right[choice] >= 0:
            _write(ledger, shape, way, sender, int(shape.right[choice]), host)
        ledger.place(shape.operators[choice], host)


def _held(ledger: AllocationLedger, shape: QueryArrays) -> dp.Bools:
    held = np.zeros((len(shape.streams), len(ledger.network)), dtype=np.bool_)
    for number, stream in enumerate(shape.streams):
        for host in ledger.holders(stream):
            held[number, host] = True
    return held


def _links(ledger: AllocationLedger) -> tuple[dp.Ints, dp.Floats]:
    if ledger.link_free is None:
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    return np.array(list(ledger.link_free), dtype=np.int64).reshape(-1, 2), np.array(list(ledger.link_free.values()))
