"""The deployment: which queries exist, with which parameters, and where every instance lives. Rows, not running code.

A deployment has an epoch. The next one is made by a *delta*: rows to set, rows to remove. To deploy, undeploy, move or
reroute is to publish a delta; regions switch to the new epoch at their next micro-batch.

An instance is named `query/operator` or, for operators that run once for each device, `query/operator@device`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from godwit.ids import DeviceId, Epoch, NodeId, OperatorId, QueryId, RegionId, SiteId, StreamId
from godwit.model.plan import Query, Scan, Shape, Stream

K = TypeVar("K")
V = TypeVar("V")


def instance_id(query: QueryId, operator: int, device: DeviceId | None = None) -> OperatorId:
    return OperatorId(f"{query}/{operator}" if device is None else f"{query}/{operator}@{device}")


def split_instance(instance: OperatorId) -> tuple[QueryId, int, DeviceId | None]:
    name, at, device = instance.partition("@")
    query, _, operator = name.rpartition("/")
    return QueryId(query), int(operator), DeviceId(device) if at else None


@dataclass(frozen=True)
class Delta:
    """The difference between two epochs. None as a value removes the row."""

    queries: Mapping[QueryId, Query | None] = field(default_factory=dict)
    placement: Mapping[OperatorId, NodeId | None] = field(default_factory=dict)
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

    def inverse(self, before: Deployment) -> Delta:
        """The delta that takes `before.apply(self)` back to `before`."""
        return Delta(
            {q: before.queries.get(q) for q in self.queries},
            {i: before.placement.get(i) for i in self.placement},
            {d: before.devices.get(d) for d in self.devices},
            {s: before.sites.get(s) for s in self.sites},
            cause=f"revert: {self.cause}",
        )


@dataclass(frozen=True)
class Deployment:
    """All rows of all deployment tables at one epoch."""

    epoch: Epoch = field(default=Epoch(0))
    queries: Mapping[QueryId, Query] = field(default_factory=dict)
    #: instance -> the site (or, for sources, the device) it lives on
    placement: Mapping[OperatorId, NodeId] = field(default_factory=dict)
    devices: Mapping[DeviceId, SiteId | None] = field(default_factory=dict)
    sites: Mapping[SiteId, RegionId] = field(default_factory=dict)
    sessions: Mapping[DeviceId, int] = field(default_factory=dict)
    streams: Mapping[StreamId, Stream] = field(default_factory=dict)
    feeds: Mapping[StreamId, tuple[DeviceId, ...]] = field(default_factory=dict)

    def apply(self, delta: Delta) -> Deployment:
        devices = {**self.devices, **delta.devices}
        for device in delta.gone:
            devices.pop(device, None)
        return Deployment(
            Epoch(self.epoch + 1),
            _merged(self.queries, delta.queries),
            _merged(self.placement, delta.placement),
            devices,
            _merged(self.sites, delta.sites),
            {**self.sessions, **delta.sessions},
            {**self.streams, **delta.streams},
            {**self.feeds, **delta.feeds},
        )

    def region_of(self, node: NodeId) -> RegionId | None:
        """The region that runs what is placed on a node; a device's is that of its site."""
        site = self.devices.get(DeviceId(node)) or SiteId(node)
        return self.sites.get(site)

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

    def shapes(self) -> dict[str, Shape]:
        return {query.shape.key: query.shape for query in self.queries.values()}

    def of_shape(self, key: str) -> Iterator[Query]:
        return (query for query in self.queries.values() if query.shape.key == key)


def _merged(old: Mapping[K, V], new: Mapping[K, V | None]) -> dict[K, V]:
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
