"""Clocks of queries at the operators of one region: which marks count for whom.

Below the first stateful operator a query's clock is made of its sources' marks, heard at the scan. Above it, of what
the stateful operator has let go: its own clock, told under the name "@query", because it may be held while the sources
go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.ids import QueryId
from godwit.model.deployment import Deployment
from godwit.model.plan import STATEFUL, Query, Scan, Shape
from godwit.protocol.watermarks import WatermarkTracker, source_id

#: (the scan or stateful operator that tells it, the source's name)
Heard = tuple[int, str]


def released(query: QueryId) -> str:
    """The name under which a stateful operator tells how far it has let a query's clock go."""
    return f"@{query}"


class Progress:
    """Which marks make up the clock of each query at each operator, under one deployment."""

    def __init__(self, shape: Shape, deployment: Deployment) -> None:
        self._plan, self._deployment = shape.plan, deployment
        self._queries = {query.id: query for query in deployment.of_shape(shape.key)}
        self._cache: dict[tuple[QueryId, int], tuple[Heard, ...]] = {}

    def clocks(self, book: WatermarkTracker, operator: int) -> dict[QueryId, int]:
        """How far each query's inputs of an operator have come; queries with the same sources are computed once."""
        known: dict[tuple[Heard, ...], int] = {}
        found = {}
        for query in self._queries:
            made_of = self.heard(query, operator)
            if made_of not in known:
                known[made_of] = _clock(book, made_of)
            found[query] = known[made_of]
        return found

    def heard(self, query: QueryId, operator: int) -> tuple[Heard, ...]:
        """The marks that count for a query at an operator."""
        key = (query, operator)
        if key not in self._cache:
            self._cache[key] = tuple(sorted(set(self._walk(self._queries[query], operator))))
        return self._cache[key]

    def expected(self) -> Iterator[tuple[int, str, int]]:
        """(scan, source, session) of every source that a query here counts on."""
        for query in self._queries.values():
            for index, scan in self._plan.scans:
                for device in self._deployment.sources_of(query, index):
                    yield index, source_id(scan.stream, device), self._deployment.sessions.get(device, 1)

    def _walk(self, query: Query, operator: int) -> Iterator[Heard]:
        for child in self._plan.operators[operator].inputs:
            node = self._plan.operators[child]
            if isinstance(node, STATEFUL):
                yield child, released(query.id)
            elif isinstance(node, Scan):
                devices = self._deployment.sources_of(query, child)
                yield from ((child, source_id(node.stream, device)) for device in devices)
            else:
                yield from self._walk(query, child)


def _clock(book: WatermarkTracker, made_of: tuple[Heard, ...]) -> int:
    by_place: dict[int, list[str]] = {}
    for place, source in made_of:
        by_place.setdefault(place, []).append(source)
    return min((book.clock(place, sources) for place, sources in by_place.items()), default=book.clock(0, ()))
