"""A good plan to start the exact model from: the dynamic programme under falling caps on the busiest host."""

from __future__ import annotations

import numpy as np

from godwit.admission.model import SLACK
from godwit.admission.objective import objectives
from godwit.admission.proposal import QueryArrays, propose
from godwit.admission.scope import PlanningScope, load_snapshot
from godwit.admission.state import AllocationLedger

_HALVINGS = 12
#: how often a plan is made again under one cap, and how much dearer CPU becomes where it was short
_ROUNDS, _DEARER = 8, 0.5


def incumbent(scope: PlanningScope) -> AllocationLedger | None:
    """The best of two tries: the query beside what runs, and everything in S(q) planned afresh."""
    best: AllocationLedger | None = None
    start = load_snapshot(scope.network, scope.catalog, scope.state)
    for afresh in (False, True):
        found = _lowest_cap(scope, start, afresh)
        if found is not None and (best is None or cost(scope, found) < cost(scope, best)):
            best = found
    return best


def cost(scope: PlanningScope, ledger: AllocationLedger) -> float:
    """What the exact model minimises: everything but O1, migrations included."""
    measured = objectives(scope.network, scope.catalog, ledger.snapshot())
    weights = scope.weights
    spent = weights.network * measured.network + weights.cpu * measured.cpu + weights.balance * measured.busiest
    before = {o for _, o in scope.running}
    moved = sum((h, o) not in scope.running and o in before for h, o in ledger.snapshot().placed)
    return spent + weights.migrate * moved


def _lowest_cap(scope: PlanningScope, start: AllocationLedger, afresh: bool) -> AllocationLedger | None:
    """Lower the cap on all hosts' CPU as long as a plan is found under it; the plan under the lowest cap."""
    high = _under(scope, start, float(scope.network.cpu.max(initial=0.0)), afresh)
    if high is None:
        return None
    low = float(scope.load.max()) if afresh else float((scope.network.cpu - start.cpu_free).max())
    best = high = high + SLACK
    for _ in range(_HALVINGS if scope.weights.balance else 0):
        if high - low < 1e-4:
            break
        cap = (low + high) / 2
        peak = _under(scope, start, cap, afresh)
        if peak is None:
            low = cap
        else:
            best = high = min(cap, peak + SLACK)
    mark = start.mark()
    _under(scope, start, best, afresh, keep=True)
    found = load_snapshot(scope.network, scope.catalog, start.snapshot())
    start.rollback(mark)
    return found


def _under(
    scope: PlanningScope, ledger: AllocationLedger, cap: float, afresh: bool, keep: bool = False
) -> float | None:
    """Plan with no host above the cap and return the highest load; the ledger is left as it was unless `keep` is set.

    Operators that each fit a host may not fit it together. Then CPU there becomes dearer, and the plan is made again.
    """
    withheld = np.maximum(scope.network.cpu - cap, 0.0)
    size = len(scope.network)
    price = np.stack((np.full(size, scope.weights.cpu), np.full(size, scope.weights.network), np.zeros(size))) + 1e-12
    queries = [s for s in scope.wanted if s != scope.query.result] if afresh else []
    mark = ledger.mark()
    ledger.cpu_free -= withheld
    peak = None
    for _ in range(_ROUNDS):
        for stream in queries:
            ledger.withdraw(stream)
        if not all(_add(scope, ledger, stream, price) for stream in [*queries, scope.query.result]):
            break
        if ledger.fits():
            peak = float((scope.network.cpu - ledger.cpu_free - withheld).max())
            break
        crowded = [host for kind, host, _, _ in ledger.overdrawn() if kind == "cpu"]
        if not crowded:
            break
        price[0, crowded] += _DEARER * max(scope.weights.cpu, 1e-9)
        ledger.rollback(mark)
    ledger.cpu_free += withheld
    if not (keep and peak is not None):
        ledger.rollback(mark)
    return peak


def _add(scope: PlanningScope, ledger: AllocationLedger, stream: int, price: np.ndarray) -> bool:
    shape = QueryArrays.of(scope.catalog, scope.query)
    return propose(ledger, scope.query, shape, price, result=stream) < float("inf")
