"""State that comes and goes within a micro-batch: hand-overs of instances that moved.

What arrives is ours from then on, under paths of our own; what goes is staged for its new owner and left out of ours.
When each may happen is decided in `godwit.protocol.handover`, how it travels in `transfer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.model.keys import REST
from godwit.model.plan import GENERATION, QUERY
from godwit.protocol.handover import Migration, answered_to_json, stands_apart
from godwit.region.batch import Batch
from godwit.region.key_join import numbered
from godwit.region.key_rows import at_hand, of_query
from godwit.region.keyed import concerns, tagged, waiting_room
from godwit.region.poll import Arrived
from godwit.region.seen import by_mark, carried_on
from godwit.region.sql_text import text
from godwit.region.state import Room, State
from godwit.storage.log import Segment
from godwit.storage.overlays import edited, revised, simple

#: which of the moves a row goes with
GOES = "__goes"


def arrivals(batch: Batch, index: int) -> list[Arrived]:
    """State that came for an operator, as ours; its query's watermark goes at least as far as at the sender's."""
    found = []
    for arrived in [a for a in batch.work.arrived if a.move.operator == index]:
        move, known = arrived.move, arrived.move in batch.memory.moves.incoming
        batch.arrived(arrived)
        if move.copy:
            _into_shadow(batch, arrived, known)
        elif known or not move.shadow:
            found.append(_taken_over(batch, _with_what_waited(batch, arrived)))
    return found


def _into_shadow(batch: Batch, arrived: Arrived, known: bool) -> None:
    """A copy waits beside the rows that have come since; one that was cancelled meanwhile goes."""
    move, specs = arrived.move, batch.shape.plan.operators[arrived.move.operator].state
    for side, spec in enumerate(specs) if known else ():
        room = Room("copy", move.query, batch.key(move.operator, side), move.number)
        if (spec.replaced and side in arrived.parts) or not (move.dual or move.shadow):  # it has everything
            batch.outputs.dead += batch.memory.rooms.pop(room, State()).live
        for segment in arrived.parts.get(side, []):
            batch.keep(room, segments.linked(segment, batch.folder, batch.name(f"copied-{move.operator}-{side}")))


def _with_what_waited(batch: Batch, arrived: Arrived) -> Arrived:
    """What the source sent in the end, what has been here since a copy was opened, and rows that waited for it."""
    move, parts, waited = arrived.move, dict(arrived.parts), dict[int, list[Segment]]()
    operator = batch.shape.plan.operators[move.operator]
    for side, spec in enumerate(operator.state):
        copied = State()
        if move.shadow:
            room = Room("copy", move.query, batch.key(move.operator, side), move.number)
            copied = batch.memory.rooms.pop(room, State())
        if stands_apart(move, operator):
            waited[side] = batch.memory.rooms.pop(waiting_room(batch, move, side), State()).live
        batch.outputs.dead += [*copied.live, *waited.get(side, ())]
        if copied.live and not (spec.replaced and not move.dual):
            parts[side] = [*parts.get(side, []), *copied.live]
    return replace(arrived, parts=parts, waited={side: rows for side, rows in waited.items() if rows})


def _taken_over(batch: Batch, arrived: Arrived) -> Arrived:
    """Under paths of our own, and with the generation of the new owner."""

    def ours(side: int, found: Sequence[Segment]) -> list[Segment]:
        what = f"arrived-{arrived.move.operator}-{side}"
        mine = (segments.linked(s, batch.folder, batch.name(what)) for s in found)
        return [edited(s, "generation", int(arrived.move.epoch)) for s in mine]

    parts, waited = ({n: ours(n, rows) for n, rows in those.items()} for those in (arrived.parts, arrived.waited))
    return replace(arrived, parts=parts, waited=waited)


def hand_over(batch: Batch, index: int) -> None:
    """Stage the state of instances that moved away, and leave it out of ours."""
    going = batch.ready(index)
    if not going:
        return
    specs = batch.shape.plan.operators[index].state
    keyed = any(move.keys != REST or move.copy for move in going)
    give = _given_by_key if keyed else _given
    given = [give(batch, index, side, spec.time, going) for side, spec in enumerate(specs)]
    for move in going:
        parts = {side: found[move] for side, found in enumerate(given) if found.get(move)}
        (batch.outputs.left if move.leaves else batch.outputs.handovers).append(_parcel(batch, move, parts))
        batch.sent(move)


def _parcel(batch: Batch, move: Migration, parts: dict[int, list[Segment]]) -> dict[str, Any]:
    """What the new owner is told: the state, or the rows of which it can be made again."""
    replay = batch.replays.get(move)
    if replay is not None:
        batch.outputs.dead += [segment for part in parts.values() for segment in part]
        parts = {}
    told = {str(side): [segment.to_json() for segment in part] for side, part in parts.items()}
    clock = batch.released(move.operator, move.query)
    sessions = [[*source, session] for source, session in batch.memory.book.sessions().items()]
    answered = answered_to_json(batch.memory.moves.told_of(move))
    return {
        "move": move.to_json(),
        "parts": told,
        "clock": clock,
        "replay": replay,
        "sessions": sessions,
        "answered": answered,
    }


def _given(
    batch: Batch, index: int, side: int, time: str | None, going: Sequence[Migration]
) -> dict[Migration, list[Segment]]:
    """One side of the state that goes, by move. Where it is all there is, its files go as they are."""
    state = batch.state(index, side)
    what = f"handover-{index}-{side}"
    if [batch.tables.only] == [move.query for move in going]:
        (move,) = going
        back_again = batch.since(index, batch.epoch).get(move.query, 0) >= move.goes_before
        if not back_again:
            given = [segments.linked(segment, batch.folder, batch.name(what)) for segment in state.live]
            batch.outputs.dead += state.live
            state.live = []
            return {move: given}
    found: dict[Migration, list[Segment]] = {}
    for alike in by_mark(state.live):
        for move, written in _parted(batch, State(alike), time, going, what).items():
            found.setdefault(move, []).extend(carried_on(alike, written))
    for move in going:
        state.leave_out(move.query, move.goes_before)
    return found


def _parted(
    batch: Batch, whole: State, time: str | None, going: Sequence[Migration], what: str
) -> dict[Migration, list[Segment]]:
    """The rows of each move, written for its new owner."""
    mine = {m: f"({QUERY} = {text(m.query)} AND {GENERATION} < {m.goes_before})" for m in going}
    if not batch.sizes.is_small(whole.rows):
        frame = whole.read(batch.spark, sizes=batch.sizes)
        assert frame is not None
        written = {move: batch.write(frame.where(those), what, time) for move, those in mine.items()}
        return {move: [segment] for move, segment in written.items() if segment is not None}
    found: dict[Migration, list[Segment]] = {}
    for schema, rows in _at_hand(batch, whole, " OR ".join(mine.values())):
        for move in going:
            leaves = pc.and_(pc.equal(rows[QUERY], move.query), pc.less(rows[GENERATION], move.goes_before))
            segment = segments.write_table(rows.filter(leaves), batch.folder / batch.name(what), schema, time)
            if segment is not None:
                found.setdefault(move, []).append(segment)
    return found


def _given_by_key(
    batch: Batch, index: int, side: int, time: str | None, going: Sequence[Migration]
) -> dict[Migration, list[Segment]]:
    """The same where keys are told apart: the rows that go are written for their new owner, those that stay again."""
    state = batch.state(index, side)
    others = [segment for segment in state.live if not concerns(segment, going)]
    read = State([segment for segment in state.live if concerns(segment, going)])
    frame = read.read(batch.spark, sizes=batch.sizes)
    if frame is None:
        return {}
    sql = batch.shape.plan.operators[index].state[side].keys
    # Keys of moves that go together do not overlap: a row goes with one of them, or stays.
    if (at_once := at_hand(frame, sql)) is not None:
        marked: Frame = at_once.with_column(GOES, IntegerType(), lambda rows: _goes(rows, going, sql))
    else:
        marked = _marked(frame, going, sql)
    few, what = batch.sizes.is_small(read.rows), f"handover-{index}-{side}"
    pieces = _pieces(batch, marked.coalesce(1) if few else marked, few, len(going), what, time)
    found: dict[Migration, list[Segment]] = {}
    for number, move in enumerate(going):
        piece = pieces[number]
        if piece is not None and move.dual and not move.copy:
            batch.outputs.dead.append(piece)  # its new owner has all of it, from the copy and since
        elif piece is not None:
            whole = not move.since or batch.shape.plan.operators[index].state[side].replaced
            found[move] = [piece] if whole else _newer(batch, piece, move, what)
    leaving = [number for number, move in enumerate(going) if not move.copy and pieces[number] is not None]
    if leaving:
        batch.outputs.dead += read.live
        copied = [_again(batch, pieces[n], what) for n, move in enumerate(going) if move.copy]
        stays = [*others, tagged(batch, index, side, pieces[-1]), *copied]
        state.live = [piece for piece in stays if piece is not None]
    elif pieces[-1] is not None:
        batch.outputs.dead.append(pieces[-1])  # only copies go: everything is where it was
    return found


def _marked(frame: Frame, going: Sequence[Migration], sql: Sequence[str]) -> Frame:
    """With the number of the move that each row goes with; -1: it stays."""
    older = [f"{QUERY} = {text(m.query)} AND {GENERATION} < {int(m.epoch)}" for m in going]
    cases = [(holds, move.keys, number) for number, (holds, move) in enumerate(zip(older, going, strict=True))]
    return numbered(frame, cases, sql, GOES, "-1")


def _goes(rows: pa.Table, going: Sequence[Migration], sql: Sequence[str]) -> pa.Array:
    """The same of few rows, without a plan."""
    numbers = np.full(rows.num_rows, -1, np.int32)
    for number, move in enumerate(going):
        older = pc.less(rows[GENERATION], int(move.epoch))
        numbers[np.asarray(pc.and_(older, of_query(rows, move.query, move.keys, sql)))] = number
    return pa.array(numbers)


def _pieces(
    batch: Batch, marked: Frame, few: bool, moves: int, what: str, time: str | None
) -> dict[int, Segment | None]:
    """The rows of each move, and those that stay (-1)."""
    if not few:
        frames = {n: marked.where(f"{GOES} = {n}").drop(GOES) for n in range(-1, moves)}
        return {n: batch.write(frame, what, time, small=False) for n, frame in frames.items()}
    kept = marked.drop(GOES)
    schema, table = segments.schema_of(kept), marked.toArrow()
    numbers = table[GOES]
    found = {}
    for n in range(-1, moves):
        rows = table.filter(pc.equal(numbers, n)).drop_columns([GOES])
        found[n] = segments.write_table(rows, batch.folder / batch.name(what), schema, time)
    return found


def _newer(batch: Batch, piece: Segment, move: Migration, what: str) -> list[Segment]:
    """Of the rows that go, those that no copy before has taken."""
    frame = State([piece]).read(batch.spark, sizes=batch.sizes)
    assert frame is not None
    batch.outputs.dead.append(piece)
    kept = batch.write(frame.where(f"{GENERATION} >= {int(move.since)}"), what, small=True)
    return [] if kept is None else [kept]


def _again(batch: Batch, segment: Segment | None, what: str) -> Segment | None:
    """Rows of which a copy goes, while they stay: each under a path of its own."""
    return None if segment is None else segments.linked(segment, batch.folder, batch.name(what))


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
