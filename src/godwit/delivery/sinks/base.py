"""What a sink is: it takes the results of one commit after the other, and says what a repeat would do."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from godwit.delivery.json_rows import json_rows
from godwit.ids import QueryId, RegionId
from godwit.model.plan import QUERY
from godwit.storage.by_query import rows_by_query
from godwit.storage.inline import InlineRows
from godwit.storage.log import Segment

#: a segment of more rows is not read as a whole
FEW_ROWS = 100_000
#: number of segments whose values are cached
MOST_VALUED = 16


@dataclass(frozen=True)
class ResultBatch:
    """The results of one query in one commit. The same number always holds the same rows."""

    region: RegionId
    number: int
    query: QueryId
    #: output columns, in the order of the SELECT list
    columns: Sequence[str]
    segments: Sequence[Segment]
    #: numbers count the commits of a shape in a region
    shape: str = ""
    #: of results that replace each other: the columns that say which row replaces which
    key: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The query as users call it, whichever version of it these results are of."""
        return self.query.partition("~")[0]

    @property
    def scope(self) -> str:
        """What the number counts within: of two batches of one scope, the one of the greater number came later."""
        return f"{self.query}.{self.region}.{self.shape[:16]}"

    def pieces(self, size: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The rows as JSON has them, `size` at a time and numbered from 0: a repeat has the same pieces."""
        rows = itertools.chain.from_iterable(map(json_rows, self.tables()))
        return enumerate(iter(lambda: list(itertools.islice(rows, size)), []))

    def tables(self) -> Iterator[pa.Table]:
        """The rows, a bounded number at a time."""
        for segment in self.segments:
            if segment.inline is not None or segment.rows <= FEW_ROWS:
                yield from self._few(segment)
            else:
                yield from self._many(segment)

    def rows(self, size: int) -> Iterator[list[dict[str, Any]]]:
        """The rows as values of Python's, `size` at a time."""
        for segment in self.segments:
            place = self._place(segment)
            if segment.inline is not None and place is not None and place.stop > place.start:
                columns = _values(segment.inline)
                for start in range(place.start, place.stop, size):
                    part = slice(start, min(start + size, place.stop))
                    mine = zip(*(columns[name][part] for name in self.columns), strict=True)
                    yield [dict(zip(self.columns, row, strict=True)) for row in mine]
                continue
            for table in self._few(segment) if segment.rows <= FEW_ROWS else self._many(segment):
                yield from (table.slice(start, size).to_pylist() for start in range(0, table.num_rows, size))

    def _place(self, segment: Segment) -> slice | None:
        """Where its rows lie among a segment's few, which are in order of their queries; None: that is not known."""
        rows = rows_by_query(segment)
        if rows is None or sum(rows.values()) != segment.rows:
            return None
        first = sum(count for _, count in itertools.takewhile(lambda entry: entry[0] != self.query, rows.items()))
        return slice(first, first + rows.get(self.query, 0))

    def _few(self, segment: Segment) -> Iterator[pa.Table]:
        """Of a segment that was committed a moment ago, the rows are still in memory."""
        place = self._place(segment)
        for table in segment.tables():
            if place is not None and table.num_rows == segment.rows:
                mine = table.slice(place.start, place.stop - place.start)
            else:
                mine = table.filter(pc.equal(table.column(QUERY), self.query))
            if mine.num_rows:
                yield mine.select(list(self.columns))

    def _many(self, segment: Segment) -> Iterator[pa.Table]:
        import pyarrow.dataset as ds  # (takes a second, for pandas comes with it)

        rows = ds.dataset(segment.paths, format="parquet").scanner(
            columns=list(self.columns), filter=ds.field(QUERY) == self.query
        )
        for batch in rows.to_batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


#: the newest few rows of many queries: each of their sinks wants some of them
_valued: OrderedDict[int, tuple[InlineRows, dict[str, list[Any]]]] = OrderedDict()


def _values(rows: InlineRows) -> dict[str, list[Any]]:
    """The columns as values of Python's; to make them of each query's part would take longer for each."""
    found = _valued.get(id(rows))
    if found is None:
        table = rows.table
        found = _valued[id(rows)] = rows, {name: table.column(name).to_pylist() for name in table.column_names}
        while len(_valued) > MOST_VALUED:
            with suppress(KeyError):
                _valued.popitem(last=False)
    return found[1]


class ResultSink(ABC):
    """Somewhere results go."""

    #: whether every row is there once, whatever crashes; otherwise the rows of the last commits may come again
    exactly_once: ClassVar[bool]
    #: what it makes of results that replace each other: it has the newest row per key; it has every change, as a row
    #: with `__version` and `__deleted`; or it takes none, and such a query is refused
    changes: ClassVar[Literal["newest", "every", "none"]] = "every"

    #: identifies the sink among those of its query, also after a restart
    name: str

    def open(self, state: dict[str, Any]) -> None:  # noqa: B027 - most sinks have nothing to do here
        """Begin, or go on from where `state` says: whatever was written after it never happened."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections; a later `write` makes them again."""

    @abstractmethod
    def write(self, batch: ResultBatch) -> None:
        """Take a commit's results. The position is kept only after this returns."""

    def state(self) -> dict[str, Any]:
        """What `open` must know again; kept with the position, in one atomic step. What it says must be durable."""
        return {}
