"""Keys in Spark's words, and rows that are told apart by them: routed, copied into a shadow, or kept waiting.

A key is compared in its text form (`model.keys`), and its bucket is a checksum of it: Python and Spark agree on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.ids import Epoch, QueryId
from godwit.model.codec import encode
from godwit.model.keys import NULL_KEY, REST, KeySet, Listed, bucket_of, buckets_of
from godwit.model.plan import GENERATION, QUERY
from godwit.protocol.handover import Migration, stands_apart
from godwit.protocol.watermarks import NEVER
from godwit.region.batch import Batch
from godwit.region.key_join import numbered, parted
from godwit.region.key_rows import at_hand, of_query, plain_names
from godwit.region.key_rows import since as since_when
from godwit.region.sql_text import text
from godwit.region.state import Room, State, union
from godwit.storage.log import Segment

#: the tag under which a segment keeps the hash buckets of its keys
IN_BUCKETS = "buckets"
_COMPANY, _ANSWERED = "__company", "__answered"


def with_generation(batch: Batch, index: int, side: int, epoch: Epoch, frame: Frame) -> Frame:
    """Add the epoch since which each row's key is ours, as of the epoch under which it was routed."""
    rules = dict(batch.memory.moves.generations(index, epoch))
    if all(keys == REST for known in rules.values() for keys, _ in known):
        since = {query: int(known[0][1]) if known else 0 for query, known in rules.items()}
        return batch.tables.per_query(frame, since, GENERATION, otherwise=0)
    sql = batch.shape.plan.operators[index].state[side].keys
    if (few := at_hand(frame, sql)) is not None:
        return few.with_column(GENERATION, LongType(), lambda rows: since_when(rows, list(rules.items()), sql))
    cases = [(query, keys, int(since)) for query, known in rules.items() for keys, since in known]
    return numbered(frame, [(f"{QUERY} = {text(q)}", keys, since) for q, keys, since in cases], sql, GENERATION, "0L")


def in_company(batch: Batch, index: int, side: int, frame: Frame) -> Frame:
    """In place of its generation each row has what it shares with those that it meets (`MigrationLedger.company`)."""
    moves, sql = batch.memory.moves, batch.shape.plan.operators[index].state[side].keys
    if not any(operator == index for _, operator in moves.owners):
        return frame
    parting = moves.parting(index)
    if isinstance(frame, LazyFrame) and (few := at_hand(frame, sql) if parting else frame) is not None:
        company = _company(few.toArrow(), parting, sql)
        return few.drop(GENERATION).with_column(GENERATION, LongType(), lambda _: company)
    newest = [(m.query, m.goes_before, m.keys) for m in reversed(parting)]
    cases = [(f"{QUERY} = {text(q)} AND {GENERATION} >= {since}", keys, since) for q, since, keys in newest]
    others = [f"`{name}`" for name in frame.columns if name != GENERATION]
    return numbered(frame, cases, sql, _COMPANY, "0L").selectExpr(*others, f"{_COMPANY} AS {GENERATION}")


def _company(rows: pa.Table, parting: Sequence[Migration], sql: Sequence[str]) -> pa.Array:
    found = np.zeros(rows.num_rows, np.int64)
    for move in parting:
        newer = pc.greater_equal(rows[GENERATION], move.goes_before)
        found[np.asarray(pc.and_(newer, of_query(rows, move.query, move.keys, sql)))] = move.goes_before
    return pa.array(found)


def unanswered(batch: Batch, index: int, side: int, frame: Frame, wait_us: int) -> Frame:
    """Without the rows that earlier owners of their keys have answered (`MigrationLedger.answered`)."""
    spec, answered = batch.shape.plan.operators[index].state[side], batch.memory.moves.answered
    known = [
        (query, keys, clock - wait_us)
        for (query, operator), told in answered.items()
        for keys, clock in told
        if operator == index and clock > NEVER
    ]
    if not known:
        return frame
    if (few := at_hand(frame, spec.keys)) is not None:
        table = few.toArrow()
        at = segments.micros(table[str(spec.time)])
        told = (pc.and_(pc.less(at, until), of_query(table, query, keys, spec.keys)) for query, keys, until in known)
        done = reduce(pc.or_, told)
        return few.kept(lambda _: pc.invert(done))
    at = f"unix_micros(`{spec.time}`)"
    cases = [(f"{QUERY} = {text(query)} AND {at} < {until}", keys, 1) for query, keys, until in known]
    return numbered(frame, cases, spec.keys, _ANSWERED, "0L").where(f"{_ANSWERED} = 0").drop(_ANSWERED)


def tells_keys_apart(batch: Batch, index: int) -> bool:
    """Whether what is done with an operator's rows depends on their keys now."""
    moves = batch.memory.moves
    shadows = any(shadow.operator == index for shadow in moves.shadows.values())
    return shadows or any(o.keys != REST for (_, i), history in moves.owners.items() if i == index for o in history)


