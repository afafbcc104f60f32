"""What the admission planner reasons about: hosts, links, streams, operators and queries, as plain values.

Users speak in names (`BaseStream("cars", 10.0, ("edge-1",))`); the planner works on small integers. `Network`
numbers the hosts, `Catalog` numbers streams and operators. The symbols of SQPR (Kalyvianaki et al., ICDE 2011) are
named where they appear: zeta (CPU), beta (NIC), kappa (link), rho (rate), gamma (cost of an operator).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from godwit.errors import AdmissionError

Floats = NDArray[np.float64]

#: resources may be overdrawn by this much before it counts as a fault: sums of floats are not exact
SLACK = 1e-6


@dataclass(frozen=True)
class Host:
    """A place that runs operators."""

    id: str
    #: zeta_h, in the units of the cost model
    cpu: float
    #: beta_m of III.6b: the most it can receive
    nic_in: float
    #: beta_h of III.6c: the most it can send, to hosts and to clients
    nic_out: float


@dataclass(frozen=True)
class HostLink:
    """A directed connection; kappa_hm is its bandwidth."""

    source: str
    target: str
    bandwidth: float


@dataclass(frozen=True)
class BaseStream:
    """A stream that enters the system from outside, available at its homes."""

    id: str
    rate: float
    homes: tuple[str, ...]


@dataclass(frozen=True)
class CatalogStream:
    """A base stream (it has homes) or a composite one (operators make it)."""

    signature: str
    #: rho_s
    rate: float
    homes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class AdmissionOperator:
    """The triplet (S_o, s_o, gamma_o), all streams as numbers of the catalog."""

    inputs: tuple[int, ...]
    output: int
    #: gamma_o; the paper's text prints it as s_o
    cpu: float
    kind: str = "join"
    #: what has to travel when it moves, in rate units times seconds of window
    state: float = 0.0


@dataclass(frozen=True)
class AdmissionQuery:
    """A requested stream with everything that may appear in a plan for it: S(q) and O(q)."""

    id: str
    result: int
    #: S(q), inputs before outputs
    streams: tuple[int, ...]
    #: O(q), in the order of their outputs
    operators: tuple[int, ...]


@dataclass(frozen=True)
class ObjectiveWeights:
    """lambda_1 to lambda_4, and the price of moving a running operator.

    `paper` is the setting of the paper's section IV-A, `pack` lets hosts run idle, `balance` spreads the load.
    """

    admit: float = 1e4
    network: float = 0.0
    cpu: float = 0.0
    balance: float = 1.0
    migrate: float = 0.0

    @staticmethod
    def paper(network: HostNetwork) -> ObjectiveWeights:
        """Network scaled by the NICs, CPU by the hosts' CPU (the paper prints kappa there), lambda_4 = 1.

        lambda_1 is more than everything else can ever amount to, so no admitted query is traded for savings.
        """
        most = 10 * (2 + float(network.cpu.max(initial=0.0)))
        return ObjectiveWeights(most, 1 / max(network.nic_out.sum(), SLACK), 1 / max(network.cpu.sum(), SLACK), 1.0)

    @staticmethod
    def pack(network: HostNetwork) -> ObjectiveWeights:
        """Spend as little as possible and leave hosts idle."""
        paper = ObjectiveWeights.paper(network)
        return ObjectiveWeights(paper.admit, paper.network, paper.cpu, 0.0)

    @staticmethod
    def spread(network: HostNetwork) -> ObjectiveWeights:
        """Only an even load counts, beside the network."""
        paper = ObjectiveWeights.paper(network)
        return ObjectiveWeights(paper.admit, paper.network, 0.0, 1.0)


@dataclass(frozen=True)
class HostNetwork:
    """Hosts by number, with their capacities as arrays. `links` None: every pair is joined and never the bottleneck."""

    hosts: tuple[Host, ...]
    links: Mapping[tuple[int, int], float] | None = None
    index: dict[str, int] = field(init=False, repr=False, compare=False)
    cpu: Floats = field(init=False, repr=False, compare=False)
    nic_in: Floats = field(init=False, repr=False, compare=False)
    nic_out: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {host.id: number for number, host in enumerate(self.hosts)}
        if len(index) != len(self.hosts):
            msg = "two hosts have the same id: give every host its own"
            raise AdmissionError(msg)
        object.__setattr__(self, "index", index)
        for name in ("cpu", "nic_in", "nic_out"):
            object.__setattr__(self, name, np.array([getattr(host, name) for host in self.hosts], dtype=float))

    @staticmethod
    def of(hosts: Iterable[Host], links: Iterable[HostLink] | None = None) -> HostNetwork:
        """Number the hosts. If no link can ever bind (kappa_hm >= min(beta)), they count as no links at all."""
        known = tuple(hosts)
        plain = HostNetwork(known)
        if links is None:
            return plain
        table: dict[tuple[int, int], float] = {}
        for link in links:
            pair = (plain.number(link.source), plain.number(link.target))
            table[pair] = table.get(pair, 0.0) + link.bandwidth
        return plain if _never_binds(plain, table) else HostNetwork(known, table)

    def __len__(self) -> int:
        return len(self.hosts)

    def number(self, host: str) -> int:
        """The number of a host, or an error that lists the known ones."""
        if host not in self.index:
            known = ", ".join(sorted(self.index)[:8]) or "none"
            msg = f"host '{host}' is not in the network; known hosts: {known}"
            raise AdmissionError(msg)
        return self.index[host]

    def bandwidth(self, source: int, target: int) -> float:
        """kappa of a pair; without links, what the two NICs allow."""
        if self.links is None:
            return float(min(self.nic_out[source], self.nic_in[target]))
        return self.links.get((source, target), 0.0)


def _never_binds(network: HostNetwork, links: Mapping[tuple[int, int], float]) -> bool:
    pairs = ((h, m) for h in range(len(network)) for m in range(len(network)) if h != m)
    return all(links.get(pair, 0.0) >= min(network.nic_out[pair[0]], network.nic_in[pair[1]]) for pair in pairs)


class Catalog:
    """All streams and operators that were requested so far, by number. Equal signature, equal stream."""

    def __init__(self) -> None:
        self.streams: list[CatalogStream] = []
        self.operators: list[AdmissionOperator] = []
        #: operators that make a stream
        self.makers: list[list[int]] = []
        self._stream_numbers: dict[str, int] = {}
        self._operator_numbers: dict[tuple[tuple[int, ...], int], int] = {}

    def number(self, signature: str) -> int:
        """The number of a known signature."""
        if signature not in self._stream_numbers:
            msg = f"stream '{signature}' is unknown: declare it as a base stream or as the output of an operator"
            raise AdmissionError(msg)
        return self._stream_numbers[signature]

    def knows(self, signature: str) -> bool:
        """Whether the signature has a number."""
        return signature in self._stream_numbers

    def add_stream(self, signature: str, rate: float, homes: Iterable[int] = ()) -> int:
        """Number a stream; a signature that is known keeps its number, rate and homes."""
        if signature in self._stream_numbers:
            return self._stream_numbers[signature]
        self._stream_numbers[signature] = len(self.streams)
        self.streams.append(CatalogStream(signature, rate, frozenset(homes)))
        self.makers.append([])
        return len(self.streams) - 1

    def add_operator(
        self, inputs: tuple[int, ...], output: int, cpu: float, kind: str = "join", state: float = 0.0
    ) -> int:
        """Number an operator; the same inputs and output are the same operator."""
        key = (tuple(sorted(inputs)), output)
        if key not in self._operator_numbers:
            self._operator_numbers[key] = len(self.operators)
            self.operators.append(AdmissionOperator(key[0], output, cpu, kind, state))
            self.makers[output].append(self._operator_numbers[key])
        return self._operator_numbers[key]
