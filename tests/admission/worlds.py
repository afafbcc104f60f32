"""Small planning problems for the tests, and the judge that every state must pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from godwit.admission.check import violations
from godwit.admission.model import AdmissionQuery, BaseStream, Catalog, Host, HostLink, HostNetwork
from godwit.admission.rates import Base, JoinSpec, RateModel, RateQuery, declare, expand
from godwit.admission.state import AllocationLedger


def join(name: str, *streams: str) -> RateQuery:
    """A join of base streams in any order."""
    return RateQuery(name, JoinSpec(tuple(Base(stream) for stream in streams)))


def world(
    hosts: Iterable[Host],
    homes: dict[str, str | None],
    queries: Iterable[RateQuery],
    links: Iterable[HostLink] | None = None,
    rate: float = 10.0,
    selectivity: float = 0.003,
) -> tuple[HostNetwork, Catalog, list[AdmissionQuery]]:
    """A problem by numbers."""
    network, catalog = HostNetwork.of(hosts, links), Catalog()
    costs = RateModel(shares=lambda _: selectivity)
    for stream, home in homes.items():
        declare(catalog, network, BaseStream(stream, rate, () if home is None else (home,)), costs)
    return network, catalog, [expand(catalog, query, costs) for query in queries]


def random_world(
    seed: int,
    hosts: int = 3,
    streams: int = 6,
    queries: int = 6,
    cpu: float = 60.0,
    nic: float = 60.0,
    arities: tuple[int, ...] = (2, 3),
    links: bool = False,
) -> tuple[HostNetwork, Catalog, list[AdmissionQuery]]:
    """A seeded problem with uneven hosts and, if asked, few and uneven links."""
    rng = np.random.default_rng(seed)
    machines = [Host(f"h{h}", cpu * rng.uniform(0.5, 1.5), nic * rng.uniform(0.7, 1.3), nic) for h in range(hosts)]
    homes: dict[str, str | None] = {f"s{s}": f"h{rng.integers(hosts)}" for s in range(streams)}
    specs = [
        join(f"q{q}", *(f"s{s}" for s in sorted(rng.choice(streams, rng.choice(arities), replace=False))))
        for q in range(queries)
    ]
    wires = None
    if links:
        ring = [(h, (h + 1) % hosts) for h in range(hosts)]
        wires = [HostLink(f"h{a}", f"h{b}", float(rng.uniform(8, 40))) for h, m in ring for a, b in ((h, m), (m, h))]
    return world(machines, homes, specs, wires, selectivity=float(rng.uniform(0.001, 0.005)))


def judge(ledger: AllocationLedger, admitted: Iterable[int] | None = None) -> None:
    """Fail with everything that is wrong with a state."""
    wanted = set(ledger.served) if admitted is None else set(admitted)
    assert violations(ledger.network, ledger.catalog, ledger.snapshot(), wanted) == []


def idle(ledger: AllocationLedger) -> bool:
    """Nothing runs, flows or is taken."""
    network, state = ledger.network, ledger.snapshot()
    empty = not (state.served or state.flows or state.placed)
    unused = all(
        np.allclose(free, full, atol=1e-6)
        for free, full in (
            (ledger.cpu_free, network.cpu),
            (ledger.in_free, network.nic_in),
            (ledger.out_free, network.nic_out),
        )
    )
    return empty and unused
