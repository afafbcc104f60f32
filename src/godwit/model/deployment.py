"""The deployment: which queries exist, with which parameters, and where every instance lives. Rows, not running code.

A deployment has an epoch. The next one is made by a *delta*: rows to set, rows to remove. To deploy, undeploy, move or
reroute is to publish a delta; regions switch to the new epoch at their next micro-batch.

An instance is named `query/operator` or, for operators that run once for each device, `query/operator@device`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from godwit.ids import DeviceId, Epoch, NodeId, QueryId, RegionId, SiteId, StreamId
from godwit.model.instances import InstanceId, instance_id
from godwit.model.layered import Draft
from godwit.model.plan import Query, Scan, Shape, Stream

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Delta:
    """The difference between two epochs. None as a value removes the row."""

    queries: Mapping[QueryId, Query | None] = field(default_factory=dict)
    placement: Mapping[InstanceId, NodeId | None] = field(default_factory=dict)
    #: where a device is attached, as far as regions must know
    devices: Mapping[DeviceId, SiteId | None] = field(default_factory=dict)
    #: site -> region; sites that left map to None
    sites: Mapping[SiteId, RegionId | None] = field(default_factory=dict)
    #: how often a device has changed its region: the number of its current session
    sessions: Mapping[DeviceId, int] = field(default_factory=dict)
    #: declared streams, derived ones among them
    streams: Mapping[StreamId, Stream] = field(default_factory=dict)
    #: stream -> the devices that feed it
    feeds: Mapping[StreamId, tuple[DeviceId, ...]] = field(default_factory=dict)
    #: devices that are gone for good
    gone: frozenset[DeviceId] = frozenset()
    cause: str = ""
    #: queries that have no place now, with the reason: their rows wait, their state stays where it is; None: resumed
    parked: Mapping[QueryId, str | None] = field(default_factory=dict)

    def inverse(self, before: Deployment) -> Delta:
        """The delta that takes `before.apply(self)` back to `before`; sessions and streams only ever grow."""
        devices = {*self.devices, *self.gone}
        return Delta(
            {q: before.queries.get(q) for q in self.queries},
            {i: before.placement.get(i) for i in self.placement},
            {d: before.devices[d] for d in devices if d in before.devices},
            {s: before.sites.get(s) for s in self.sites},
            feeds={s: before.feeds.get(s, ()) for s in self.feeds},
            gone=frozenset(d for d in devices if d not in before.devices),
            cause=f"revert: {self.cause}",
            parked={q: before.parked.get(q) for q in self.parked},
        )


@dataclass(frozen=True)
class Deployment:
    """All rows of all deployment tables at one epoch."""

    epoch: Epoch = field(default=Epoch(0))
    queries: Mapping[QueryId, Query] = field(default_factory=dict)
    #: instance -> the site (or, for sources, the device) it lives on
    placement: Mapping[InstanceId, NodeId] = field(default_factory=dict)
    devices: Mapping[DeviceId, SiteId | None] = field(default_factory=dict)
    sites: Mapping[SiteId, RegionId] = field(default_factory=dict)
    sessions: Mapping[DeviceId, int] = field(default_factory=dict)
    streams: Mapping[StreamId, Stream] = field(default_factory=dict)
    feeds: Mapping[StreamId, tuple[DeviceId, ...]] = field(default_factory=dict)
    #: queries without a place, and why
    parked: Mapping[QueryId, str] = field(default_factory=dict)
    #: device -> the region of its current session: where it is or, if it is away, was last
    stays: Mapping[DeviceId, RegionId] = field(default_factory=dict)

    def apply(self, delta: Delta) -> Deployment:
        """The deployment of the next epoch; costs what the delta changes, not what is there."""
        sites = _merged(self.sites, delta.sites)
        arrived = {device: sites[site] for device, site in delta.devices.items() if site is not None and site in sites}
        return Deployment(
            Epoch(self.epoch + 1),
            _merged(self.queries, delta.queries),
            _merged(self.placement, delta.placement),
            _written(self.devices, delta.devices, delta.gone),
            sites,
            _written(self.sessions, delta.sessions),
            _written(self.streams, delta.streams),
            _written(self.feeds, delta.feeds),
            _merged(self.parked, delta.parked),
            _written(self.stays, arrived),
        )

    def without(self, queries: Collection[QueryId]) -> Deployment:
        """The same, but for some queries that are not run."""
        if not queries:
            return self
        return replace(self, queries={name: query for name, query in self.queries.items() if name not in queries})

    def region_of(self, node: NodeId) -> RegionId | None:
        """The region that runs what is placed on a node; a device's is that of its site."""
        site = self.devices.get(DeviceId(node)) or SiteId(node)
        return self.sites.get(site)

    def home(self, query: Query, operator: int, device: DeviceId | None = None) -> RegionId | None:
        """The region that runs an instance.

        Between two holistic operators, or between a device and the first one, rows cross regions at most once: an
        operator that is placed in neither of the two regions runs in the latter. So progress is always told at first
        hand, by the region where a source or a stateful operator lives, and rows and clocks never part ways.
        """
        plan = query.shape.plan
        node = plan.operators[operator]
        placed = self.placement.get(instance_id(query.id, operator, device))
        region = None if placed is None else self.region_of(placed)
        if isinstance(node, Scan):
            site = self.devices.get(device) if device is not None else None
            return self.sites.get(site) if site is not None else None
        if node.holistic:
            return region
        below = {self.home(query, child, device if plan.is_local(child) else None) for child in node.inputs}
        if below == {region}:
            return region
        return self.home(query, plan.next_holistic(operator))

    def route(self, query: Query, operator: int, device: DeviceId | None, here: RegionId) -> RegionId:
        """Where rows that are in region `here` go on to an operator.

        Rows cross regions at most once on their way to the next holistic operator. A device may have moved on while its
        rows were still being read: they do not follow it, they go on from where they are.
        """
        plan, home = query.shape.plan, self.home(query, operator, device)
        if home is None or plan.operators[operator].holistic:
            return home or here
        if device is not None and self.home(query, plan.scans_below(operator)[0], device) is None:
            return here  # of a device that is away, only what came in before is here
        return home if home == self.home(query, plan.next_holistic(operator)) else here

    def devices_of(self, query: Query, scan: int) -> tuple[DeviceId, ...]:
        """The devices whose rows a query's scan reads: all that feed the stream, or those it subscribes to."""
        operator = query.shape.plan.operators[scan]
        assert isinstance(operator, Scan)
        feeding = self.feeds.get(operator.stream, ())
        stream = self.streams.get(operator.stream)
        wanted = query.subscriptions.get(scan)
        if wanted is None or stream is None or operator.subscribe != stream.device:
            return feeding
        names = {literal.strip("'").replace("''", "'") for literal in wanted}
        return tuple(device for device in feeding if device in names)

    def regions_of(self, shape: Shape) -> set[RegionId]:
        """Where a shape runs: where its operators live, and where devices that feed it are, or end their sessions."""
        feeding = {device for _, scan in shape.plan.scans for device in self.feeds.get(scan.stream, ())}
        needed: set[RegionId | None] = {self.stays.get(device) for device in feeding}
        holistic = [i for i in range(len(shape.plan.operators)) if not shape.plan.is_local(i)]
        needed |= {self.home(query, i) for query in self.of_shape(shape.key) for i in holistic}
        return {region for region in needed if region is not None}

    def shapes(self) -> dict[str, Shape]:
        return {query.shape.key: query.shape for query in self.queries.values()}

    def of_shape(self, key: str) -> Iterator[Query]:
        return (query for query in self.queries.values() if query.shape.key == key)


