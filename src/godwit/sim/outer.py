"""Outer, semi, anti and as-of joins in plain Python, by the runtime's rules: who comes out when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from godwit.ids import QueryId
from godwit.model.joins import AsofJoin, OuterJoin
from godwit.model.plan import CLASS, QUERY, Operator
from godwit.protocol.watermarks import NEVER
from godwit.sim.operators import Row, bound, pairs


class SimMeeting(NamedTuple):
    """Rows that meet now; `met`: rows of the right that those of the left have met before."""

    left: Sequence[Row]
    right: Sequence[Row]
    met: Sequence[Row] = ()


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


def due_rows(
    node: Operator, side: int, rows: Iterable[Row], before: Mapping[QueryId, int], now: Mapping[QueryId, int]
) -> list[Row]:
    """Rows of a side whose partner can come no more, since the watermark has gone on."""
    assert isinstance(node, OuterJoin | AsofJoin)
    wait, time = node.waits_us[side], str(node.state[side].time)

    def due(row: Row) -> bool:
        query = row[QUERY]
        first, last = bound(before.get(query, NEVER), wait), bound(now.get(query, NEVER), wait)
        return first <= int(row[time]) < last

    return [row for row in rows if due(row)]


def alone(node: OuterJoin, side: int, due: Iterable[Row], others: list[Row]) -> list[Row]:
    """What comes out of rows that are due: those that have no partner."""
    both = (lambda row: ([row], others)) if side == 0 else (lambda row: (others, [row]))
    return [_own(node, row, side) for row in due if not pairs(node.inner, *both(row))]


def newest_before(node: AsofJoin, due: Iterable[Row], right: Iterable[Row]) -> list[Row]:
    """Rows of the left that are due, each with the newest of the right that is not newer."""
    right, made = list(right), []
    for row in due:
        older = [b for b in right if _same_key(node, row, b) and b[node.right_time] <= row[node.left_time]]
        newest = max(older, key=lambda b: _order(node, b)) if older else dict.fromkeys(c.name for c in node.right)
        made.append({**newest, **row})
    return made


def superseded(node: AsofJoin, row: Row, right: Iterable[Row], clock: int) -> bool:
    """Whether a row of the right is nobody's partner any more: the watermark has passed a newer one of its key."""
    keys = [theirs for _, theirs in node.keys]
    same = (b for b in right if b[QUERY] == row[QUERY] and all(b[k] == row[k] for k in keys))
    return any(_order(node, row) < _order(node, b) and b[node.right_time] < clock for b in same)


def _same_key(node: AsofJoin, left: Row, right: Row) -> bool:
    return bool(left[QUERY] == right[QUERY] and all(left[a] == right[b] for a, b in node.keys))


def _order(node: AsofJoin, row: Row) -> tuple[int, ...]:
    return tuple(row[name] for name in (node.right_time, *node.ties))


def _own(node: OuterJoin, row: Row, side: int) -> Row:
    mine, others = (node.left, node.right)[:: 1 if side == 0 else -1]
    own = {column.name: row[column.name] for column in mine}
    return {**dict.fromkeys(column.name for column in others), **own, QUERY: row[QUERY], CLASS: row[CLASS]}
