"""Probing joins: a box of joins as one operator without intermediate state, and the orders in which it may probe.

A new row of a stream begins with itself and probes the other streams one by one, in the order of the query's row, as
far as conditions connect them: a stream that nothing joins with what is there yet waits until something does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from godwit.model.plan import Join, Operator, Plan, Query, Shape
from godwit.model.probes import ProbedStream, ProbeJoin
from godwit.replan.box import JoinBox, Streams
from godwit.replan.conditions import BoxLeaf, JoinConditions
from godwit.replan.fault import fault
from godwit.replan.join_tree import parse


def probing(query: Query, streams: Streams) -> Query:
    """The query with its box of joins as one probing join; it probes in the order in which the joins are written."""
    box = JoinBox.of(query.shape.plan, streams)
    plan, conditions = box.plan, box.conditions
    leaves = sorted(conditions.leaves, key=lambda leaf: leaf.root)
    inside = set(plan.below(box.root)) - {i for leaf in leaves for i in plan.below(leaf.root)}
    written: list[Operator] = []
    moved: dict[int, int] = {}
    for index, operator in enumerate(plan.operators):
        if index in inside and index != box.root:
            continue
        if index == box.root:
            operator = ProbeJoin(
                tuple(moved[leaf.root] for leaf in leaves),
                tuple(_stream(leaf, conditions) for leaf in leaves),
                tuple(_said(plan.operators[i]) for i in box.joins),
                conditions.types,
            )
        else:
            operator = operator.reading(tuple(moved[child] for child in operator.inputs))
        moved[index] = len(written)
        written.append(operator)
    wanted = {moved[i]: values for i, values in query.subscriptions.items()}
    shape = Shape(Plan(tuple(written)), query.shape.parameters)
    return replace(query, shape=shape, subscriptions=wanted, taps={}, probes=box.tree.aliases)


def probes(plan: Plan) -> ProbeJoin | None:
    """The probing join of a plan."""
    return next((operator for operator in plan.operators if isinstance(operator, ProbeJoin)), None)


def order_of(node: ProbeJoin, text: str) -> tuple[str, ...]:
    """The order that a text says, from left to right; ConfigError where it names other streams."""
    spelled = {stream.alias.lower(): stream.alias for stream in node.streams}
    aliases = parse(text, spelled.values()).aliases
    return tuple(spelled[alias.lower()] for alias in aliases)


def explained(query: Query, node: ProbeJoin, text: str) -> str:
    """What a dry run prints."""
    order = order_of(node, text)
    if order == query.probes:
        return f"'{query.id}' probes in this order: {', '.join(order)}; nothing would change"
    lines = [f"now:       {', '.join(query.probes)}", f"then:      {', '.join(order)}"]
    return "\n".join([*lines, "moved:     nothing; one epoch", "possible:  stateless-order"])


@lru_cache(maxsize=512)
def chain(node: ProbeJoin, start: int, order: tuple[str, ...]) -> tuple[tuple[int, Join], ...]:
    """What a new row of one input does: (input that it probes next, the join with all that is there by then)."""
    conditions, names = _conditions(node), [stream.alias for stream in node.streams]
    there, left = frozenset((names[start],)), [alias for alias in order if alias != names[start]]
    found = []
    while left:
        following = next((alias for alias in left if conditions.joinable(there, frozenset((alias,)))), None)
        if following is None:
            msg = f"nothing joins {', '.join(sorted(there))} with {', '.join(left)}"
            raise fault(msg, remedy="submit the query without probing joins")
        found.append((names.index(following), _join(conditions, there, following)))
        there |= {following}
        left.remove(following)
    return tuple(found)


def within_us(node: ProbeJoin, start: int, other: int) -> tuple[int, int] | None:
    """How far from a row of one input, in time, rows of another can lie that are part of a result with it."""
    return _conditions(node).bands.band(node.streams[start].time, node.streams[other].time)


def checked(node: ProbeJoin, orders: Iterable[Sequence[str]]) -> None:
    for order in orders:
        for start in range(len(node.streams)):
            chain(node, start, tuple(order))


@lru_cache(maxsize=64)
def _conditions(node: ProbeJoin) -> JoinConditions:
    leaves = (BoxLeaf(s.alias, number, s.time, s.lag_us, frozenset(s.columns)) for number, s in enumerate(node.streams))
    return JoinConditions.read(node.joins, tuple(leaves), dict(node.types))


def _join(conditions: JoinConditions, there: frozenset[str], following: str) -> Join:
    alone = frozenset((following,))
    band = conditions.band_between(there, alone)
    assert band is not None
    rest = " AND ".join(conditions.residuals_at(there, alone)) or None
    return Join((0, 1), conditions.keys_between(there, alone), *band, rest)


def _stream(leaf: BoxLeaf, conditions: JoinConditions) -> ProbedStream:
    stays = conditions.need_us(leaf.time, set(conditions.leaf) - {leaf.alias})
    return ProbedStream(leaf.alias, tuple(sorted(leaf.columns)), leaf.time, leaf.lag_us, stays)


def _said(operator: Operator) -> Join:
    assert isinstance(operator, Join)
    return replace(operator, inputs=(0, 1), left_lag_us=0, right_lag_us=0, keep_us=(0, 0))
