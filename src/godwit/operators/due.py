"""Rows that the watermark has passed since the last micro-batch: what an operator that waits for it can answer now."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import segments
from godwit.engine.held import within
from godwit.engine.lazy_frame import Frame, LazyFrame, made
from godwit.operators.base import OperatorContext, Watermarks
from godwit.protocol.watermarks import FOREVER, NEVER
from godwit.region.poll import Arrived
from godwit.region.state import State
from godwit.storage.log import Segment
from godwit.storage.overlays import by_query, revised


def behind(watermarks: Watermarks, lag_us: int) -> Watermarks:
    """Rows before these are complete, if their time lags so far: one at the watermark itself may still come."""
    return {q: c if abs(c) >= FOREVER else c - lag_us for q, c in watermarks.items()}


def moving(closed: Watermarks, closing: Watermarks) -> Watermarks:
    """Of the queries whose bound has gone on: how far."""
    return {query: bound for query, bound in closing.items() if bound > closed[query]}


def unanswered(context: OperatorContext, side: int, rows: Frame | None, wait_us: int) -> Frame | None:
    """Of rows of an input that are due, those that no earlier owner of their keys has answered."""
    left = None if rows is None else context.unanswered(side, rows, wait_us)
    return None if isinstance(left, LazyFrame) and not left.rows else left


def clocks_of(context: OperatorContext, arrivals: Sequence[Arrived]) -> tuple[Watermarks, Watermarks]:
    """(how far the senders of divided keys had come, how far the watermark here has gone without their rows)"""
    senders: Watermarks = {}
    for query, clock in ((one.move.query, one.clock) for one in arrivals if context.divided(one.move.query)):
        senders[query] = min(clock, senders.get(query, clock))
    released = context.released()
    return senders, {query: max(clock, released.get(query, NEVER)) for query, clock in senders.items()}


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
    at, low, high = f"unix_micros(`{time}`)", context.tables.of_all(closed), context.tables.of_all(closing)
    if low is not None and high is not None and not isinstance(frame, LazyFrame):
        return within(made(frame), at, low, high)
    frame = context.tables.per_query(frame, closed, "__closed", otherwise=FOREVER)
    frame = context.tables.per_query(frame, closing, "__closing", otherwise=NEVER)
    return frame.where(f"{at} >= __closed AND {at} < __closing").drop("__closed", "__closing")
