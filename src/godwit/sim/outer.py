"""Outer, semi and anti joins in plain Python, by the runtime's rules: who comes out when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from godwit.ids import QueryId
from godwit.model.joins import OuterJoin
from godwit.model.plan import CLASS, QUERY
from godwit.protocol.watermarks import NEVER
from godwit.sim.operators import Row, bound, pairs


@dataclass(frozen=True)
class SimMeeting:
    """Rows that meet now; `met`: rows of the right that those of the left have met before."""

    left: list[Row]
    right: list[Row]
    met: list[Row] = field(default_factory=list)


def met(node: OuterJoin, meetings: Iterable[SimMeeting]) -> list[Row]:
    """What comes out when rows meet."""
    if node.how == "anti":
        return []
    if node.how != "semi":
        return [row for one in meetings for row in pairs(node.inner, one.left, one.right)]
    return [
        _own(node, row, 0)
        for one in meetings
        for row in one.left
        if pairs(node.inner, [row], one.right) and not pairs(node.inner, [row], one.met)
    ]


def alone(
    node: OuterJoin,
    side: int,
    states: tuple[list[Row], list[Row]],
    before: Mapping[QueryId, int],
    now: Mapping[QueryId, int],
) -> list[Row]:
    """What comes out when the watermark has gone on: rows of a side whose partner can come no more, and has not."""
    wait, time = node.waits_us[side], str(node.state[side].time)
    found = []
    for row in states[side]:
        query = row[QUERY]
        if not bound(before.get(query, NEVER), wait) <= row[time] < bound(now.get(query, NEVER), wait):
            continue
        both = ([row], states[1]) if side == 0 else (states[0], [row])
        if not pairs(node.inner, *both):
            found.append(_own(node, row, side))
    return found


def _own(node: OuterJoin, row: Row, side: int) -> Row:
    mine, others = (node.left, node.right)[:: 1 if side == 0 else -1]
    told = {column.name: row[column.name] for column in mine}
    return {**dict.fromkeys(column.name for column in others), **told, QUERY: row[QUERY], CLASS: row[CLASS]}
