"""An operator's state: a list of segments of mergeable rows. Appended to, pruned by time, compacted now and then.

Rows are never deleted one by one. They die by the clock, and a segment goes when all its rows are dead. What a segment
means may change without its files being written again, by edits (`edits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame, made, together
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.ids import QueryId
from godwit.model.plan import GENERATION, MEETING, QUERY
from godwit.model.signature import StateKey
from godwit.region.seen import by_mark, carried_on
from godwit.region.sql_text import text
from godwit.storage.base import SegmentStore
from godwit.storage.log import Segment
from godwit.storage.overlays import EDITS, by_query, edited, revised, simple, with_generations, without
from godwit.storage.place import Place

NUMBERED = StructType([StructField(MEETING, IntegerType())])
WITH_GENERATION = StructType([StructField(GENERATION, LongType())])
#: number of segments of similar size that are worth compacting
FAN_IN = 16
#: bytes of a state that travel in snapshot commits; more are put into a file
MOST_INLINE = 64_000


@dataclass(frozen=True)
class Room:
    """Rows that wait to be let in: of a parked query, of keys whose state is on its way, copies in a shadow, or of a
    session before whose device's last one is over (`turns.py`)."""

    kind: Literal["parked", "waiting", "copy", "held"]
    #: "": rows of a source, for all queries
    query: QueryId
    #: the input they wait at
    key: StateKey
    #: since when the instance is here; 0: parked rows wait for any; of copies: the number of the migration; of
    #: a session: its number
    epoch: int = 0
    #: which of several key sets that came with one epoch; of a session: the source
    part: str = ""

    def to_json(self) -> list[Any]:
        return [self.kind, self.query, str(self.key), self.epoch, *([self.part] if self.part else [])]

    @staticmethod
    def from_json(record: list[Any]) -> Room:
        kind, query, key, epoch, *part = record
        return Room(kind, query, StateKey.parse(key), epoch, *part)


@dataclass
class State:
    """The live segments of one input of one stateful operator."""

    live: list[Segment] = field(default_factory=list)

    def append(self, segment: Segment | None) -> None:
        if segment is not None:
            self.live.append(segment)

    def leave_out(self, query: str, older_than: int) -> None:
        """The query's rows of generations before `older_than` are no longer part of this state."""
        self.live = [without(s, query, older_than) for s in self.live]

    def drop_dead(self, clock: int) -> list[Segment]:
        """Forget segments that end at or before the clock; returns them, so that their files can go."""
        dead = [s for s in self.live if s.high is not None and s.high <= clock]
        self.live = [s for s in self.live if not (s.high is not None and s.high <= clock)]
        return dead

    def between(self, low: int, high: int) -> list[Segment]:
        """Segments that may hold rows within [low, high]."""
        return [s for s in self.live if s.low is None or s.high is None or (s.low <= high and s.high >= low)]

    def read(
        self, spark: SparkSession, chosen: Sequence[Segment] | None = None, sizes: SizePolicy = USUAL
    ) -> Frame | None:
        """The rows of the chosen segments (default: all) as one DataFrame, as their edits say."""
        chosen = self.live if chosen is None else chosen
        handed = State(list(chosen)).handed(spark, sizes=sizes)
        if handed is not None:
            return handed
        groups: dict[str, list[Segment]] = {}
        for segment in chosen:
            groups.setdefault(repr(segment.tags.get(EDITS, [])), []).append(segment)
        return union(_as_edited(spark, group, sizes) for group in groups.values())

    def handed(
        self,
        spark: SparkSession,
        pick: Callable[[pa.Table, Segment], pa.Table] = revised,
        sizes: SizePolicy = USUAL,
    ) -> LazyFrame | None:
        """Few rows, without a job of Spark's; None: they are many, or their edits need Spark."""
        return segments.hand(spark, self.live, pick, sizes=sizes) if all(map(simple, self.live)) else None

    def crowded(self) -> list[Segment]:
        """Segments of about one size, if there are enough of them to be worth rewriting as one; or all whose rows
        travel in records, if that has become too much. They have one mark."""
        return next((crowd for alike in by_mark(self.live) if (crowd := _crowd(alike))), [])

    def compact(
        self,
        spark: SparkSession,
        crowd: list[Segment],
        rewrite: Callable[[Frame], Segment | None],
        sizes: SizePolicy = USUAL,
    ) -> None:
        """Replace the crowd by what `rewrite` makes of its rows."""
        frame = self.read(spark, crowd, sizes)
        assert frame is not None
        self._replace(crowd, [rewrite(frame)])

    def gather(self, crowd: list[Segment], path: Place, prune_by: str | None, sizes: SizePolicy = USUAL) -> bool:
        """Replace a crowd of few rows by one segment a schema, without Spark; False: they are many, or not simple."""
        tables = segments.tables(crowd, revised, sizes=sizes) if all(map(simple, crowd)) else None
        if tables is None:
            return False
        spill = sum(segment.bytes for segment in crowd if segment.inline is not None) > MOST_INLINE
        written = []
        for number, (schema, table) in enumerate(tables):
            place = path.with_name(f"{path.name}-{number}")
            written.append(segments.write_table(table, place, segments.text_of(schema), prune_by, in_file=spill))
        self._replace(crowd, written)
        return True

    def _replace(self, crowd: Sequence[Segment], written: Iterable[Segment | None]) -> None:
        gone = set(map(id, crowd))
        self.live = [s for s in self.live if id(s) not in gone] + carried_on(crowd, written)

    @property
    def low(self) -> int | None:
        """No row is before it; None: not known."""
        lows = [s.low for s in self.live]
        return None if None in lows else min(lows, default=None)  # type: ignore[type-var]

    @property
    def high(self) -> int | None:
        highs = [s.high for s in self.live]
        return None if None in highs else max(highs, default=None)  # type: ignore[type-var]

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.live)

    @property
    def bytes(self) -> int:
        return sum(s.bytes for s in self.live)

    def to_json(self) -> list[dict[str, Any]]:
        return [s.to_json() for s in self.live]

    @staticmethod
    def from_json(records: Iterable[dict[str, Any]], store: SegmentStore) -> State:
        return State([Segment.from_json(r, store) for r in records])


