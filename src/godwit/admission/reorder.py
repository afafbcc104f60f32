"""Give running queries new join orders: stop what they do not need, keep the rest where it is, fill the gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from godwit.admission.dp import Floats
from godwit.admission.model import AdmissionQuery
from godwit.admission.moves import bring
from godwit.admission.proposal import PENALTY, QueryArrays, propose
from godwit.admission.repair import repair
from godwit.admission.state import AllocationLedger

Placement = tuple[int, int]


def plan_of(ledger: AllocationLedger, stream: int) -> set[Placement]:
    """The (operator, host) pairs that make a served stream, through all transfers."""
    found: set[Placement] = set()
    stack = [(stream, ledger.served[stream])]
    while stack:
        s, host = stack.pop()
        if host in ledger.made[s]:
            for operator in ledger.catalog.makers[s]:
                if host in ledger.placed[operator] and (operator, host) not in found:
                    found.add((operator, host))
                    stack.extend((i, host) for i in ledger.catalog.operators[operator].inputs)
        elif host in ledger.received[s]:
            stack.append((s, ledger.received[s][host]))
    return found


def affected(ledger: AllocationLedger, queries: Mapping[int, AdmissionQuery], chosen: Set[int]) -> list[int]:
    """The served streams whose plan runs an operator that is not among the chosen ones."""
    stopped = {o for o, hosts in ledger.placed.items() if hosts and o not in chosen}
    if not stopped:
        return []
    return [s for s in ledger.served if s in queries and any(o in stopped for o, _ in plan_of(ledger, s))]


def clusters(ledger: AllocationLedger, queries: Mapping[int, AdmissionQuery], chosen: Set[int]) -> list[list[int]]:
    """The affected streams in groups that can change their join orders independently of each other.

    Two streams belong together if they share an operator that would start or stop.
    """
    group: dict[int, int] = {}
    parent: dict[int, int] = {}

    def root(stream: int) -> int:
        while parent[stream] != stream:
            stream = parent[stream]
        return stream

    for stream in affected(ledger, queries, chosen):
        parent[stream] = stream
        stops = {o for o, _ in plan_of(ledger, stream) if o not in chosen}
        starts = {o for o in queries[stream].operators if o in chosen and not ledger.placed[o]}
        for operator in stops | starts:
            parent[root(group.setdefault(operator, stream))] = root(stream)
    members: dict[int, list[int]] = {}
    for stream in parent:
        members.setdefault(root(stream), []).append(stream)
    return sorted(members.values(), key=len)


def reorder(
    ledger: AllocationLedger,
    queries: Mapping[int, AdmissionQuery],
    touched: Sequence[int],
    chosen: Set[int],
    price: Floats,
    extra: Iterable[AdmissionQuery] = (),
) -> bool:
    """Give the touched streams plans of chosen operators, and add the extra queries; on failure nothing changes."""
    mark = ledger.mark()
    before = {(o, h) for stream in touched for o, h in plan_of(ledger, stream)}
    for stream in touched:
        ledger.withdraw(stream)
    kept = _restore(ledger, {(o, h) for o, h in before if o in chosen and h not in ledger.placed[o]})
    again = sorted((queries[stream] for stream in touched), key=lambda query: (len(query.streams), query.result))
    for query in [*again, *extra]:
        if query.result not in ledger.served and not add(
            ledger, query, QueryArrays.of(ledger.catalog, query, set(chosen)), price
        ):
            ledger.rollback(mark)
            return False
    for operator, host in kept:
        ledger.release(ledger.catalog.operators[operator].output, host)
    if not ledger.fits():
        ledger.rollback(mark)
        return False
    return True


def add(ledger: AllocationLedger, query: AdmissionQuery, shape: QueryArrays, price: Floats) -> bool:
    """Plan one query with its resources as they are, or with repairs; on failure the ledger is as before."""
    mark = ledger.mark()
    if propose(ledger, query, shape, price) < float("inf") and (ledger.fits() or repair(ledger)):
        return True
    ledger.rollback(mark)
    if propose(ledger, query, shape, price, PENALTY) < float("inf") and repair(ledger):
        return True
    ledger.rollback(mark)
    return False


def _restore(ledger: AllocationLedger, pairs: set[Placement]) -> list[Placement]:
    """Run operators again where they ran, inputs first, so that a new order moves nothing it need not move."""
    kept: list[Placement] = []
    waiting, progress = sorted(pairs), True
    while waiting and progress:
        later: list[Placement] = []
        for operator, host in waiting:
            inputs = ledger.catalog.operators[operator].inputs
            if all(ledger.holders(stream) for stream in inputs) and all(bring(ledger, s, host) for s in inputs):
                ledger.place(operator, host)
                kept.append((operator, host))
            else:
                later.append((operator, host))
        progress = len(later) < len(waiting)
        waiting = later
    return kept
