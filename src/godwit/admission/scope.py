"""What the exact models may change for a new query, and what is fixed (section IV-A of the paper).

S(q) and O(q) are free, everything else keeps its place. Fixed operators outside O(q) still need their inputs, so a host
that runs one must go on holding them; fixed transfers and operators still take their share of every resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from godwit.admission.model import AdmissionQuery, Catalog, Floats, HostNetwork, ObjectiveWeights
from godwit.admission.state import AllocationLedger, LedgerSnapshot


@dataclass(frozen=True)
class PlanningScope:
    """One planning problem: a query, the free part, and what the fixed part leaves."""

    network: HostNetwork
    catalog: Catalog
    query: AdmissionQuery
    weights: ObjectiveWeights
    state: LedgerSnapshot
    #: requested streams within S(q), the new one included
    wanted: tuple[int, ...]
    #: host -> streams of S(q) that start there for good: homes, and outputs of fixed operators
    origins: tuple[frozenset[int], ...]
    #: host -> streams of S(q) that fixed operators need there
    needs: tuple[frozenset[int], ...]
    #: (host, operator of O(q)) that run now
    running: frozenset[tuple[int, int]]
    #: what the fixed part leaves of CPU, NIC in, NIC out
    cpu: Floats
    nic_in: Floats
    nic_out: Floats
    #: CPU the fixed part uses, for O4: hosts that a model leaves out count too
    load: Floats
    links: dict[tuple[int, int], float] | None

    def fixed(self) -> LedgerSnapshot:
        """The part of the state that stays."""
        streams, operators = set(self.query.streams), set(self.query.operators)
        return LedgerSnapshot(
            frozenset(pair for pair in self.state.served if pair[1] not in streams),
            frozenset(flow for flow in self.state.flows if flow[2] not in streams),
            frozenset(pair for pair in self.state.placed if pair[1] not in operators),
        )


def scope(
    network: HostNetwork,
    catalog: Catalog,
    state: LedgerSnapshot,
    admitted: Iterable[int],
    query: AdmissionQuery,
    weights: ObjectiveWeights,
) -> PlanningScope:
    """Split a state into what is free and what is fixed for the query."""
    streams, operators = set(query.streams), set(query.operators)
    cpu, into, out = network.cpu.copy(), network.nic_in.copy(), network.nic_out.copy()
    load = np.zeros(len(network))
    links = None if network.links is None else dict(network.links)
    origins: list[set[int]] = [set() for _ in network.hosts]
    needs: list[set[int]] = [set() for _ in network.hosts]
    for stream in streams:
        for home in catalog.streams[stream].homes:
            origins[home].add(stream)
    for host, operator in state.placed:
        if operator not in operators:
            what = catalog.operators[operator]
            cpu[host] -= what.cpu
            load[host] += what.cpu
            needs[host].update(stream for stream in what.inputs if stream in streams)
            origins[host].update({what.output} & streams)
    for source, target, stream in state.flows:
        if stream not in streams:
            rate = catalog.streams[stream].rate
            out[source] -= rate
            into[target] -= rate
            if links is not None:
                links[source, target] -= rate
    for host, stream in state.served:
        if stream not in streams:
            out[host] -= catalog.streams[stream].rate
    return PlanningScope(
        network, catalog, query, weights, state,
        tuple(dict.fromkeys([*sorted(set(admitted) & streams), query.result])),
        tuple(map(frozenset, origins)), tuple(map(frozenset, needs)),
        frozenset(pair for pair in state.placed if pair[1] in operators),
        cpu, into, out, load, links,
    )  # fmt: skip


def load_snapshot(network: HostNetwork, catalog: Catalog, state: LedgerSnapshot) -> AllocationLedger:
    """A ledger with the state, built causally: from the homes on, each stream once per host. Loops are left out,
    and so is whatever has lost its source."""
    ledger = AllocationLedger(network, catalog)
    operators, flows = sorted(state.placed), sorted(state.flows)
    progress = True
    while progress:
        late_operators, late_flows = [], []
        for host, operator in operators:
            if all(ledger.holds(s, host) for s in catalog.operators[operator].inputs):
                ledger.place(operator, host)
            else:
                late_operators.append((host, operator))
        for source, target, stream in flows:
            if not ledger.holds(stream, source):
                late_flows.append((source, target, stream))
            elif not ledger.holds(stream, target):
                ledger.receive(stream, target, source)
        progress = len(late_operators) + len(late_flows) < len(operators) + len(flows)
        operators, flows = late_operators, late_flows
    for host, stream in sorted(state.served):
        if ledger.holds(stream, host):
            ledger.serve(stream, host)
    tidy(ledger)
    return ledger


def tidy(ledger: AllocationLedger) -> None:
    """Drop everything that is unused."""
    for host, operators in enumerate(ledger.running):
        for operator in list(operators):
            if operator in operators:
                ledger.release(ledger.catalog.operators[operator].output, host)
    for stream in list(ledger.received):
        for host in list(ledger.received[stream]):
            if host in ledger.received[stream]:
                ledger.release(stream, host)
    ledger.forget()
