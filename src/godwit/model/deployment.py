"""The deployment: which queries exist, with which parameters, and where every instance lives. Rows, not running code.

A deployment has an epoch. The next one is made by a *delta*: rows to set, rows to remove. To deploy, undeploy, move or
reroute is to publish a delta; regions switch to the new epoch at their next micro-batch.

An operator's rows go where its route table says: to one region or, where its keys are divided, by key to several.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from godwit.ids import DeviceId, Epoch, NodeId, QueryId, RegionId, SiteId, StreamId
from godwit.model.instances import InstanceId, instance_id
from godwit.model.layered import TableBuilder
from godwit.model.plan import Query, Scan, Shape, Stream
from godwit.model.routing import RouteEdit, RouteTable
from godwit.model.taps import executor, readers

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
    #: the number of a device's current session: it begins one wherever it turns up (`protocol.watermarks.session_of`)
    sessions: Mapping[DeviceId, int] = field(default_factory=dict)
    #: declared streams, derived ones among them
    streams: Mapping[StreamId, Stream] = field(default_factory=dict)
    #: stream -> the devices that feed it
    feeds: Mapping[StreamId, tuple[DeviceId, ...]] = field(default_factory=dict)
    #: devices that have left; what they have sent may still be unread
    gone: frozenset[DeviceId] = frozenset()
    cause: str = ""
    #: queries that have no place now, with the reason: their rows wait, their state stays where it is; None: resumed
    parked: Mapping[QueryId, str | None] = field(default_factory=dict)
    #: (query, operator) -> how its keys are divided, or what is different in that; None: not divided any more
    key_routes: Mapping[tuple[QueryId, int], RouteTable | RouteEdit | None] = field(default_factory=dict)
    #: devices that have left, and all that they sent has been read: nothing is known of them any more
    forgotten: frozenset[DeviceId] = frozenset()

    def inverse(self, before: Deployment) -> Delta:
        """The delta that takes `before.apply(self)` back to `before`; sessions and streams are never taken back."""
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
            key_routes={o: before.key_routes.get(o) for o in self.key_routes},
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
    #: (query, operator) -> how its keys are divided over regions; the others are not divided
    key_routes: Mapping[tuple[QueryId, int], RouteTable] = field(default_factory=dict)

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
            _written(self.sessions, delta.sessions, delta.forgotten),
            _written(self.streams, delta.streams),
            _written(self.feeds, delta.feeds),
            _merged(self.parked, delta.parked),
            _written(self.stays, arrived, delta.forgotten),
            _merged(self.key_routes, {place: self._table(place, new) for place, new in delta.key_routes.items()}),
        )

    def _table(self, place: tuple[QueryId, int], new: RouteTable | RouteEdit | None) -> RouteTable | None:
        return self.key_routes[place].edited(new) if isinstance(new, RouteEdit) else new

    def without(self, queries: Collection[QueryId]) -> Deployment:
        """The same, but for some queries that are not run; what others tap goes on for them, unseen."""
        if not queries:
            return self
        needed, todo = set[QueryId](), [query for name, query in self.queries.items() if name not in queries]
        while todo:
            tapped = {name for name in todo.pop().taps.values() if name in queries} - needed
            needed |= tapped
            todo += [self.queries[name] for name in tapped]
        kept = {
            name: replace(query, internal=True, finishes=False) if name in needed else query
            for name, query in self.queries.items()
            if name not in queries or name in needed
        }
        return replace(self, queries=kept)

    def suspended(self, query: QueryId) -> bool:
        """Whether rows of a query wait: it has no place, and neither has anybody who taps it."""
        if query not in self.parked:
            return False
        return all(reader in self.parked for reader in readers(query, self.queries.values()))

    def region_of(self, node: NodeId) -> RegionId | None:
        """The region that runs what is placed on a node; a device's is that of its site."""
        site = self.devices.get(DeviceId(node)) or SiteId(node)
        return self.sites.get(site)

    def routes(self, query: Query, operator: int, device: DeviceId | None = None) -> RouteTable | None:
        """Which regions process an operator's rows (a device's, if it runs per device); None: it has no place.

        Between two holistic operators, or between a device and the first one, rows cross regions at most once: an
        operator that is placed in neither of the two regions runs in the latter. So progress is reported
        at first hand, by the region where a source or a stateful operator lives, and rows and clocks never part ways.
        Results that are scattered leave where their rows are: nothing crosses.
        """
        query = executor(query, operator, self.queries)
        plan = query.shape.plan
        node = plan.operators[operator]
        if isinstance(node, Scan):
            site = self.devices.get(device) if device is not None else None
            return _undivided(self.sites.get(site) if site is not None else None)
        placed = self.placement.get(instance_id(query.id, operator, device))
        own = _undivided(None if placed is None else self.region_of(placed))
        if query.scattered and node.holistic:
            return None
        divided = self.key_routes.get((query.id, operator))
        if divided is not None:
            # The rest is where the operator is placed; without a place, where it was when it was last divided.
            return divided if own is None or divided.rest.copies else divided.following(own.rest.process)
        if node.holistic:
            return own
        below = {self.routes(query, child, device if plan.is_local(child) else None) for child in node.inputs}
        return own if below == {own} else self.routes(query, plan.next_holistic(operator))

    def owners(self, query: Query, operator: int) -> frozenset[RegionId]:
        """The regions that process rows of an operator that runs once for all devices."""
        table = self.routes(query, operator)
        return frozenset() if table is None else table.owners()

    def receivers(self, query: Query) -> set[RegionId]:
        """The regions that rows of a query's holistic operators go to, copies among them."""
        plan = query.shape.plan
        tables = (self.routes(query, i) for i in range(len(plan.operators)) if not plan.is_local(i))
        return {region for table in tables if table is not None for region in table.regions()}

    def route(self, query: Query, operator: int, device: DeviceId | None, here: RegionId) -> RouteTable:
        """Where rows that are in region `here` go on to an operator.

        Rows cross regions at most once on their way to the next holistic operator. A device may have moved on while its
        rows were still being read: they do not follow it, they go on from where they are. Where the next one's keys are
        divided, they stay until their key is known.
        """
        plan, table, stay = query.shape.plan, self.routes(query, operator, device), RouteTable.undivided(here)
        if table is None or plan.operators[operator].holistic:
            return table or stay
        if device is not None and self.routes(query, plan.scans_below(operator)[0], device) != stay:
            return stay  # of a device that is away or elsewhere, only what came in before is here
        following = self.routes(query, plan.next_holistic(operator))
        return table if table == following and not table.divided else stay

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

    def sources_of(self, query: Query, scan: int) -> tuple[DeviceId, ...]:
        """The devices that a query's watermark waits for: a device counts from its first session on, also while away.

        One that was declared and never attached has sent nothing and may never come.
        """
        return tuple(device for device in self.devices_of(query, scan) if device in self.stays)

    def knows(self, device: DeviceId) -> bool:
        """Whether a device is there, or has left and its last rows may still be unread."""
        return device in self.devices or device in self.stays

    def same_sources(self, other: Deployment) -> bool:
        """Whether the same devices feed the same streams and count."""
        return self.feeds == other.feeds and self.stays.keys() == other.stays.keys()

    def regions_of(self, shape: Shape) -> set[RegionId]:
        """Where a shape runs: where its operators live, and where devices that feed it are, or end their sessions."""
        feeding = {device for _, scan in shape.plan.scans for device in self.feeds.get(scan.stream, ())}
        needed: set[RegionId | None] = {self.stays.get(device) for device in feeding}
        needed |= {region for query in self.of_shape(shape.key) for region in self.receivers(query)}
        return {region for region in needed if region is not None}

    def shapes(self) -> dict[str, Shape]:
        return {query.shape.key: query.shape for query in self.queries.values()}

    def of_shape(self, key: str) -> Iterator[Query]:
        return (query for query in self.queries.values() if query.shape.key == key)


def _undivided(region: RegionId | None) -> RouteTable | None:
    return None if region is None else RouteTable.undivided(region)


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
        key_routes=_changed(old.key_routes, new.key_routes),
    )
    empty = not any((delta.queries, delta.placement, delta.devices, delta.sites, delta.sessions, delta.streams))
    return None if empty and not any((delta.feeds, delta.gone, delta.parked, delta.key_routes)) else delta


def _changed(old: Mapping[K, V], new: Mapping[K, V]) -> dict[K, V | None]:
    changed: dict[K, V | None] = {k: v for k, v in new.items() if old.get(k) != v}
    changed.update({k: None for k in old if k not in new})
    return changed


def _merged(old: Mapping[K, V], new: Mapping[K, V | None]) -> Mapping[K, V]:
    """With these rows; None removes one."""
    rows = {key: value for key, value in new.items() if value is not None}
    return _written(old, rows, [key for key, value in new.items() if value is None])


def _written(old: Mapping[K, V], rows: Mapping[K, V], gone: Iterable[K] = ()) -> Mapping[K, V]:
    draft = TableBuilder(old)
    for key, value in rows.items():
        draft[key] = value
    for key in gone:
        if key in draft:
            del draft[key]
    return draft.frozen() if rows or gone else old
