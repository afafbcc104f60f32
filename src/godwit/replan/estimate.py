"""From what is counted while a query runs to the load that orders are costed by.

A running plan shows the rates of its leaves and of its own joins only. A join whose sides are linked by one pair of
streams gives that pair's selectivity; by several, each gets an equal part of it; a pair that no join of the running
order shows keeps what was known of it, or takes the default. Counts are smoothed, so that one odd second is not a load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from godwit.model.plan import Join
from godwit.replan.box import JoinBox
from godwit.replan.join_tree import JoinTree
from godwit.replan.load import BoxLoad

Pair = tuple[str, str]
#: of pairs that nothing was ever counted of: neither rare nor often, and the same for all, so that they decide nothing
UNKNOWN = 1e-3


@dataclass(frozen=True)
class JoinCount:
    """What one join did in an interval."""

    tree: JoinTree
    #: rows that came in on each side and that came out
    left: int
    right: int
    made: int
    #: the width of its band
    width_s: float


def links(box: JoinBox) -> frozenset[Pair]:
    """The pairs of streams that an equality, a band or a further condition speaks of."""
    said = [k.left_aliases | k.right_aliases for k in box.conditions.keys]
    said += [r.aliases for r in box.conditions.residuals]
    return frozenset((a, b) for found in said for a in found for b in found if a < b)


def estimate(
    before: BoxLoad | None,
    leaves: Mapping[str, int],
    joins: Iterable[JoinCount],
    linked: Iterable[Pair],
    seconds: float,
    weight: float = 0.5,
    batch_s: float = 0.0,
) -> BoxLoad:
    """The load after an interval. `leaves`: rows per alias; `weight`: of what was counted, against what was known;
    `batch_s`: how long its micro-batches took."""
    known = before or BoxLoad({}, {})
    rates = {alias: _mixed(known.rates.get(alias), count / seconds, weight) for alias, count in leaves.items()}
    sigma = {pair: known.sigma.get(pair, UNKNOWN) for pair in linked}
    for join in joins:
        crossing = [pair for pair in sigma if _crosses(pair, join.tree)]
        candidates = join.left / seconds * join.right * join.width_s
        if not crossing or candidates <= 0:
            continue
        # Nothing made is no proof of never: as much as one row would say.
        share = max(join.made, 1) / candidates
        for pair in crossing:
            sigma[pair] = _mixed(known.sigma.get(pair), min(1.0, share) ** (1 / len(crossing)), weight)
    return BoxLoad(rates, sigma, _mixed(known.batch_s or None, batch_s, weight))


def _mixed(known: float | None, counted: float, weight: float) -> float:
    return counted if known is None else weight * counted + (1 - weight) * known


def _crosses(pair: Pair, tree: JoinTree) -> bool:
    left, right = tree.left.covers, tree.right.covers
    return (pair[0] in left and pair[1] in right) or (pair[1] in left and pair[0] in right)


def counted(
    box: JoinBox, taken: Mapping[tuple[int, int], int], made: int | None
) -> tuple[dict[str, int], tuple[JoinCount, ...]]:
    """Rows per leaf, and what each join did, from what stateful operators have taken in. `made`: by the topmost join,
    if that is known; without it nothing is said of that one."""
    leaves: dict[str, int] = {}
    joins: list[JoinCount] = []
    for index, tree in zip(box.joins, box.tree.joins, strict=True):
        node = box.plan.operators[index]
        assert isinstance(node, Join)
        left, right = (taken.get((index, side), 0) for side in (0, 1))
        for child, rows in zip(tree.children, (left, right), strict=True):
            if child.is_leaf:
                leaves[child.alias] = rows
        reader = box.plan.consumer(index)
        out = made if index == box.root else taken.get(reader, 0)
        if out is not None:
            joins.append(JoinCount(tree, left, right, out, (node.upper_us - node.lower_us) / 1e6))
    return leaves, tuple(joins)
