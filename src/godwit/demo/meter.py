"""What a fleet has done so far, read from its commit logs while it runs: latency of results, rows, state moved."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from godwit.ids import RegionId
from godwit.model.plan import QUERY
from godwit.region.pool import RunnerPool
from godwit.storage.log import Record, Segment

#: the last so many results make "now"
RECENT = 400


def quantiles(values: Sequence[float], *shares: float) -> list[float | None]:
    """Quantiles, or None for each where there are no values."""
    if not len(values):
        return [None] * len(shares)
    return [float(x) for x in np.quantile(np.asarray(values), shares)]


@dataclass
class LatencyMeter:
    """Latency is emission (the commit's wall time) minus the result's event time `at`, in milliseconds."""

    pool: RunnerPool
    #: wall seconds at which the trace begins: earlier results are the warm-up's
    since: float
    #: wall seconds at which hand-overs begin: results emitted before are calm
    calm_until: float
    latency: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    calm: list[float] = field(default_factory=list)
    moving: list[float] = field(default_factory=list)
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    state_bytes: int = 0
    batches: int = 0
    batch_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read_to: dict[tuple[RegionId, str], int] = {}

    @property
    def results(self) -> int:
        return sum(len(found) for found in self.latency.values())

    def look(self) -> None:
        """Read what was committed since the last look."""
        for key in list(self.pool.runners):
            for number, record in self.pool.commits(key, self._read_to.get(key, 0)):
                self._read_to[key] = number
                self._take(record)

    def _take(self, record: Record) -> None:
        metrics = record["metrics"]
        self.batches += 1
        self.batch_ms.append(metrics["took_ms"])
        self.state_bytes += metrics["handed_over"]
        for segment in (Segment.from_json(one, self.pool.store) for one in record["results"]):
            for table in segment.tables():
                self._results(table, metrics["wall"])

    def _results(self, table: pa.Table, wall: float) -> None:
        if "at" not in table.column_names:
            return
        at = table.column("at").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy() / 1000
        for query, t in zip(table.column(QUERY).to_pylist(), at, strict=True):
            if t < self.since * 1000:
                continue
            ms = wall * 1000 - t
            self.latency[query].append(float(ms))
            self.recent.append(float(ms))
            (self.calm if wall < self.calm_until else self.moving).append(float(ms))
