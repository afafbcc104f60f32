"""Rows that the watermark has passed since the last micro-batch: what an operator that waits for it can answer now."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.operators.base import OperatorContext, Watermarks
from godwit.protocol.watermarks import FOREVER, NEVER
from godwit.region.state import State
from godwit.storage.log import Segment
from godwit.storage.overlays import by_query, revised


def behind(watermarks: Watermarks, lag_us: int) -> Watermarks:
    """Rows before these are complete, if their time lags so far: one at the watermark itself may still come."""
    return {q: c if abs(c) >= FOREVER else c - lag_us for q, c in watermarks.items()}


def moving(closed: Watermarks, closing: Watermarks) -> Watermarks:
    """Of the queries whose bound has gone on: how far."""
    return {query: bound for query, bound in closing.items() if bound > closed[query]}


def due_rows(
    context: OperatorContext, state: State, time: str, closed: Watermarks, closing: Watermarks
) -> Frame | None:
    """Rows from `closed` up to `closing`. Few are picked here: the bounds would make a new plan every time."""
    going = moving(closed, closing)
    if not going:
        return None
    chosen = State(state.between(min(closed[q] for q in going), max(going.values()) - 1))

    def pick(table: pa.Table, segment: Segment) -> pa.Table:
        table = revised(table, segment)
        at = segments.micros(table[time])
        after = pc.greater_equal(at, pc.fill_null(by_query(table, closed), FOREVER))
        return table.filter(pc.and_(after, pc.less(at, pc.fill_null(by_query(table, closing), NEVER))))

    if not chosen.live:
        return None
    if (few := chosen.handed(context.spark, pick, context.sizes)) is not None:
        return few if few.rows else None
    frame = chosen.read(context.spark, sizes=context.sizes)
    assert frame is not None
    frame = context.tables.per_query(frame, closed, "__closed", otherwise=FOREVER)
    frame = context.tables.per_query(frame, closing, "__closing", otherwise=NEVER)
    at = f"unix_micros(`{time}`)"
    return frame.where(f"{at} >= __closed AND {at} < __closing").drop("__closed", "__closing")