def between(old: Deployment, new: Deployment, cause: str = "") -> Delta | None:
    """The delta from one deployment's rows to another's; None if there is no difference."""
    delta = Delta(
        _changed(old.queries, new.queries),
        _changed(old.placement, new.placement),
        {d: s for d, s in new.devices.items() if d not in old.devices or old.devices[d] != s},
        _changed(old.sites, new.sites),
        {d: n for d, n in new.sessions.items() if old.sessions.get(d) != n},
        {s: v for s, v in new.streams.items() if old.streams.get(s) != v},
        {s: v for s, v in new.feeds.items() if old.feeds.get(s) != v},
        frozenset(set(old.devices) - set(new.devices)),
        cause=cause,
        parked=_changed(old.parked, new.parked),
    )
    empty = not any((delta.queries, delta.placement, delta.devices, delta.sites, delta.sessions, delta.streams))
    return None if empty and not (delta.feeds or delta.gone or delta.parked) else delta


def _changed(old: Mapping[K, V], new: Mapping[K, V]) -> dict[K, V | None]:
    changed: dict[K, V | None] = {k: v for k, v in new.items() if old.get(k) != v}
    changed.update({k: None for k in old if k not in new})
    return changed


def _merged(old: Mapping[K, V], new: Mapping[K, V | None]) -> Mapping[K, V]:
    """With these rows; None removes one."""
    rows = {key: value for key, value in new.items() if value is not None}
    return _written(old, rows, [key for key, value in new.items() if value is None])


def _written(old: Mapping[K, V], rows: Mapping[K, V], gone: Iterable[K] = ()) -> Mapping[K, V]:
    draft = Draft(old)
    for key, value in rows.items():
        draft[key] = value
    for key in gone:
        if key in draft:
            del draft[key]
    return draft.frozen() if rows or gone else old
