"""The paper's workload: base streams placed uniformly, 2- to 4-way joins in equal parts, Zipf popularity."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from godwit.admission.model import AdmissionQuery, BaseStream, Catalog, Host, HostNetwork
from godwit.admission.rates import Base, JoinSpec, RateModel, RateQuery, declare, expand

#: CPU a host such that the system saturates near query 450
CPU = 205.0
REGIMES = {"cpu": 1000.0, "both": 60.0}


@dataclass(frozen=True)
class Setting:
    """One instance of the workload."""

    seed: int = 0
    hosts: int = 50
    streams: int = 500
    queries: int = 1000
    zipf: float = 1.0
    arities: tuple[int, ...] = (2, 3, 4)
    nic: float = REGIMES["cpu"]
    cpu: float = CPU
    rate: float = 10.0


def specs(setting: Setting) -> tuple[list[Host], list[BaseStream], list[RateQuery]]:
    """Hosts, base streams and queries, all from the seed."""
    rng = np.random.default_rng(setting.seed)
    hosts = [Host(f"h{h}", setting.cpu, setting.nic, setting.nic) for h in range(setting.hosts)]
    homes = rng.integers(setting.hosts, size=setting.streams)
    streams = [BaseStream(f"s{s}", setting.rate, (f"h{homes[s]}",)) for s in range(setting.streams)]
    weights = 1.0 / np.arange(1, setting.streams + 1) ** setting.zipf
    weights /= weights.sum()
    arity = np.array([setting.arities[q % len(setting.arities)] for q in range(setting.queries)])
    rng.shuffle(arity)
    queries = []
    for q, ways in enumerate(arity):
        chosen = rng.choice(setting.streams, size=ways, replace=False, p=weights)
        queries.append(RateQuery(f"q{q}", JoinSpec(tuple(Base(f"s{s}") for s in sorted(chosen)))))
    return hosts, streams, queries


def selectivity(seed: int) -> RateModel:
    """A share of 0.1 to 0.5 % for every join subset, drawn from its signature so that the order never matters."""

    def share(signature: str) -> float:
        return 0.001 + 0.004 * zlib.crc32(f"{seed}/{signature}".encode()) / 0xFFFFFFFF

    return RateModel(shares=share)


def build(setting: Setting) -> tuple[HostNetwork, Catalog, list[AdmissionQuery]]:
    """The same workload by numbers, ready for planners."""
    hosts, streams, queries = specs(setting)
    network, catalog, costs = HostNetwork.of(hosts), Catalog(), selectivity(setting.seed)
    for stream in streams:
        declare(catalog, network, stream, costs)
    return network, catalog, [expand(catalog, query, costs) for query in queries]
