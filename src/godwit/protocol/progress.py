"""Clocks of queries at the operators of one region: which marks count for whom.

Below the first stateful operator a query's clock is made of its sources' marks, heard at the scan. Above it, of what
the stateful operator has released: its own clock, published under the name "@12:query", where 12 is the epoch that the
query began with (by each of several owners under "@12:query#region"), because it may be held while the sources go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query, Scan, Shape
from godwit.model.routing import RouteTable
from godwit.model.taps import executor
from godwit.protocol.handover import Answered, Migration
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.watermarks import FOREVER, NEVER, Mark, WatermarkTracker, source_id

#: operator -> query -> how far the operator has released the query's watermark
Released = dict[int, dict[QueryId, int]]

#: (the scan or stateful operator that tells it, the source's name)
Heard = tuple[int, str]


def released(query: Query, region: RegionId, table: RouteTable | None) -> str:
    """The name under which a region's stateful operator publishes how far it has released a query's watermark.

    While one region owns the operator the name is the query's: whoever comes next goes on under it. Where its keys are
    divided, each owner has a name of its own, and the least of them counts. An owner that is given keys takes a new
    name: what it has released before was not said of these keys, whose windows may lie behind it. With the epoch that
    the query began with: a mark of one that has ended must not be taken for one of its successor's.
    """
    name = f"@{query.begins}:{query.id}"
    if table is None or len(table.owners()) == 1:
        return name
    turn = table.turn_of(region)
    return f"{name}#{region}" + (f"~{turn}" if turn else "")


def releasing(source: str) -> tuple[tuple[int, QueryId], ...]:
    """(since when, query) whose released watermark a source may be: by its name as a whole, or without the region."""
    if not source.startswith("@"):
        return ()
    since, _, name = source[1:].partition(":")
    return (int(since), QueryId(name)), (int(since), QueryId(name.rpartition("#")[0]))


class Progress:
    """Which marks make up the clock of each query at each operator, under one deployment."""

    def __init__(self, shape: Shape, deployment: Deployment, departing: Collection[Heard] = ()) -> None:
        """`departing`: sources that the deployment knows nothing of any more, and whose end was not heard of here."""
        self._plan, self._deployment, self._departing = shape.plan, deployment, frozenset(departing)
        self._queries = {query.id: query for query in deployment.of_shape(shape.key)}
        self._cache: dict[tuple[QueryId, int], tuple[Heard, ...]] = {}

    def clocks(self, book: WatermarkTracker, operator: int) -> dict[QueryId, int]:
        """How far each query's inputs of an operator have come; queries with the same sources are computed once."""
        known: dict[tuple[Heard, ...], int] = {}
        found = {}
        for query in self._queries:
            made_of = self.heard(query, operator)
            if made_of not in known:
                counting = list(made_of)
                if self._departing:
                    counting = [one for one in made_of if one not in self._departing or book.mark(*one) is not None]
                # Of a query whose first source is still to come, nothing can be said: its rows may be of any time.
                known[made_of] = _clock(book, counting) if counting else NEVER
            found[query] = known[made_of]
        return found

    def heard(self, query: QueryId, operator: int) -> tuple[Heard, ...]:
        """The marks that count for a query at an operator."""
        key = (query, operator)
        if key not in self._cache:
            self._cache[key] = tuple(sorted(set(self._walk(self._queries[query], operator))))
        return self._cache[key]

    def expected(self) -> Iterator[tuple[int, str, int]]:
        """(scan, source, session) of every source that a query here counts on: also of a device that has left, as long
        as somebody may not have read all that it sent."""
        for query in self._queries.values():
            for index, scan in ((i, scan) for i, scan in self._plan.scans if i in query.executed):
                for device in self._deployment.sources_of(query, index):
                    yield index, source_id(scan.stream, device), self._deployment.sessions.get(device, 1)

    def _walk(self, query: Query, operator: int) -> Iterator[Heard]:
        for child in query.inputs(operator):
            node = self._plan.operators[child]
            if node.stateful:
                table = self._deployment.routes(query, child)
                owners = (RegionId(""),) if table is None else table.owners()
                yield from ((child, released(query, region, table)) for region in owners)
            elif isinstance(node, Scan):
                devices = self._deployment.sources_of(query, child)
                yield from ((child, source_id(node.stream, device)) for device in devices)
                yield from (one for one in self._departing if one[0] == child)
            else:
                yield from self._walk(query, child)


def _clock(book: WatermarkTracker, made_of: list[Heard]) -> int:
    """`made_of`: in order."""
    return min((book.clock(those) for _, those in groupby(made_of, key=itemgetter(0))), default=FOREVER)


@dataclass(frozen=True)
class Watermarks:
    """All that decides how far a stateful operator of a region releases its queries' watermarks."""

    deployment: Deployment
    progress: Progress
    book: WatermarkTracker
    moves: MigrationLedger
    released: Released

    def release(self, operator: int, markers: Mapping[int, Epoch]) -> tuple[dict[QueryId, int], dict[QueryId, int]]:
        """(how far the operator had released each query's watermark, how far it does now).

        The operators above it here learn it at once, those in other regions from the commit.
        """
        clocks = self.progress.clocks(self.book, operator)
        before = {query: self.released.get(operator, {}).get(query, NEVER) for query in clocks}
        now: dict[QueryId, int] = {}
        queries = self.deployment.queries
        # Who taps the operator goes as far as who executes it, which may be held for longer: those come first.
        for query in sorted(clocks, key=lambda query: operator in queries[query].taps):
            executing = executor(queries[query], operator, queries).id
            leaves = queries[query].cut == operator  # its rows may wait here for a place where they leave
            held = (executing == query or leaves) and self._held(query, operator, markers)
            now[query] = before[query] if held else max(before[query], now.get(executing, clocks[query]))
            name = self.name(query, operator)
            if name is not None:
                self.book.hear(operator, name, Mark(1, now[query]))
        self.released[operator] = now
        return before, now

    def _held(self, query: QueryId, operator: int, markers: Mapping[int, Epoch]) -> bool:
        """Only its owner releases a watermark, and not while the query is suspended, state is on its way, or rows that
        an older epoch routed may still come."""
        if self.moves.region not in self.deployment.owners(self.deployment.queries[query], operator):
            return True
        return self.deployment.suspended(query) or self.moves.held(query, operator, markers)

    def name(self, query: QueryId, operator: int) -> str | None:
        """Under which name the operator here says how far it has released a query's watermark; None: it says nothing,
        because keys are on their way to it whose windows it may have passed."""
        known = self.deployment.queries[query]
        table = self.deployment.routes(known, operator)
        if table is not None and table.turn and self.moves.pending(query, operator):
            return None
        return released(known, self.moves.region, table)

    def receive(self, move: Migration, clock: int, answered: Answered = ()) -> None:
        """State has arrived: its query's watermark goes at least as far as the sender had released it. Where keys
        were ever divided it stays where it is: the other keys here have windows of their own to close."""
        known = self.deployment.queries.get(move.query)
        table = None if known is None else self.deployment.routes(known, move.operator)
        if not move.copy and (table is None or not table.turn):
            mine = self.released.setdefault(move.operator, {})
            mine[move.query] = max(mine.get(move.query, NEVER), clock)
        if not move.copy:
            self.moves.told(move, clock, answered)
        self.moves.arrived(move)
