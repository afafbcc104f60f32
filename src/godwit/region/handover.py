"""State that comes and goes within a micro-batch: hand-overs of instances that moved.

What arrives is ours from then on, under paths of our own; what goes is staged for its new owner and left out of ours.
When each may happen is decided in `godwit.protocol.handover`, how it travels in `transfer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import segments
from godwit.model.plan import GENERATION, QUERY
from godwit.protocol.handover import Migration
from godwit.region.batch import Batch
from godwit.region.poll import Arrived
from godwit.region.routing_tables import text
from godwit.region.state import State
from godwit.storage.log import Segment
from godwit.storage.overlays import edited, revised, simple


def arrivals(batch: Batch, index: int) -> list[Arrived]:
    """State that came for an operator, as ours; its query's watermark goes at least as far as at the sender's."""
    there = [a for a in batch.work.arrived if a.move.operator == index]
    for arrived in there:
        batch.arrived(arrived)
    return [_taken_over(batch, arrived) for arrived in there]


def _taken_over(batch: Batch, arrived: Arrived) -> Arrived:
    """Under paths of our own, and with the generation of the new owner."""
    parts = {}
    for side, found in arrived.parts.items():
        what = f"arrived-{arrived.move.operator}-{side}"
        mine = (segments.linked(s, batch.folder, batch.name(what)) for s in found)
        parts[side] = [edited(s, "generation", int(arrived.move.epoch)) for s in mine]
    return replace(arrived, parts=parts)


def hand_over(batch: Batch, index: int) -> None:
    """Stage the state of instances that moved away, and leave it out of ours."""
    going = batch.ready(index)
    if not going:
        return
    specs = batch.shape.plan.operators[index].state
    given = [_given(batch, index, side, spec.time, going) for side, spec in enumerate(specs)]
    for move in going:
        parts = {side: found[move] for side, found in enumerate(given) if found.get(move)}
        batch.outputs.handovers.append(_parcel(batch, move, parts))
        batch.sent(move)


def _parcel(batch: Batch, move: Migration, parts: dict[int, list[Segment]]) -> dict[str, Any]:
    """What the new owner is told: the state, or the rows of which it can be made anew."""
    replay = batch.replays.get(move)
    if replay is not None:
        batch.outputs.dead += [segment for part in parts.values() for segment in part]
        parts = {}
    told = {str(side): [segment.to_json() for segment in part] for side, part in parts.items()}
    clock = batch.released(move.operator, move.query)
    return {"move": move.to_json(), "parts": told, "clock": clock, "replay": replay}


def _given(
    batch: Batch, index: int, side: int, time: str | None, going: Sequence[Migration]
) -> dict[Migration, list[Segment]]:
    """One side of the state that goes, by move. Where it is all there is, its files go as they are."""
    state = batch.state(index, side)
    what = f"handover-{index}-{side}"
    if [batch.tables.only] == [move.query for move in going]:
        (move,) = going
        back_again = batch.since(index, batch.epoch).get(move.query, 0) >= move.epoch
        if not back_again:
            given = [segments.linked(segment, batch.folder, batch.name(what)) for segment in state.live]
            batch.outputs.dead += state.live
            state.live = []
            return {move: given}
    whole = State(state.live)
    for move in going:
        state.leave_out(move.query, int(move.epoch))
    mine = {m: f"({QUERY} = {text(m.query)} AND {GENERATION} < {int(m.epoch)})" for m in going}
    if not batch.sizes.is_small(whole.rows):
        frame = whole.read(batch.spark, sizes=batch.sizes)
        assert frame is not None
        written = {move: batch.write(frame.where(those), what, time) for move, those in mine.items()}
        return {move: [segment] for move, segment in written.items() if segment is not None}
    found: dict[Migration, list[Segment]] = {}
    for schema, rows in _at_hand(batch, whole, " OR ".join(mine.values())):
        for move in going:
            leaves = pc.and_(pc.equal(rows[QUERY], move.query), pc.less(rows[GENERATION], int(move.epoch)))
            segment = segments.write_table(rows.filter(leaves), batch.folder / batch.name(what), schema, time)
            if segment is not None:
                found.setdefault(move, []).append(segment)
    return found


def _at_hand(batch: Batch, whole: State, wanted: str) -> list[tuple[str, pa.Table]]:
    """Rows of a small state as Arrow tables with their schemas: read here, or by one job for all that go. Ten queries
    that follow their trains at once must not wait for one another."""
    tables = segments.tables(whole.live, revised, sizes=batch.sizes) if all(map(simple, whole.live)) else None
    if tables is not None:
        return [(segments.text_of(schema), table) for schema, table in tables]
    frame = whole.read(batch.spark, sizes=batch.sizes)
    assert frame is not None
    frame = frame.where(wanted).coalesce(1)
    return [(segments.schema_of(frame), frame.toArrow())]