def without_copies(batch: Batch, index: int, side: int, epoch: Epoch, frame: Frame) -> Frame:
    """Rows that are copies go into the shadow they belong to: the emission filter. Returns the others."""
    sql = batch.shape.plan.operators[index].state[side].keys
    for shadow in batch.memory.moves.shadows.values():
        over = shadow.until is not None and epoch >= shadow.until
        if shadow.operator != index or not shadow.dual or shadow.since > epoch or over:
            continue
        mine, others = _told_apart(frame, shadow.query, shadow.keys, sql)
        if not shadow.dropped:
            copies = mine.selectExpr("*", f"0L AS {GENERATION}")
            room = Room("copy", shadow.query, batch.key(index, side), shadow.number)
            batch.keep(room, batch.write(copies, f"copy-{index}-{side}"))
        frame = others
    return frame


def _told_apart(frame: Frame, query: QueryId, keys: KeySet, sql: Sequence[str]) -> tuple[Frame, Frame]:
    """(rows of a query's keys, all others)"""
    if (few := at_hand(frame, sql)) is not None:
        table = few.toArrow()
        mine = of_query(table, query, keys, sql)
        return few.kept(lambda _: mine), few.kept(lambda _: pc.invert(mine))
    return parted(frame, f"{QUERY} = {text(query)}", keys, sql)


def admitted(batch: Batch, index: int, side: int, frame: Frame | None) -> Frame | None:
    """Rows of keys that must wait for their state wait as well: in logs of their own, until it has come."""
    here = {arrived.move for arrived in batch.work.arrived}
    operator = batch.shape.plan.operators[index]
    inside = [frame]
    # The newest first: that is the one a row belongs to.
    coming = sorted((move for move in batch.incoming(index) if not move.copy), reverse=True)
    for number, move in enumerate(coming):
        room = waiting_room(batch, move, side)
        if move in here:
            inside += [] if stands_apart(move, operator) else [batch.leave(room, index)]
        elif inside[0] is not None and (batch.waits(move) or any(map(batch.waits, coming[number + 1 :]))):
            mine, inside[0] = _divided(inside[0], move, operator.state[side].keys)
            if not batch.waits(move):
                inside.append(mine)
                continue
            waiting = batch.write(mine, f"waiting-{index}-{side}")
            batch.keep(room, waiting)
            if move.paced and waiting is not None:
                batch.outputs.asked.append(move)
    return union(inside)


def waiting_room(batch: Batch, move: Migration, side: int) -> Room:
    """Where rows wait for the state of a move."""
    return Room("waiting", move.query, batch.key(move.operator, side), int(move.epoch), part_of(move))


def _divided(frame: Frame, move: Migration, sql: Sequence[str]) -> tuple[Frame, Frame]:
    """(rows of the keys that a move brings, all others)"""
    if isinstance(frame, LazyFrame) and move.keys == REST:

        def mine(rows: pa.Table) -> pa.Array:
            return pc.and_(pc.equal(rows[QUERY], move.query), pc.greater_equal(rows[GENERATION], int(move.epoch)))

        return frame.kept(mine), frame.kept(lambda rows: pc.invert(mine(rows)))
    if (few := at_hand(frame, sql)) is not None:
        table = few.toArrow()
        newer = pc.greater_equal(table[GENERATION], int(move.epoch))
        brought = pc.and_(newer, of_query(table, move.query, move.keys, sql))
        return few.kept(lambda _: brought), few.kept(lambda _: pc.invert(brought))
    return parted(frame, f"{QUERY} = {text(move.query)} AND {GENERATION} >= {int(move.epoch)}", move.keys, sql)


def part_of(move: Migration) -> str:
    """Tells the moves of one instance in one epoch apart."""
    if isinstance(move.keys, Listed):
        return move.keys.digest
    return "" if move.keys == REST else f"{crc32(repr(encode(move.keys)).encode()):08x}"


def drop_cancelled(batch: Batch) -> None:
    """Copies that nobody will ask for any more go."""
    known = {(q, number) for (q, _, number), shadow in batch.memory.moves.shadows.items() if not shadow.dropped}
    for room in [room for room in batch.memory.rooms if room.kind == "copy" and (room.query, room.epoch) not in known]:
        batch.outputs.dead += batch.memory.rooms.pop(room, State()).live


def tagged(batch: Batch, index: int, side: int, segment: Segment | None) -> Segment | None:
    """With the buckets its keys lie in, where keys are divided and its rows are few: a hand-over then reads only the
    segments that may hold a key that goes."""
    if segment is None or not tells_keys_apart(batch, index) or not segments.are_few([segment], batch.sizes):
        return segment
    names = plain_names(batch.shape.plan.operators[index].state[side].keys)
    if names is None:
        return segment
    found: set[int] = set()
    for table in segment.tables(names):
        if any(name not in table.column_names or not _has_text(table.schema.field(name).type) for name in names):
            return segment
        keys = table.select(names).group_by(names).aggregate([]).to_pylist()
        found |= {bucket_of(tuple(NULL_KEY if row[n] is None else str(row[n]) for n in names)) for row in keys}
    return replace(segment, tags={**segment.tags, IN_BUCKETS: sorted(found)})


def concerns(segment: Segment, moves: Sequence[Migration]) -> bool:
    """Whether a segment may hold rows of keys that go."""
    buckets = segment.tags.get(IN_BUCKETS)
    return buckets is None or any(not buckets_of(move.keys).isdisjoint(buckets) for move in moves)


def _has_text(kind: pa.DataType) -> bool:
    """Whether Python and Spark write its values alike."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))
