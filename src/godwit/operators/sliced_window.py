"""The window aggregate over slices: hopping windows of which a row is stored once, however many it is in.

Size and slide have a greatest common divisor; slices of that length lie in every window as a whole or not at all. State
has one partial a key and slice. A window that closes merges the partials of its slices: each becomes a partial of every
window that it is in and that closes now, which is mostly one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.model.plan import WINDOW_END, WINDOW_START, Aggregate
from godwit.operators.base import implements
from godwit.operators.window import CLOSED, CLOSING, WindowAggregate

_END = "__end"


@implements(Aggregate, when=lambda node: node.window.kind == "sliced")
class SlicedAggregate(WindowAggregate):
    """Keeps a slice's partial until the last window that it is in has closed."""

    def __init__(self, node: Aggregate) -> None:
        super().__init__(node)
        self.beyond_us = node.window.size_us

    def open_rows(self, frame: Frame, closed: int) -> Frame:
        """A slice that is in windows on both sides of the bound counts for the later ones only: as if it began there.
        (The windows of a slice are those that end one slice or more after its start, up to its end.)"""
        start = f"timestamp_micros(greatest(unix_micros({WINDOW_START}), {closed}L)) AS {WINDOW_START}"
        columns = [start if name == WINDOW_START else f"`{name}`" for name in frame.columns]
        return super().open_rows(frame, closed).selectExpr(*columns)

    def pick_closing(self, table: pa.Table, closed: pa.Array, closing: pa.Array) -> pa.Table:
        window = self.node.window
        start, last = (np.asarray(segments.micros(table[name])) for name in (WINDOW_START, WINDOW_END))
        first = self._first_end(start)
        # (The bounds are ends of windows, or as far away as can be: brought near, so that nothing overflows.)
        after = np.maximum(np.minimum(np.asarray(closed), last), first - window.slide_us)
        until = np.maximum(np.minimum(np.asarray(closing), last), first - window.slide_us)
        begin = np.maximum(first, after + window.slide_us)
        copies = np.maximum((until - begin) // window.slide_us + 1, 0)
        rows = np.repeat(np.arange(len(copies)), copies)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
        ends = begin[rows] + number * window.slide_us
        made = table.take(pa.array(rows))
        for name, values in ((WINDOW_START, ends - window.size_us), (WINDOW_END, ends)):
            place = made.column_names.index(name)
            made = made.set_column(place, made.field(place), pa.array(values).cast(made.field(place).type))
        return made

    def closing_rows(self, frame: Frame) -> Frame:
        window = self.node.window
        first = self._first_end_sql(f"unix_micros({WINDOW_START})")
        begin = f"greatest({first}, {CLOSED} + {window.slide_us}L)"
        until = f"least(unix_micros({WINDOW_END}), {CLOSING})"
        ends = f"CASE WHEN {begin} <= {until} THEN sequence({begin}, {until}, {window.slide_us}L) ELSE array() END"
        rest = [f"`{name}`" for name in frame.columns if name not in (WINDOW_START, WINDOW_END, CLOSED, CLOSING)]
        bounds = {WINDOW_START: f"{_END} - {window.size_us}L", WINDOW_END: _END}
        made = [f"timestamp_micros({sql}) AS {name}" for name, sql in bounds.items()]
        order = [f"`{name}`" for name in frame.columns if name not in (CLOSED, CLOSING)]
        return frame.selectExpr(*rest, f"explode({ends}) AS {_END}").selectExpr(*rest, *made).selectExpr(*order)

    def _first_end(self, start: np.ndarray) -> np.ndarray:
        """When the first window ends that a slice is in."""
        window = self.node.window
        first = window.size_us + window.offset_us
        beyond: np.ndarray = start + window.slice_us - first
        return -(-beyond // window.slide_us) * window.slide_us + first

    def _first_end_sql(self, start: str) -> str:
        window = self.node.window
        first = window.size_us + window.offset_us
        beyond = f"({start} + {window.slice_us - first}L)"
        return f"({beyond} + pmod(-{beyond}, {window.slide_us}L) + {first}L)"