def _crowd(found: Sequence[Segment]) -> list[Segment]:
    inside = [segment for segment in found if segment.inline is not None]
    if sum(segment.bytes for segment in inside) > MOST_INLINE:
        return inside
    tiers: dict[int, list[Segment]] = {}
    for segment in found:
        tiers.setdefault(max(segment.rows, 1).bit_length() // 3, []).append(segment)
    return next((tier for tier in tiers.values() if len(tier) >= FAN_IN), [])


def _as_edited(spark: SparkSession, group: Sequence[Segment], sizes: SizePolicy) -> Frame | None:
    """Large segments of the same edits: these become part of Spark's plan."""
    edits = group[0].tags.get(EDITS, [])
    selects = [values for _, *values in takewhile(lambda edit: edit[0] == "select", edits)]
    frame = segments.read(spark, group, sizes, selects)
    assert frame is not None
    for what, *values in edits[len(selects) :]:
        if what == "without":
            query, older_than = values
            frame = frame.where(f"{QUERY} != {text(query)} OR {GENERATION} >= {older_than}")
        elif what == "select":
            frame = frame.selectExpr(*values)
        elif what == "query":
            others = [f"`{name}`" for name in frame.columns if name != QUERY]
            frame = frame.selectExpr(f"{text(values[0])} AS {QUERY}", *others)
        else:
            frame = made(frame).withColumn(GENERATION, F.lit(values[0]).cast("bigint"))
    return frame


def meeting(spark: SparkSession, states: Sequence[State], sizes: SizePolicy = USUAL) -> Frame | None:
    """The rows of several states with the number of theirs; None: too many to be handed, or not without Spark."""
    numbered = [edited(segment, "meeting", k) for k, state in enumerate(states) for segment in state.live]
    return segments.hand(spark, numbered, revised, NUMBERED, sizes) if all(map(simple, numbered)) else None


def landed(sent: Sequence[tuple[Segment, Mapping[QueryId, int]]], path: Place, prune_by: str | None) -> list[Segment]:
    """A few rows that other regions sent, as segments of state. With each: since when its queries' rows are ours."""
    tables: dict[str, list[pa.Table]] = {}
    for segment, since in sent:
        mine = tables.setdefault(segment.schema, [])
        mine += [with_generations(part, since) for part in segments.tables_of(segment)]
    found = []
    for number, (schema, alike) in enumerate(tables.items()):
        whole = pa.concat_tables(alike, promote_options="permissive")
        place = path.with_name(f"{path.name}-{number}")
        found.append(segments.write_table(whole, place, segments.with_more(schema, WITH_GENERATION), prune_by))
    return [segment for segment in found if segment is not None]


def any_before(segment: Segment, time: str, clocks: Mapping[QueryId, int], sizes: SizePolicy = USUAL) -> bool:
    """Whether a row's time may lie before its query's clock. Looked up where the rows are few; else by their bounds."""
    first = max(clocks.values(), default=None)
    if first is None or segment.low is None or segment.low >= first:
        return False
    if not (segments.are_few([segment], sizes) and simple(segment)):
        return True
    for table in segments.tables_of(segment):
        if pc.any(pc.less(segments.micros(table[time]), by_query(table, clocks))).as_py():
            return True
    return False


def union(frames: Iterable[Frame | None]) -> Frame | None:
    """All rows of all frames; None if there is none."""
    there = [frame for frame in frames if frame is not None]
    return together(there) if there else None
