"""The paper's heuristic planner (section V-A): every abstract plan on every single host, reuse first.

For each join tree of the query and each host it asks what the host would have to receive and to run. A sub-query that
exists somewhere and can be sent is always received rather than computed. The feasible candidate with the best weighted
objective wins. Earlier decisions are never revisited, and the new operators never spread over hosts. "From other hosts
that have s" can be read in two ways: any holder may send, relays included (the kind reading, the default), or only
hosts where the stream starts (relays being what SQPR adds).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from godwit.admission.model import SLACK, AdmissionQuery, Catalog, ObjectiveWeights
from godwit.admission.state import AllocationLedger

#: a join tree: the operator that makes each stream of it
Tree = dict[int, int]


@dataclass(frozen=True)
class Candidate:
    """One tree on one host."""

    host: int
    receive: tuple[tuple[int, int], ...]
    run: tuple[int, ...]
    score: float


def plan(ledger: AllocationLedger, query: AdmissionQuery, weights: ObjectiveWeights, *, relays: bool = True) -> bool:
    """Admit the query where the heuristic finds a place; nothing is written otherwise."""
    if query.result in ledger.served:
        return True
    best: Candidate | None = None
    busiest = float((ledger.network.cpu - ledger.cpu_free).max())
    senders: dict[int, list[int]] = {s: _senders(ledger, s, relays) for s in query.streams}
    for tree in trees(ledger.catalog, query):
        for host in range(len(ledger.network)):
            candidate = _implement(ledger, query, tree, host, senders, weights, busiest)
            if candidate and (best is None or candidate.score > best.score + 1e-12):
                best = candidate
    if best is None:
        return False
    for stream, sender in best.receive:
        ledger.receive(stream, best.host, sender)
    for operator in best.run:
        ledger.place(operator, best.host)
    ledger.serve(query.result, best.host)
    return True


def trees(catalog: Catalog, query: AdmissionQuery) -> list[Tree]:
    """All abstract plans of a query."""
    allowed = frozenset(query.operators)

    @cache
    def of(stream: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        makers = [o for o in catalog.makers[stream] if o in allowed]
        if not makers:
            return ((),)
        found = []
        for maker in makers:
            parts: list[tuple[tuple[int, int], ...]] = [((stream, maker),)]
            for needed in catalog.operators[maker].inputs:
                parts = [(*part, *below) for part in parts for below in of(needed)]
            found += parts
        return tuple(found)

    return [dict(tree) for tree in of(query.result)]


def _senders(ledger: AllocationLedger, stream: int, relays: bool) -> list[int]:
    """Holders that can send one more copy, those with most room first."""
    rate = ledger.catalog.streams[stream].rate - SLACK
    able = [host for host in ledger.holders(stream) if ledger.out_free[host] >= rate]
    if not relays:
        able = [host for host in able if ledger.origin(stream, host)]
    return sorted(able, key=lambda host: (-ledger.out_free[host], host))


def _implement(
    ledger: AllocationLedger,
    query: AdmissionQuery,
    tree: Tree,
    host: int,
    senders: dict[int, list[int]],
    weights: ObjectiveWeights,
    busiest: float,
) -> Candidate | None:
    """What the host must receive and run for this tree, top down; None where it does not fit."""
    catalog = ledger.catalog
    receive: list[tuple[int, int]] = []
    run: list[int] = []
    spent: dict[int, float] = {host: catalog.streams[query.result].rate}
    into = cpu = 0.0
    stack = [query.result]
    while stack:
        stream = stack.pop()
        if ledger.holds(stream, host):
            continue
        sender = _pick(ledger, stream, host, senders[stream], spent)
        if sender >= 0:
            receive.append((stream, sender))
            into += catalog.streams[stream].rate
            spent[sender] = spent.get(sender, 0.0) + catalog.streams[stream].rate
        elif stream in tree:
            run.append(tree[stream])
            cpu += catalog.operators[tree[stream]].cpu
            stack.extend(catalog.operators[tree[stream]].inputs)
        else:
            return None
    if cpu > ledger.cpu_free[host] + SLACK or into > ledger.in_free[host] + SLACK:
        return None
    if any(amount > ledger.out_free[sender] + SLACK for sender, amount in spent.items()):
        return None
    load = float(ledger.network.cpu[host] - ledger.cpu_free[host]) + cpu
    score = -weights.network * into - weights.cpu * cpu - weights.balance * max(busiest, load)
    return Candidate(host, tuple(receive), tuple(reversed(run)), score)


def _pick(ledger: AllocationLedger, stream: int, host: int, senders: list[int], spent: dict[int, float]) -> int:
    """The first sender with room for one more copy beside what this candidate already takes from it."""
    rate = ledger.catalog.streams[stream].rate - SLACK
    for sender in senders:
        room = ledger.out_free[sender] - spent.get(sender, 0.0) >= rate
        if room and (ledger.link_free is None or ledger.link_free.get((sender, host), 0.0) >= rate):
            return sender
    return -1
