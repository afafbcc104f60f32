"""Which (region, shape) pairs an epoch needs: found from what the epoch changes, not by looking at every query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from godwit.ids import DeviceId, QueryId, RegionId, StreamId
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import Query, Shape

#: shape -> regions
Needed = dict[str, set[RegionId]]


class Needs:
    """Indexes from devices and streams to the shapes that read them, kept in step with the deployment."""

    def __init__(self) -> None:
        self.shapes: dict[str, Shape] = {}
        self._uses: Counter[str] = Counter()
        self._readers: dict[StreamId, set[str]] = {}
        self._feeds: dict[DeviceId, set[StreamId]] = {}

    def change(self, before: Deployment, delta: Delta, after: Deployment) -> Needed:
        """The pairs that what an epoch changes needs; those that were needed before may be among them."""
        found: Needed = {}
        for stream, devices in delta.feeds.items():
            for device in devices:
                self._feeds.setdefault(device, set()).add(stream)
        for device in delta.forgotten:
            self._feeds.pop(device, None)
        for query_id, query in delta.queries.items():
            self._count(before.queries.get(query_id), -1)
            self._count(query, 1)
        resited = any(region is not None and before.sites.get(s, region) != region for s, region in delta.sites.items())
        queries = after.queries if resited else {name.query for name in delta.placement}
        divided = {query for query, _ in delta.key_routes}
        self._place(found, after, {*queries, *divided, *delta.queries})
        fed = {device for devices in delta.feeds.values() for device in devices}
        self._attach(found, after, {*delta.devices, *fed})
        for query in delta.queries.values():
            if query is not None:
                found.setdefault(query.shape.key, set()).update(after.regions_of(query.shape))
        return found

    def _count(self, query: Query | None, by: int) -> None:
        if query is None:
            return
        key = query.shape.key
        self._uses[key] += by
        self.shapes[key] = query.shape
        for _, scan in query.shape.plan.scans:
            readers = self._readers.setdefault(scan.stream, set())
            (readers.add if self._uses[key] > 0 else readers.discard)(key)
        if not self._uses[key]:
            del self._uses[key], self.shapes[key]

    def _place(self, found: Needed, after: Deployment, queries: Iterable[QueryId]) -> None:
        """Where rows of these queries' holistic operators go."""
        for query_id in queries:
            query = after.queries.get(query_id)
            if query is not None:
                found.setdefault(query.shape.key, set()).update(after.receivers(query))

    def _attach(self, found: Needed, after: Deployment, devices: Iterable[DeviceId]) -> None:
        """Where these devices are, or were last, somebody reads their rows."""
        for device in devices:
            region = after.stays.get(device)
            for stream in self._feeds.get(device, ()) if region is not None else ():
                for shape in self._readers.get(stream, ()):
                    found.setdefault(shape, set()).add(region)  # type: ignore[arg-type]
