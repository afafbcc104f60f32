"""From segments and towers to attachment changes, on Spark.

Measured on the way here: making 10^7 positions in the JVM and handing them to Python costs 5 s before any tower is
looked at, and a join of positions and towers by cell with Spark's own operators took 3.4 times as long as this
(10^6 of each; docs/results/mobility.md). So only segments travel. They are grouped by device and sorted in the JVM; a
worker reads the positions off them, finds the towers and follows each device, a whole batch at a time, and only
changes come back. Each worker builds the tree itself: 5 million towers are sent as 40 MB, their tree would be 185 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from godwit.errors import DataError
from godwit.mobility.attach import Changes, TowerIndex, changes
from godwit.mobility.geo import Ints
from godwit.mobility.grid import relevant
from godwit.mobility.legs import SEGMENT
from godwit.mobility.motion import Segments

_CHANGES = "device string, tick long, before long, after long"
_FIELDS = ("owner", "t0", "t1", "lat0", "lon0", "lat1", "lon1")


def attachment_changes(
    towers: DataFrame, tower_count: int, segments: DataFrame, *, step_ms: int, hysteresis_m: float
) -> DataFrame:
    """device, tick, before, after: packed places of the towers; null before an attach and after a detach."""
    found = relevant(towers, tower_count, segments).select("place").toArrow()
    places = TowerIndex.of(found["place"].to_numpy()).places
    if not len(places):
        msg = "no tower can serve any position: there are no segments or no towers left"
        raise DataError(msg)
    spark = segments.sparkSession
    shared = spark.sparkContext.broadcast(places)
    parts = 4 * spark.sparkContext.defaultParallelism
    sorted_ = segments.select(*SEGMENT).repartition(parts, "device").sortWithinPartitions("device", "t0")
    return sorted_.mapInArrow(_follow(shared, step_ms, hysteresis_m), _CHANGES)


def count_positions(segments: DataFrame, step_ms: int) -> int:
    """How many positions the ticks of the clock make of the segments."""
    first, last = (sf.ceil(sf.col(t) / step_ms) for t in ("t0", "t1"))
    return int(segments.agg(sf.coalesce(sf.sum(sf.greatest(last - first, sf.lit(0))), sf.lit(0))).collect()[0][0])


Batches = Iterable[pa.RecordBatch]


def _follow(
    shared: Broadcast[Ints], step_ms: int, hysteresis_m: float
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def follow(batches: Batches) -> Iterator[pa.RecordBatch]:
        names: list[str] = []
        moving = (_columns(batch, names) for batch in batches if batch.num_rows)
        index = _index(shared)
        for found, _positions in changes(index, moving, step_ms, hysteresis_m):
            yield _batch(found, names, index.places)

    return follow


_built: dict[int, TowerIndex] = {}


def _index(shared: Broadcast[Ints]) -> TowerIndex:
    """This worker's index; the next task of the same job finds it built."""
    key = hash((len(shared.value), shared.value[0], shared.value[-1], int(shared.value.sum())))
    if key not in _built:
        _built.clear()
        _built[key] = TowerIndex(shared.value)
    return _built[key]


def _columns(batch: pa.RecordBatch, names: list[str]) -> Segments:
    """A batch as segments; devices are numbered in the order they come, across batches."""
    runs = pc.run_end_encode(batch["device"])
    here = runs.values.to_pylist()
    carried = 1 if names and names[-1] == here[0] else 0
    first = len(names) - carried
    names.extend(here[carried:])
    ends = np.asarray(runs.run_ends.to_numpy(), dtype=np.int64)
    owner = first + np.repeat(np.arange(len(here)), np.diff(ends, prepend=0))
    t0, t1 = (batch[name].to_numpy() for name in ("t0", "t1"))
    return Segments(owner, t0, t1, *(batch[name].to_numpy() for name in _FIELDS[3:]))


def _batch(found: Changes, names: list[str], places: Ints) -> pa.RecordBatch:
    device = pa.array(names, pa.string()).take(pa.array(found.owner))
    before, after = (pa.array(places[np.maximum(tower, 0)], mask=tower < 0) for tower in (found.before, found.after))
    return pa.RecordBatch.from_arrays(
        [device, pa.array(found.tick), before, after], ["device", "tick", "before", "after"]
    )
