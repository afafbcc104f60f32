"""Rows of a device's session that waits for the one before (`protocol/session_order.py`): kept as they were read, and
put before those that the next micro-batch reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from godwit.engine import segments
from godwit.ids import QueryId
from godwit.model.plan import Shape
from godwit.model.signature import StateKey
from godwit.protocol.inputs import CONTROL
from godwit.protocol.session_order import Session
from godwit.region.batch import Memory
from godwit.region.poll import Work
from godwit.region.state import Room, State
from godwit.storage.place import Place
from godwit.storage.segment import Segment

#: tags: the epoch under which rows that wait were read; the queries that have begun since, whose rows they are not
HELD, TOO_OLD_FOR = "held", "too_old_for"


def take_turns(
    work: Work, memory: Memory, folder: Place, shape: Shape, begun: Mapping[QueryId, Mapping[str, int]]
) -> list[Segment]:
    """Keep what must wait, let in what has waited; returns what is not kept any more. `begun`: where queries began."""
    gone: list[Segment] = []
    for number, (session, rows) in enumerate(work.held.items()):
        kept = memory.rooms.setdefault(_room(shape, session), State())
        for part, segment in enumerate(rows):
            kept.append(_kept(segment, folder, f"held-{number}-{part}", int(memory.moves.epoch)))
            work.rows, work.bytes = work.rows - segment.rows, work.bytes - segment.bytes
    waited: dict[int, list[Segment]] = {}
    for session in work.let_in:
        live = memory.rooms.pop(_room(shape, session), State()).live
        gone += live
        waited.setdefault(session[0], []).extend(_for_its_time(segment, begun) for segment in live)
    for index, live in waited.items():
        work.sources[index] = [*live, *work.sources.get(index, [])]
        work.rows, work.bytes = work.rows + segments.rows_of(live), work.bytes + sum(one.bytes for one in live)
    return gone


def _room(shape: Shape, session: Session) -> Room:
    scan, source, number = session
    return Room("held", QueryId(""), StateKey(shape.signatures[scan], scan), number, source)


def _kept(segment: Segment, folder: Place, name: str, epoch: int) -> Segment:
    """As part of the commit: the source's log may let go of its own files."""
    if segment.inline is None:
        made = segments.linked(segment, folder, name)
    else:
        made = segments.write_table(segment.inline.table, folder / name, segment.schema) or segment
    return replace(made, tags={**segment.tags, HELD: epoch})


def _for_its_time(segment: Segment, begun: Mapping[QueryId, Mapping[str, int]]) -> Segment:
    later = sorted(query for query, start in begun.items() if start.get(CONTROL, 0) >= segment.tags[HELD])
    return replace(segment, tags={**segment.tags, TOO_OLD_FOR: later}) if later else segment
