"""What a placement rule is given, what it must produce, and the table of rules by name.

A rule places the instances it is given, and those only; everything else stays where it is. Every instance has a root,
the site of its query's sink; the *way* of a node leads from it to the root. A rule chooses among the sites on the
common way of an instance's inputs, so that rows only ever travel towards their sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Protocol, cast

from godwit.errors import ConfigError
from godwit.ids import DeviceId, NodeId, QueryId, RegionId, SiteId
from godwit.model.global_plan import GlobalPlan, Instance
from godwit.model.instances import InstanceId
from godwit.model.journal import Journal
from godwit.model.routes import SitePaths, Way
from godwit.model.topology import Topology

#: name -> module beside this one that defines `place`
RULES: dict[str, str] = {
    "bottom-up": "bottom_up",
    "top-down": "top_down",
    "nearest-common-ancestor": "nearest_common_ancestor",
    "search": "search",
}


@dataclass(frozen=True)
class Infeasible:
    """Why an instance found no place."""

    operator: InstanceId
    #: what is short: "cpu", "path" or "site"
    resource: str
    reason: str


class Rule(Protocol):
    """Place every instance of `todo` (producers first) by `ground.put`; stop at the first that finds no place."""

    def __call__(self, ground: PlacementContext, todo: Sequence[InstanceId]) -> Infeasible | None: ...


def rule(name: str) -> Rule:
    if name not in RULES:
        msg = f"there is no placement rule '{name}'; choose one of {', '.join(RULES)}"
        raise ConfigError(msg)
    return cast(Rule, import_module(f"godwit.placement.rules.{RULES[name]}").place)


#: an operator of a query; of those that run once for each device, those whose devices are attached to one site
HintKey = tuple[QueryId, int, SiteId | None]
Ways = Mapping[tuple[SiteId, SiteId], tuple[SiteId, ...]]


@dataclass
class PlacementContext:
    """Where instances are, what is free, and which way leads where. Writes go through the journal."""

    plan: GlobalPlan
    routes: SitePaths
    journal: Journal
    placement: dict[InstanceId, NodeId] = field(default_factory=dict)
    load: dict[NodeId, float] = field(default_factory=dict)
    hosted: dict[NodeId, dict[InstanceId, None]] = field(default_factory=dict)
    #: the site an instance's rows travel to
    root: dict[InstanceId, NodeId] = field(default_factory=dict)
    #: (query, operator, site that its device is attached to) -> the preferred site of the instance, if it has room
    hints: dict[HintKey, NodeId] = field(default_factory=dict)
    #: the preferred ways of an operator's rows: (first site, last site) -> all sites
    ways: dict[HintKey, Ways] = field(default_factory=dict)
    #: an instance, by its query's name -> the site given by hand, if it has room
    by_hand: dict[InstanceId, NodeId] = field(default_factory=dict)
    #: where the instances that are being placed again were until now
    before: dict[InstanceId, NodeId] = field(default_factory=dict)
    #: regions that do not answer: nothing new is placed there
    lost_regions: dict[RegionId, None] = field(default_factory=dict)

    @property
    def topology(self) -> Topology:
        return self.routes.topology

    # -- asking

    def free(self, node: NodeId) -> float:
        """Capacity left; a device's is what it can compute itself."""
        site = self.topology.sites.get(SiteId(node))
        device = self.topology.devices.get(DeviceId(node))
        cpu = site.cpu if site is not None else device.cpu if device is not None else 0.0
        return cpu - self.load.get(node, 0.0)

    def hosts(self, node: NodeId, instance: Instance) -> bool:
        """Whether the instance can be put on the node now."""
        region = self.topology.region_of(node)
        return region is not None and region not in self.lost_regions and instance.cost <= self.free(node)

    def away(self, node: NodeId) -> bool:
        """A device that is attached nowhere: its rows wait, and their way is unknown."""
        device = self.topology.devices.get(DeviceId(node))
        return device is not None and device.site is None

    def way(self, instance: InstanceId, node: NodeId) -> Way | None:
        """From a node to the root of an instance."""
        return self.routes.way(node, self.root[instance])

    def ways_in(self, instance: InstanceId) -> list[Way] | Infeasible:
        """The ways that the instance's rows come, from where its producers are; those of devices away left out."""
        ways = []
        for producer in sorted(self.plan.producers.get(instance, ())):
            node = self.placement.get(producer)
            if node is None or self.away(node):
                continue
            way = self.way(instance, node)
            if way is None:
                return self.no_path(instance, node)
            ways.append(way)
        return ways

    def common_way(self, instance: InstanceId) -> Way | Infeasible:
        """The nodes that all the instance's rows pass, the one nearest to its producers first, the root last."""
        ways = self.ways_in(instance)
        if isinstance(ways, Infeasible):
            return ways
        root = self.root[instance]
        return meet(ways) if ways else (root,)

    def hint(self, instance: InstanceId) -> NodeId | None:
        """The preferred site of the instance, if it can be there."""
        wanted = self.plan.instances[instance]
        names = sorted(self.plan.names.get(instance, ())) if self.by_hand else ()
        for node in (*map(self.by_hand.get, names), *map(self.hints.get, self._keys(instance))):
            if node is not None and self.topology.has(node) and self.hosts(node, wanted):
                return node
        return None

    def put_by_hand(self, instance: InstanceId) -> NodeId | None:
        """The site given by hand, if the instance can be there."""
        return self.hint(instance) if any(n in self.by_hand for n in self.plan.names.get(instance, ())) else None

    def wished_way(self, producer: InstanceId, start: NodeId, end: NodeId) -> Way | None:
        """The preferred way of the producer's rows, if all its links are there."""
        device = self.topology.devices.get(DeviceId(start))
        first = device.site if device is not None else SiteId(start)
        for key in self._keys(producer):
            sites = None if first is None else self.ways.get(key, {}).get((first, SiteId(end)))
            if sites is not None:
                way = (*((start,) if device is not None else ()), *map(NodeId, sites))
                return way if all(b in self.topology.adjacency.get(a, ()) for a, b in pairwise(way)) else None
        return None

    def _keys(self, instance: InstanceId) -> Iterator[HintKey]:
        """The keys under which hints name an instance."""
        device = self.topology.devices.get(self.plan.instances[instance].device or DeviceId(""))
        for name in sorted(self.plan.names.get(instance, ())):
            # (a cut is a device of its stream, too, but of no site: its reader runs once)
            yield from ((name.query, name.operator, site) for site in (device.site if device else None, None))

    def take_hints(self, hints: Mapping[HintKey, SiteId], ways: Mapping[HintKey, Ways]) -> None:
        """From now on these are the preferred sites and ways."""
        for hint, site in hints.items():
            self.journal.put(self.hints, hint, NodeId(site))
        for hint, known in ways.items():
            self.journal.put(self.ways, hint, known)

    def forget(self, query: QueryId) -> None:
        """Forget all preferences of a query."""
        for name in [name for name in self.by_hand if name.query == query]:
            self.journal.drop(self.by_hand, name)
        for hint in [hint for hint in self.hints if hint[0] == query]:
            self.journal.drop(self.hints, hint)
        for hint in [hint for hint in self.ways if hint[0] == query]:
            self.journal.drop(self.ways, hint)

    # -- doing

    def put(self, instance: InstanceId, node: NodeId) -> None:
        self.clear(instance)
        cost = self.plan.instances[instance].cost
        self.journal.put(self.placement, instance, node)
        self.journal.into(self.hosted, node, instance, None)
        if cost:
            self.journal.put(self.load, node, self.load.get(node, 0.0) + cost)

    def clear(self, instance: InstanceId, cost: float | None = None) -> None:
        """Take an instance off its node; `cost` is needed once the plan no longer knows it."""
        node = self.placement.get(instance)
        if node is None:
            return
        cost = self.plan.instances[instance].cost if cost is None else cost
        self.journal.drop(self.placement, instance)
        self.journal.out_of(self.hosted, node, instance)
        if cost:
            self.journal.put(self.load, node, self.load[node] - cost)

    def put_first(self, instance: InstanceId, candidates: Iterable[NodeId]) -> Infeasible | None:
        """Put the instance on the first candidate that can host it."""
        wanted = self.plan.instances[instance]
        tried = []
        for node in candidates:
            if self.hosts(node, wanted):
                self.put(instance, node)
                return None
            tried.append(node)
        return self._no_room(wanted, tried)

    def put_pinned(self, instance: InstanceId) -> Infeasible | None:
        """Put a scan on its device, a sink on its site."""
        wanted = self.plan.instances[instance]
        node = wanted.pinned if wanted.pinned is not None else self.put_by_hand(instance) or self.root[instance]
        if not self.topology.has(node):
            reason = f"{_called(wanted)} belongs on '{node}', which is not in the topology; add it or choose another"
            return Infeasible(instance, "site", reason)
        self.put(instance, node)
        return None

    def no_path(self, instance: InstanceId, node: NodeId) -> Infeasible:
        wanted = self.plan.instances[instance]
        reason = f"{_called(wanted)} gets no rows: no path from '{node}' to its sink's site '{self.root[instance]}'"
        return Infeasible(instance, "path", f"{reason}; add a link between the two sides")

    def _no_room(self, wanted: Instance, tried: list[NodeId]) -> Infeasible:
        lost = [n for n in tried if self.topology.region_of(n) in self.lost_regions]
        short = ", ".join(f"'{n}' has {self.free(n):g}" for n in tried if n not in lost) or "no site is on its way"
        down = f"; not answering: {', '.join(lost)}" if lost else ""
        reason = f"{_called(wanted)} needs {wanted.cost:g} cpu and {short}{down}"
        return Infeasible(wanted.id, "cpu", f"{reason}; raise a capacity or withdraw a query")


def is_pinned(instance: Instance) -> bool:
    return instance.pinned is not None or instance.kind == "Sink"


def meet(ways: Sequence[Way]) -> Way:
    """The common end of ways that lead to one root."""
    common = ways[0]
    for way in ways[1:]:
        k = 0
        while k < min(len(common), len(way)) and common[-1 - k] == way[-1 - k]:
            k += 1
        common = common[len(common) - k :]
    return common


def each(
    ground: PlacementContext, todo: Iterable[InstanceId], one: Callable[[InstanceId], Infeasible | None]
) -> Infeasible | None:
    """Place pinned instances where they belong, others where a hint puts them or by `one`; stop at the first fault."""
    for instance in todo:
        hint = None if is_pinned(ground.plan.instances[instance]) else ground.hint(instance)
        if hint is not None:
            ground.put(instance, hint)
            continue
        pinned = is_pinned(ground.plan.instances[instance])
        fault = ground.put_pinned(instance) if pinned else one(instance)
        if fault is not None:
            return fault
    return None


def _called(instance: Instance) -> str:
    return f"{instance.kind} {instance.id}"
