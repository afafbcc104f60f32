"""Results of a device come out in order, also while the sink of their query changes its region
(`protocol/session_order.py`): rows that reach the new region wait for the last result of the old one, and rows that
were on their way to the old one leave there. Where rows come on several ways, those leave first that were routed first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType

from godwit.engine import in_order
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.ids import Epoch
from godwit.model.plan import QUERY
from godwit.protocol.handover import Migration
from godwit.protocol.session_order import ROUTED, in_turn, keeps_order
from godwit.region.batch import Batch
from godwit.region.keyed import waiting_room
from godwit.region.sql_text import text
from godwit.region.state import State, union


def tells_epochs_apart(batch: Batch) -> bool:
    """Whether rows from other regions must be known by the epoch that they were routed by: they come on several ways,
    or to a region that the sink has left or just come to."""
    plan, channels = batch.shape.plan, batch.work.channels
    sink = len(plan.operators) - 1
    older = any(e < batch.epoch for (operator, _), sent in channels.items() if operator != sink for _, e in sent)
    if not older or not keeps_order(plan):
        return False
    apart = (query for query in batch.tables.queries.values() if not query.scattered)
    here = (batch.region in batch.tables.deployment.owners(query, sink) for query in apart)
    return len({operator for operator, _ in channels}) > 1 or bool(batch.incoming(sink)) or not all(here)


def marked(frame: Frame | None, routed_by: Epoch | None) -> Frame | None:
    """With the epoch that rows from another region were routed by; None: they were read here."""
    if frame is None or ROUTED in frame.columns:
        return frame
    if isinstance(frame, LazyFrame):  # (as a text it would make a plan for each epoch)
        return frame.with_column(
            ROUTED, LongType(), lambda rows: pa.repeat(pa.scalar(routed_by, pa.int64()), len(rows))
        )
    return frame.selectExpr("*", f"CAST({'NULL' if routed_by is None else int(routed_by)} AS bigint) AS {ROUTED}")


def apart(frame: Frame) -> tuple[Frame, Frame]:
    """(rows that have crossed regions, and stay; the others)"""
    return frame.where(f"{ROUTED} IS NOT NULL"), frame.where(f"{ROUTED} IS NULL").drop(ROUTED)


def leaving(batch: Batch, index: int, frames: Iterable[tuple[Epoch, Frame | None]]) -> Frame | None:
    """Of rows that reach a sink, with the epoch that they were routed by, those that leave now. Others wait."""
    found = [_let_out(batch, index, move) for move in batch.work.let_out]
    for epoch, rows in in_turn(_by_epoch(batch, frames)):
        frame: Frame | None = rows
        # The newest first: that is the one a row belongs to.
        for move in sorted((move for move in batch.incoming(index) if move.epoch <= epoch), reverse=True):
            assert frame is not None
            mine = f"{QUERY} = {text(move.query)}"
            batch.keep(waiting_room(batch, move, 0), batch.write(frame.where(mine), f"waiting-{index}"))
            frame = frame.where(f"NOT ({mine})")
        found.append(frame)
    return union(found)


def _by_epoch(batch: Batch, frames: Iterable[tuple[Epoch, Frame | None]]) -> Iterator[tuple[Epoch, Frame]]:
    older = sorted({e for sent in batch.work.channels.values() for _, e in sent if e < batch.epoch})
    for epoch, frame in frames:
        if frame is None:
            continue
        if ROUTED not in frame.columns:
            yield epoch, frame
            continue
        for one in older:
            yield one, _routed_by(frame, one)
        yield epoch, frame.where(f"{ROUTED} IS NULL").drop(ROUTED)


def _routed_by(frame: Frame, epoch: Epoch) -> Frame:
    if isinstance(frame, LazyFrame):
        return frame.kept(lambda rows: pc.equal(rows[ROUTED], int(epoch))).drop(ROUTED)
    return frame.where(f"{ROUTED} = {int(epoch)}").drop(ROUTED)


def _let_out(batch: Batch, index: int, move: Migration) -> Frame | None:
    waited = batch.memory.rooms.pop(waiting_room(batch, move, 0), State())
    batch.let_in[index] = batch.let_in.get(index, 0) + waited.rows
    batch.outputs.dead += waited.live
    return in_order.read(batch.spark, waited.live, batch.sizes)
