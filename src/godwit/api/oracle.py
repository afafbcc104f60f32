"""The oracle: the same SQL as a Spark batch over everything the sources ever sent. It decides what is right.

`verdict(fleet, query)` compares row for row, as multisets; floating-point columns may differ by rounding, because sums
are formed in another order. Of results that replace each other the newest row per key is compared (`fleet.results`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from godwit.api.core import FleetCore
from godwit.engine import arrival, segments
from godwit.engine.arrival import arrived
from godwit.engine.lazy_frame import made
from godwit.errors import StateError
from godwit.ids import QueryId, RegionId, StreamId
from godwit.model.plan import ARRIVED, Aggregate, Column, Query, Scan, arrival_view
from godwit.model.signature import StateKey
from godwit.protocol.handover import Migration
from godwit.region.runner import Runner
from godwit.region.state import union
from godwit.replan.matching import StateMatch, match
from godwit.sql.closed_windows import closed_by
from godwit.storage.log import Segment
from godwit.storage.names import source_log
from godwit.storage.records import SourceRecord

#: relative difference that another order of summation may make
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What the comparison found."""

    query: QueryId
    expected: int
    got: int
    #: a few rows that are missing, or that should not be there
    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.missing and not self.surplus and self.expected == self.got

    def __str__(self) -> str:
        if self.equal:
            return f"{self.query}: equal, {self.got} rows"
        lines = [f"{self.query}: DIFFERENT, expected {self.expected} rows, got {self.got}"]
        lines += [f"  missing: {row}" for row in self.missing] + [f"  surplus: {row}" for row in self.surplus]
        return "\n".join(lines)


def verdict(fleet: FleetCore, query_id: QueryId) -> Verdict:
    """Compare what a query has answered so far with what it should have."""
    query = fleet.execution(query_id)
    first = fleet.lineage(query)[0]
    before = fleet.before(first)
    want = expected(fleet, first) if before is None else _since_replaced(fleet, before, first)
    have = fleet.results_of(query)
    found = compare(query_id, want.toPandas(), have.toPandas())
    # Rows at hand lie in Java's heap for as long as their data frames, which are in cycles, and garbage is searched
    # seldom (`engine/collector.py`): ten verdicts over 600,000 rows filled 2 GB.
    del want, have
    gc.collect()
    return found


def _since_replaced(fleet: FleetCore, before: Query, query: Query) -> DataFrame:
    """What a changed text must have answered: where it has gone on with all state, all that it gives over the rows
    since the first text began, less what was due before the switch."""
    found = match(before, query, fleet.deployment.streams)
    if not found.matched and not found.recompute:
        return expected(fleet, query)  # it has begun again, with what came since
    due = None if found.empty or query.shape.plan.sink.key is not None else _due(fleet, before, query, found)
    if due is None:
        msg = f"'{query.id}' cannot be compared as a whole since its text was replaced: part of it began again, or "
        raise StateError(msg + "whether its results were due before is not known; compare a query of its own beside it")
    root = before
    while (earlier := fleet.before(root)) is not None and match(earlier, root, fleet.deployment.streams).complete:
        root = earlier
    whole, early = expected(fleet, query, since=root), expected(fleet, query, since=root, until=query, sql=due)
    return whole.exceptAll(early)


def _due(fleet: FleetCore, before: Query, query: Query, found: StateMatch) -> str | None:
    """SQL for what a text would have answered by the switch: all of it, or the windows that had closed; None: that
    is unknown."""
    closing = [i for i, operator in enumerate(query.shape.plan.operators) if operator.emits == "watermark"]
    if not closing:
        return query.oracle_sql
    node = query.shape.plan.operators[closing[0]]
    if len(closing) > 1 or not isinstance(node, Aggregate):
        return None
    key = StateKey(query.shape.signatures[closing[0]])
    old = next(m.old.signature for m in found.matched if m.new == key)
    clocks = _left(fleet, before, before.shape.signatures.index(old))
    return closed_by(query.oracle_sql, max(clocks) - node.lag_us) if clocks else None


