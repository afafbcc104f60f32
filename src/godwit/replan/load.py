"""What flows through a tree of joins: rates, states and candidate pairs of every join (Equations 1, 2 and 7).

rate(A JOIN B)  = rate(A) rate(B) sigma(A, B) width        width = upper - lower of the band; 2W for a window W
state(A)        = rate(A) held                             held: how long its rows stay; W for a window W
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from godwit.model.plan import Join, Query
from godwit.replan.box import JoinBox, Streams, reordered
from godwit.replan.join_tree import JoinTree


@dataclass(frozen=True)
class JoinSpans:
    """Of one join: how wide its band is, and how long rows of each side stay (seconds)."""

    width_s: float
    left_s: float
    right_s: float


#: the spans of a join in a tree
Geometry = Callable[[JoinTree], JoinSpans]


@dataclass(frozen=True)
class BoxLoad:
    """What was measured, or is assumed, of a box's streams."""

    #: alias -> rows per second
    rates: Mapping[str, float]
    #: two aliases, sorted -> the share of their pairs within the band that belong together; absent: all of them
    sigma: Mapping[tuple[str, str], float]
    #: how long a micro-batch of the running plan takes (seconds)
    batch_s: float = 0.0

    def selectivity(self, left: frozenset[str], right: frozenset[str]) -> float:
        """Of the join of two sets of streams: what holds between any two of them, one from each side."""
        found = 1.0
        for (x, y), share in self.sigma.items():
            if (x in left and y in right) or (y in left and x in right):
                found *= share
        return found


@dataclass(frozen=True)
class JoinLoad:
    """One join of a tree under a load."""

    tree: JoinTree
    #: rows per second on the left and on the right, and out of it
    left_rate: float
    right_rate: float
    rate: float
    #: rows kept of each side
    left_rows: float
    right_rows: float
    sigma: float
    #: of the pairs of kept rows, the share that lies within the band
    near: float

    @property
    def candidates(self) -> float:
        """Pairs that a nested loop looks at per second."""
        return self.left_rate * self.right_rows + self.right_rate * self.left_rows


def window(seconds: float) -> Geometry:
    """The paper's: one window between all pairs."""
    return lambda node: JoinSpans(2 * seconds, seconds, seconds)


def spans_of(query: Query, streams: Streams) -> Geometry:
    """Those of the joins that the query would have under each tree."""
    found: dict[JoinTree, JoinSpans] = {}

    def spans(node: JoinTree, whole: JoinTree) -> None:
        box = JoinBox.of(reordered(query, whole, streams).shape.plan, streams)
        for index, tree in zip(box.joins, box.tree.joins, strict=True):
            join = box.plan.operators[index]
            assert isinstance(join, Join)
            left, right = join.lasts_us
            found[tree] = JoinSpans((join.upper_us - join.lower_us) / 1e6, left / 1e6, right / 1e6)

    def geometry(node: JoinTree) -> JoinSpans:
        if node not in found:
            spans(node, _completed(node, JoinBox.of(query.shape.plan, streams)))
        return found[node] if node in found else _turned(found[JoinTree.join(node.right, node.left)])

    return geometry


def loads(tree: JoinTree, load: BoxLoad, geometry: Geometry) -> tuple[JoinLoad, ...]:
    """Every join of the tree, inputs before outputs."""
    rates: dict[JoinTree, float] = {}
    return tuple(_loads(tree, load, geometry, rates))


def _loads(tree: JoinTree, load: BoxLoad, geometry: Geometry, rates: dict[JoinTree, float]) -> Iterator[JoinLoad]:
    if tree.is_leaf:
        rates[tree] = load.rates[tree.alias]
        return
    for child in tree.children:
        yield from _loads(child, load, geometry, rates)
    spans, left, right = geometry(tree), rates[tree.left], rates[tree.right]
    sigma = load.selectivity(tree.left.covers, tree.right.covers)
    rates[tree] = left * right * sigma * spans.width_s
    kept = left * spans.left_s, right * spans.right_s
    yield JoinLoad(tree, left, right, rates[tree], *kept, sigma, _near(spans))


def _near(spans: JoinSpans, steps: int = 32) -> float:
    """Of the pairs (x, y) with 0 <= x <= left and 0 <= y <= right, the share with |x - y| <= half the band's width."""
    half = spans.width_s / 2
    if not spans.left_s or not spans.right_s:
        return 1.0
    cuts = ((k + 0.5) / steps * spans.left_s for k in range(steps))
    lengths = (max(0.0, min(spans.right_s, x + half) - max(0.0, x - half)) for x in cuts)
    return sum(lengths) / steps / spans.right_s


def _completed(node: JoinTree, box: JoinBox) -> JoinTree:
    """An order of the whole box that has this sub-tree in it."""
    tree, rest = node, [alias for alias in box.tree.aliases if alias not in node.covers]
    while rest:
        alias = next(a for a in rest if box.conditions.joinable(tree.covers, frozenset((a,))))
        rest.remove(alias)
        tree = JoinTree.join(tree, JoinTree.leaf(alias))
    return tree


def _turned(spans: JoinSpans) -> JoinSpans:
    return JoinSpans(spans.width_s, spans.right_s, spans.left_s)
