"""A fleet's ground and plans in the words of admission: sites as hosts, devices' rows as base streams, plans as specs.

The rows of a stream that enter at a site are one base stream, `stream@site`. Operators that run once for each device
are one operator a site, which costs a unit of CPU for each device; where their rows come together is a union that costs
nothing. Every operator is named like its instance, with the query's plan beside it (`query/operator~plan@site`), so the
hosts that admission chooses can be read back, and plans of one query with other join orders do not mix. CPU is counted
as the deployment counts it, a unit an instance; bandwidth in Mbit/s: as measured, or else as declared, or a guess.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from godwit.admission.explain import PlanNode
from godwit.admission.model import BaseStream, Host, HostLink
from godwit.admission.rates import Base, JoinSpec, Node, Predicate, RateQuery, Unary, signature_of
from godwit.ids import DeviceId, QueryId, SiteId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.global_plan import unit_cost
from godwit.model.plan import Operator, Query, Scan
from godwit.model.taps import executor
from godwit.model.topology import Topology

#: an operator of a query, as `placement.rules` calls it: with the site that its devices are attached to
HintKey = tuple[QueryId, int, SiteId | None]
#: what a device sends into a stream, Mbit/s
Measured = Mapping[tuple[StreamId, DeviceId], float]
#: what a device is taken to send (Mbit/s) where its stream does not say
GUESS_MBPS = 0.1
#: a stream that brings less than this more or less (Mbit/s) than planned has not drifted: one that falls silent would
#: do so for ever, a third of what is left at a time
LEAST_DRIFT_MBPS = 0.01
#: a capacity that was not given
PLENTY = 1e6


def gives_capacities(topology: Topology) -> bool:
    """Whether every site says what it has: CPU, and bandwidth in and out."""
    sites = topology.sites.values()
    return bool(sites) and all(math.isfinite(c) for s in sites for c in (s.cpu, s.nic_in_mbps, s.nic_out_mbps))


@dataclass(frozen=True)
class GroundSpec:
    """Hosts, links and base streams as they are now. Equal values: nothing that admission knows has changed."""

    hosts: tuple[Host, ...]
    links: tuple[HostLink, ...] | None
    bases: tuple[BaseStream, ...]

    @staticmethod
    def of(topology: Topology, deployment: Deployment, measured: Measured) -> GroundSpec:
        hosts = tuple(
            Host(s.id, _finite(s.cpu), _finite(s.nic_in_mbps), _finite(s.nic_out_mbps))
            for s in sorted(topology.sites.values(), key=lambda s: s.id)
        )
        ends = [(a, b, link.mbps) for link in topology.links.values() for a, b in ((link.a, link.b), (link.b, link.a))]
        links = tuple(HostLink(a, b, _finite(mbps)) for a, b, mbps in sorted(ends))
        return GroundSpec(hosts, links if len(hosts) > 1 else None, tuple(_bases(topology, deployment, measured)))


def drifted(deployment: Deployment, used: Measured, measured: Measured, threshold: float) -> tuple[StreamId, ...]:
    """Streams whose measured devices together send other than was planned with, by more than the threshold."""
    made = {query.target for query in deployment.queries.values() if query.internal}
    totals: dict[StreamId, tuple[float, float]] = {}
    for (stream, device), now in measured.items():
        if stream in deployment.streams and stream not in made:
            then = used.get((stream, device), _declared(deployment, stream))
            before, after = totals.get(stream, (0.0, 0.0))
            totals[stream] = before + then, after + now
    return tuple(sorted(s for s, (then, now) in totals.items() if has_drifted(then, now, threshold)))


def has_drifted(then: float, now: float, threshold: float) -> bool:
    return abs(now - then) > max(threshold * then, LEAST_DRIFT_MBPS)


def _bases(topology: Topology, deployment: Deployment, measured: Measured) -> Iterable[BaseStream]:
    made = {query.target for query in deployment.queries.values() if query.internal}
    anywhere = max(topology.sites.values(), key=lambda s: (s.cpu, s.id), default=None)
    for stream in sorted(deployment.streams.values(), key=lambda s: s.id):
        if stream.id in made:
            continue
        at = _sent(topology, deployment, stream.id, deployment.feeds.get(stream.id, ()), measured)
        for site, mbps in sorted(at.items()):
            yield BaseStream(f"{stream.id}@{site}", mbps, (site,))
        if not at and anywhere is not None:
            yield BaseStream(f"{stream.id}@", 0.0, (anywhere.id,))


def _attached(topology: Topology, devices: Iterable[DeviceId]) -> Counter[SiteId]:
    known = (topology.devices.get(device) for device in devices)
    return Counter(device.site for device in known if device is not None and device.site is not None)


def _sent(
    topology: Topology, deployment: Deployment, stream: StreamId, devices: Iterable[DeviceId], measured: Measured
) -> dict[SiteId, float]:
    """Site -> what the devices that are attached there send into the stream."""
    found: dict[SiteId, float] = {}
    for device in devices:
        known = topology.devices.get(device)
        if known is not None and known.site is not None:
            mbps = measured.get((stream, device), _declared(deployment, stream))
            found[known.site] = found.get(known.site, 0.0) + mbps
    return found


def _declared(deployment: Deployment, stream: StreamId) -> float:
    known = deployment.streams.get(stream)
    return GUESS_MBPS if known is None or known.mbps is None else known.mbps


class Specs:
    """Writes queries as specs over one ground."""

    def __init__(
        self, topology: Topology, deployment: Deployment, queries: Iterable[Query], measured: Measured
    ) -> None:
        self._topology, self._deployment, self._measured = topology, deployment, measured
        self._queries = {q.id: q for q in queries}

    def of(self, query: Query) -> RateQuery:
        return RateQuery(query.id, self._root(query))

    def observed(self, producer: Mapping[QueryId, DeviceId]) -> dict[str, float]:
        """What cuts were seen to send, by signature; `producer`: the device that a cut is."""
        found = {}
        for cut in (query for query in self._queries.values() if query.cut is not None and query.id in producer):
            assert cut.target is not None
            if (seen := self._measured.get((cut.target, producer[cut.id]))) is not None:
                found[signature_of(self._root(cut))] = seen
        return found

    def _root(self, query: Query) -> Node:
        return self._all(query, query.inputs(len(query.shape.plan.operators) - 1)[0])

    def _all(self, query: Query, index: int) -> Node:
        """The rows of an operator, from wherever its instances are, together."""
        if not query.shape.plan.is_local(index):
            return self._holistic(query, index)
        whole: Node | None = None
        for _, node in sorted(self._local(query, index).items()):
            whole = node if whole is None else JoinSpec((whole, node), selectivity=1.0, window=0.0, cpu=0.0)
        assert whole is not None
        return whole

    def _local(self, query: Query, index: int) -> dict[str, Node]:
        """Site -> the rows of an operator that runs once for each device."""
        operator = query.shape.plan.operators[index]
        if isinstance(operator, Scan):
            return self._scan(query, index, operator)
        below = [self._local(query, i) for i in operator.inputs]
        made: dict[str, Node] = {}
        for site in sorted({site for nodes in below for site in nodes}):
            inputs = [nodes[site] for nodes in below if site in nodes]
            devices = self._devices(query, index).get(SiteId(site), 1)
            made[site] = _operator(operator, inputs, self._name(query, index, site), devices)
        return made

    def _scan(self, query: Query, index: int, scan: Scan) -> dict[str, Node]:
        cuts = [self._queries[part] for part in query.parts if self._queries[part].target == scan.stream]
        if cuts:
            return {"": self._root(cuts[0])}
        every = self._sent(scan.stream, self._deployment.feeds.get(scan.stream, ()))
        mine = self._sent(scan.stream, self._deployment.devices_of(query, index))
        if not mine:
            return {"": Base(f"{scan.stream}@")} if not every else {min(every): Base(f"{scan.stream}@{min(every)}")}
        nodes: dict[str, Node] = {}
        for site, mbps in mine.items():
            share = mbps / every[site] if every[site] else 1.0
            base = Base(f"{scan.stream}@{site}")
            nodes[site] = Unary(base, self._name(query, index, site), share, 0.0, "scan", cpu=0.0)
        return nodes

    def _sent(self, stream: StreamId, devices: Iterable[DeviceId]) -> dict[SiteId, float]:
        return _sent(self._topology, self._deployment, stream, devices, self._measured)

    def _devices(self, query: Query, index: int) -> Counter[SiteId]:
        scans = query.shape.plan.scans_below(index)
        devices = {device for scan in scans for device in self._deployment.devices_of(query, scan)}
        return _attached(self._topology, devices)

    def _holistic(self, query: Query, index: int) -> Node:
        operator = query.shape.plan.operators[index]
        inputs = [self._all(query, i) for i in operator.inputs]
        return _operator(operator, inputs, self._name(query, index), 1)

    def _name(self, query: Query, index: int, site: str = "") -> str:
        """What is tapped has the name of who executes it: to admission it is the same operator, and made once."""
        own = executor(query, index, self._queries).id
        return f"{own}/{index}~{query.shape.key}" + (f"@{site}" if site else "")


def _operator(operator: Operator, inputs: list[Node], name: str, instances: int) -> Node:
    cpu = unit_cost(operator) * instances
    if len(inputs) == 1:
        return Unary(inputs[0], name, operator.selectivity, 0.0, type(operator).__name__.lower(), cpu=cpu)
    share = operator.selectivity
    # Sides of their own names: a stream may be joined with itself.
    sides = tuple(Unary(node, f"{name}:{i}", 1.0, 0.0, "side", cpu=0.0) for i, node in enumerate(inputs))
    between = tuple(Predicate(0, i, name, share) for i in range(1, len(sides)))
    return JoinSpec(sides, between, share, cpu=cpu / max(1, len(sides) - 1))


#: the predicate at the end of a join's signature is the operator's name
_PREDICATE = re.compile(r"\[([^\[\]]*)\]$")


def hints(operators: Iterable[tuple[str, str]]) -> dict[HintKey, SiteId]:
    """(output, host) pairs of a plan, as places for instances: (query, operator, site of its device) -> site."""
    found: dict[HintKey, SiteId] = {}
    for output, host in operators:
        predicate = _PREDICATE.search(output)
        name, at, site = (predicate[1] if predicate else output).partition("@")
        query, slash, operator = name.partition("~")[0].rpartition("/")
        if slash and operator.isdigit():
            found[QueryId(query), int(operator), SiteId(site) if at and site else None] = SiteId(host)
    return found


def ways(node: PlanNode) -> dict[HintKey, dict[tuple[SiteId, SiteId], tuple[SiteId, ...]]]:
    """The sites that each operator's rows pass on their way to the next operator, relays among them."""
    found: dict[HintKey, dict[tuple[SiteId, SiteId], tuple[SiteId, ...]]] = {}

    def visit(node: PlanNode, onward: tuple[str, ...], scan: HintKey | None) -> None:
        here = onward if onward[:1] == (node.host,) else (node.host, *onward)
        own = next(iter(hints([(node.stream, node.host)])), None) if node.way == "made" else None
        producer = scan if node.way == "home" else None if node.by == "scan" else own
        if producer is not None and len(here) > 1:
            path = tuple(map(SiteId, here))
            found.setdefault(producer, {})[path[0], path[-1]] = path
        # A scan's rows begin at home; what costs nothing (unions, sides of joins) lies on the way.
        onward = (node.host,) if producer is not None else here
        for below in node.inputs:
            visit(below, onward, own if node.by == "scan" else scan)

    visit(node, (), None)
    return found


def _finite(value: float) -> float:
    return value if math.isfinite(value) else PLENTY