def _left(fleet: FleetCore, query: Query, operator: int) -> list[int]:
    """How far an operator of a version had released the watermark when the version ended; also where the query that it
    tapped has executed it."""
    found: dict[QueryId, list[int]] = {}
    for region in sorted(fleet.pool.regions_of(query.shape.key)):
        for _, record in fleet.pool.commits((region, query.shape.key), 0):
            for parcel in record.get("left", ()):
                move = Migration.from_json(parcel["move"])
                if move.operator == operator:
                    found.setdefault(move.query, []).append(parcel["clock"])
    return next((found[one] for one in (query.id, *query.taps.values()) if one in found), [])


def expected(
    fleet: FleetCore, query: Query, since: Query | None = None, until: Query | None = None, sql: str = ""
) -> DataFrame:
    """The batch result over all rows that reached the query's streams since it, or an earlier version, began."""
    session = fleet.spark.newSession()
    fleet.functions.register(session)
    # (of a stream that is joined with itself, the scan that comes last)
    reads = {(scanned.query.id, scanned.view): scanned for scanned in scans(fleet, query)}
    for scanned in reads.values():
        rows = _everything(fleet, query, scanned, since, until)
        # A view belongs to the session it was made in, so the rows must be read there.
        session.createDataFrame(rows.toArrow(), rows.schema).createOrReplaceTempView(scanned.view)
    answer = session.sql(sql or query.oracle_sql)
    if sql or since is not None:  # two answers meet in one session
        answer = fleet.spark.createDataFrame(answer.toArrow(), answer.schema)
    for _, view in reads:
        session.catalog.dropTempView(view)  # or Java keeps the rows as long as the session
    return answer


@dataclass(frozen=True)
class Scanned:
    """A scan that a query's rows come from: its own, or that of what it reads of another."""

    query: Query
    index: int
    scan: Scan

    @property
    def stream(self) -> StreamId:
        return self.scan.stream

    @property
    def view(self) -> str:
        """What the oracle's text calls it."""
        return arrival_view(self.stream, self.scan.late) if self.scan.arrival else str(self.stream)

    def begun(self, runner: Runner) -> int:
        """The last entry of the source log from before it."""
        return runner.start_of(self.query.id).get(f"source:{self.index}:{self.stream}", 0)


def scans(fleet: FleetCore, query: Query) -> list[Scanned]:
    """The scans of everything but the streams of what it reads of others, its own and those there."""
    parts = [fleet.lineage(fleet.execution(part))[0] for part in query.parts]
    inside = {part.target for part in parts}
    found = [Scanned(q, i, scan) for q in (*parts, query) for i, scan in q.shape.plan.scans if i in q.executed]
    return [scanned for scanned in found if scanned.stream not in inside]


def _everything(
    fleet: FleetCore, query: Query, last: Scanned, since: Query | None = None, until: Query | None = None
) -> DataFrame:
    """`since`, `until`: from the beginning of a version to that of another; without them from the query's own."""
    stream, scan = last.stream, last.scan
    feeding = [fleet.lineage(q)[0] for q in fleet.deployment.queries.values() if q.target == stream]
    if feeding:  # (versions with other plans have fed it as one)
        whole = union(expected(fleet, first) for first in {first.id: first for first in feeding}.values())
        assert isinstance(whole, DataFrame)
        return whole
    found: list[Segment] = []
    begun = dict(_begun(fleet, last if since is None else _scan_of(fleet, since, stream)))
    ends = {} if until is None else dict(_begun(fleet, _scan_of(fleet, until, stream)))
    for region, start in begun.items():
        log = fleet.store.log(source_log(region, stream))
        for number, record in log.after(max(start, log.first - 1)):
            if number > ends.get(region, number):
                break
            entry = SourceRecord.from_json(record, fleet.store)
            rows = entry.segment
            if rows is not None and scan.arrival:
                rows = arrived(rows, entry.entered, entry.late if scan.late else None)
            found += [] if rows is None else [rows]
    known = fleet.schema(stream).stream
    if not found:
        return segments.empty(fleet.spark, [*known.columns, *[Column(ARRIVED, "timestamp")] * scan.arrival])
    frame = arrival.read(fleet.spark, found, known) if scan.arrival else segments.read(fleet.spark, found)
    assert frame is not None
    # Rows from before a column was added have none.
    lacking = (c for c in known.columns if c.name not in frame.columns)
    return made(frame).selectExpr("*", *(f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in lacking))


