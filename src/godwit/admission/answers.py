"""What admission answers: plans by name, refusals with their remedy, and what a change moved. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from godwit.admission.model import Catalog, HostNetwork
from godwit.admission.refusal import Addition
from godwit.admission.state import AllocationLedger


@dataclass(frozen=True)
class Placement:
    """An operator on a host; the same inputs and output are the same operator, for whichever query it runs."""

    inputs: tuple[str, ...]
    output: str
    host: str
    kind: str
    cpu: float


@dataclass(frozen=True)
class Transfer:
    """A stream sent from host to host. A relay passes on what it received itself."""

    stream: str
    source: str
    target: str
    rate: float
    relay: bool


@dataclass(frozen=True)
class OperatorMoved:
    """A running operator that now runs elsewhere; no target: other operators do its work (a new join order)."""

    inputs: tuple[str, ...]
    output: str
    source: str
    target: str | None


@dataclass(frozen=True)
class AdmittedPlan:
    """Everything that makes one stream, inputs before outputs, for whichever query it was started."""

    result: str
    host: str
    operators: tuple[Placement, ...]
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True)
class Admitted:
    """The query runs by this plan."""

    query: str
    plan: AdmittedPlan
    #: streams of the plan that others had made already
    reused: tuple[str, ...]
    migrations: tuple[OperatorMoved, ...]
    #: the step of the planner that found the plan
    step: str


@dataclass(frozen=True)
class Refused:
    """The query does not fit: which resource is short, where, and what would make it fit."""

    query: str
    reason: str
    additions: tuple[Addition, ...] = ()
    #: no plan exists, even with everything re-planned that shares a stream with it
    proved: bool = False


@dataclass(frozen=True)
class Replanned:
    """The outcome of a change: what moved, what runs short, what cannot run."""

    replanned: tuple[str, ...] = ()
    migrations: tuple[OperatorMoved, ...] = ()
    #: admitted queries that keep running on overdrawn resources
    short: tuple[Refused, ...] = ()
    #: admitted queries that cannot run for now; they are tried again whenever something is freed
    stranded: tuple[Refused, ...] = ()


def plan_by_name(ledger: AllocationLedger, stream: int) -> AdmittedPlan:
    """The plan of a served stream."""
    catalog, hosts = ledger.catalog, ledger.network.hosts
    operators: dict[tuple[int, int], Placement] = {}
    transfers: dict[tuple[int, int], Transfer] = {}

    def visit(s: int, host: int) -> None:
        if host in catalog.streams[s].homes:
            return
        if host in ledger.made[s]:
            operator = next(o for o in catalog.makers[s] if host in ledger.placed[o])
            if (operator, host) not in operators:
                for needed in catalog.operators[operator].inputs:
                    visit(needed, host)
                operators[operator, host] = placement(catalog, ledger.network, operator, host)
        elif (s, host) not in transfers:
            sender = ledger.received[s][host]
            visit(s, sender)
            signature, rate = catalog.streams[s].signature, catalog.streams[s].rate
            relay = not ledger.origin(s, sender)
            transfers[s, host] = Transfer(signature, hosts[sender].id, hosts[host].id, rate, relay)

    visit(stream, ledger.served[stream])
    name = catalog.streams[stream].signature
    return AdmittedPlan(name, hosts[ledger.served[stream]].id, tuple(operators.values()), tuple(transfers.values()))


def placement(catalog: Catalog, network: HostNetwork, operator: int, host: int) -> Placement:
    """One operator on one host, by name."""
    what = catalog.operators[operator]
    inputs = tuple(sorted(catalog.streams[s].signature for s in what.inputs))
    return Placement(inputs, catalog.streams[what.output].signature, network.hosts[host].id, what.kind, what.cpu)


def migrations(before: set[Placement], after: set[Placement]) -> tuple[OperatorMoved, ...]:
    """What no longer runs where it ran, with its new host if it has one."""
    started: dict[tuple[tuple[str, ...], str], list[str]] = {}
    old = {(p.inputs, p.output, p.host) for p in before}
    new = {(p.inputs, p.output, p.host) for p in after}
    for inputs, output, host in sorted(new - old):
        started.setdefault((inputs, output), []).append(host)
    moved = []
    for inputs, output, host in sorted(old - new):
        targets = started.get((inputs, output), [])
        moved.append(OperatorMoved(inputs, output, host, targets.pop(0) if targets else None))
    return tuple(moved)