def _scan_of(fleet: FleetCore, query: Query, stream: StreamId) -> Scanned:
    return [s for s in scans(fleet, query) if s.query.id == query.id and s.stream == stream][-1]


def _begun(fleet: FleetCore, scanned: Scanned) -> Iterator[tuple[RegionId, int]]:
    """(region, the last entry of its source log from before the query), also of a version that has ended since."""
    reader, shape, name = scanned.query.id, scanned.query.shape.key, f"source:{scanned.index}:{scanned.stream}"
    running = {runner.region: runner for runner in fleet.runners_of(shape)}
    for region in sorted(fleet.pool.regions_of(shape)):
        if region in running:
            yield region, scanned.begun(running[region])
        else:
            ended = (record["ended"] for _, record in fleet.pool.commits((region, shape), 0))
            yield region, next((found[reader].get(name, 0) for found in ended if reader in found), 0)


def compare(query: QueryId, want: pd.DataFrame, have: pd.DataFrame) -> Verdict:
    """Multiset comparison with a tolerance for floating-point columns."""
    have = have[list(want.columns)] if len(have.columns) else have.reindex(columns=want.columns)
    floats = [c for c in want.columns if want[c].dtype.kind == "f" or have[c].dtype.kind == "f"]
    left, right = _sorted(want, floats), _sorted(have, floats)
    if len(left) == len(right) and _same(left, right, floats):
        return Verdict(query, len(want), len(have))
    exact = [c for c in want.columns if c not in floats]
    missing, surplus = _difference(left, right, exact or list(want.columns))
    if not missing and not surplus:
        differs = _first_difference(left, right, floats)
        missing, surplus = (differs[0],), (differs[1],)
    return Verdict(query, len(want), len(have), missing, surplus)


def _sorted(frame: pd.DataFrame, floats: list[str]) -> pd.DataFrame:
    plain = frame.copy()
    for column in plain.columns:
        if column in floats:
            plain[column] = plain[column].astype(float)
        elif plain[column].dtype == object:
            plain[column] = plain[column].map(str)
    # Floats last: rounding must not change the order of rows that differ in anything else.
    order = [c for c in plain.columns if c not in floats] + floats
    return plain.sort_values(order, ignore_index=True) if order else plain


def _same(left: pd.DataFrame, right: pd.DataFrame, floats: list[str]) -> bool:
    for column in left.columns:
        a, b = left[column], right[column]
        if column in floats:
            if not np.allclose(a, b, rtol=TOLERANCE, atol=1e-12, equal_nan=True):
                return False
        elif not ((a == b) | (a.isna() & b.isna())).all():
            return False
    return True


def _difference(left: pd.DataFrame, right: pd.DataFrame, by: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    a = left[by].astype(str).agg(" | ".join, axis=1).value_counts() if len(left) else pd.Series(dtype=int)
    b = right[by].astype(str).agg(" | ".join, axis=1).value_counts() if len(right) else pd.Series(dtype=int)
    delta = a.sub(b, fill_value=0)
    return tuple(delta[delta > 0].index[:5]), tuple(delta[delta < 0].index[:5])


def _first_difference(left: pd.DataFrame, right: pd.DataFrame, floats: list[str]) -> tuple[str, str]:
    for i in range(min(len(left), len(right))):
        if not _same(left.iloc[i : i + 1].reset_index(drop=True), right.iloc[i : i + 1].reset_index(drop=True), floats):
            return str(left.iloc[i].to_dict()), str(right.iloc[i].to_dict())
    return f"{len(left)} rows", f"{len(right)} rows"
