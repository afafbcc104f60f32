"""A box of symmetric window joins, row by row: what a change of plan does to results, in a page of plain Python.

Each join keeps the combinations of both inputs and does purge, join, insert with every one that comes (Section 2.1 of
Zhu, Rundensteiner, Heineman). One window holds between all pairs of streams; rows of a stream come in the order of
their times, and streams come in any order against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from types import MappingProxyType

from godwit.replan import rules
from godwit.replan.ahead import InParts, came_since
from godwit.replan.join_tree import JoinTree
from godwit.replan.rules import Age, Span


@dataclass(frozen=True, order=True)
class BoxRow:
    alias: str
    time: int
    #: the values that must be equal, by the pair of aliases that they join ("ab")
    keys: tuple[tuple[str, int], ...]
    number: int


#: rows of different streams, by alias
Combination = tuple[BoxRow, ...]
#: whether two new combinations meet at the root
RootJoins = Callable[[Age, Age], bool]
Purgeable = Callable[[Span, Span, int], bool]
#: states by the aliases that they are of
States = Mapping[frozenset[str], list[Combination]]


def span(made: Combination) -> Span:
    return Span(min(row.time for row in made), max(row.time for row in made))


def agree(x: BoxRow, y: BoxRow, window: int) -> bool:
    """Whether two rows may be part of one result."""
    mine, pair = dict(x.keys), "".join(sorted((x.alias, y.alias)))
    return abs(x.time - y.time) <= window and (pair not in mine or mine[pair] == dict(y.keys)[pair])


def expected(rows: Iterable[BoxRow], aliases: Iterable[str], window: int) -> list[Combination]:
    """The oracle: every combination of one row per stream whose pairs all agree."""
    by_alias = [[row for row in rows if row.alias == alias] for alias in sorted(aliases)]
    return sorted(c for c in product(*by_alias) if all(agree(x, y, window) for x, y in combinations(c, 2)))


@dataclass
class JoinState:
    """One join of a box: what it keeps of its inputs."""

    tree: JoinTree
    sides: tuple[list[Combination], list[Combination]] = field(default_factory=lambda: ([], []))


class SimBox:
    """A tree of joins that takes rows one by one."""

    def __init__(self, tree: JoinTree, window: int, purgeable: Purgeable = rules.purgeable) -> None:
        self.tree, self.window, self._purgeable = tree, window, purgeable
        self.joins = {node.covers: JoinState(node) for node in tree.joins}
        #: rows since then are new; none: everything is old
        self.old: frozenset[BoxRow] | None = None
        self.root_joins: RootJoins = lambda left, right: True
        #: states let nothing go
        self.keeps_all = False
        #: pairs of combinations that were looked at, and combinations that were kept for another join
        self.probed = 0

    def push(self, row: BoxRow) -> list[Combination]:
        """The results that the row completes."""
        return self._into(self.tree, (row,))

    def _into(self, tree: JoinTree, made: Combination) -> list[Combination]:
        """Hand a combination of a sub-tree up to the join above it, and on to the root."""
        above = next((n for n in self.tree.joins if any(_covers(made) == c.covers for c in n.children)), None)
        if above is None:
            return [made]
        state = self.joins[above.covers]
        side = 0 if above.left.covers == _covers(made) else 1
        mine, theirs = state.sides[side], state.sides[1 - side]
        if not self.keeps_all:
            theirs[:] = [other for other in theirs if not self._purgeable(span(other), span(made), self.window)]
        found = [other for other in theirs if self._joins(above, made, other)]
        self.probed += len(theirs)
        mine.append(made)
        return [result for other in found for result in self._into(tree, tuple(sorted(made + other)))]

    def _joins(self, node: JoinTree, made: Combination, other: Combination) -> bool:
        if node == self.tree and not self.root_joins(self.age(made), self.age(other)):
            return False
        return all(agree(x, y, self.window) for x in made for y in other)

    def age(self, made: Combination) -> Age:
        return rules.combined(Age.OLD if self.old is None or row in self.old else Age.NEW for row in made)

    def ages(self) -> Iterator[Iterator[Age]]:
        """Of each state: whether its combinations are old or new."""
        return (map(self.age, side) for join in self.joins.values() for side in join.sides)

    @property
    def rows(self) -> frozenset[BoxRow]:
        """Every row that is part of any state."""
        return frozenset(row for join in self.joins.values() for side in join.sides for made in side for row in made)

    def states(self) -> dict[frozenset[str], list[Combination]]:
        """Aliases -> the combinations kept of them: what Section 4.1.1 matches by."""
        return {
            child.covers: join.sides[side]
            for join in self.joins.values()
            for side, child in enumerate(join.tree.children)
        }

    @property
    def intermediate(self) -> int:
        """How many combinations of more than one row are kept."""
        return sum(len(kept) for covers, kept in self.states().items() if len(covers) > 1)

    def take_over(self, states: States, ahead: States = MappingProxyType({})) -> None:
        """Matched states are shared; the others are computed from those below them, inputs first (Algorithm 1).
        `ahead`: all of them, as they were when they were made ahead."""
        for node in self.tree.joins:
            for side, child in enumerate(node.children):
                matched = states.get(child.covers)
                kept = self.joins[node.covers].sides[side]
                kept[:] = self._recomputed(child, ahead) if matched is None else matched

    def _recomputed(self, child: JoinTree, ahead: States) -> list[Combination]:
        if child.is_leaf:
            return []
        left, right = self.joins[child.covers].sides
        if child.covers not in ahead:
            return self._joined(left, right)
        mine, theirs = (ahead[below.covers] for below in child.children)
        parts = _in_parts(left, mine), _in_parts(right, theirs)
        return ahead[child.covers] + came_since(*parts, self._joined, list.__add__)

    def _joined(self, left: list[Combination], right: list[Combination]) -> list[Combination]:
        self.probed += len(left) * len(right)
        pairs = ((x, y) for x in left for y in right if all(agree(a, b, self.window) for a in x for b in y))
        return [tuple(sorted(x + y)) for x, y in pairs]


def _in_parts(kept: list[Combination], before: list[Combination]) -> InParts[list[Combination]]:
    known = set(before)
    return InParts([one for one in kept if one in known], [one for one in kept if one not in known])


class ProbeBox:
    """Joins that keep no combination: a row probes the other streams in an order that can change at any time."""

    def __init__(self, tree: JoinTree, window: int) -> None:
        self.tree, self.window = tree, window
        self._rows: dict[str, list[BoxRow]] = {alias: [] for alias in tree.aliases}
        self._newest: dict[str, int] = {}
        self.probed = 0
        #: combinations kept: none
        self.intermediate = 0

    def push(self, row: BoxRow) -> list[Combination]:
        self._newest[row.alias] = row.time
        self._purge()
        made: list[Combination] = [(row,)]
        for alias in self.order(row.alias):
            found = [(c, other) for c in made for other in self._rows[alias]]
            self.probed += len(found)
            made = [(*c, y) for c, y in found if all(agree(x, y, self.window) for x in c)]
        self._rows[row.alias].append(row)
        return [tuple(sorted(c)) for c in made]

    def order(self, alias: str) -> tuple[str, ...]:
        """The others in the order in which the tree would join them with this stream."""
        path = [node for node in self.tree.joins if alias in node.covers]
        return tuple(o for node in path for child in node.children if alias not in child.covers for o in child.aliases)

    def _purge(self) -> None:
        """A row goes when every other stream is past its window: until then one of them may complete a result."""
        for alias, rows in self._rows.items():
            others = [self._newest.get(o) for o in self._rows if o != alias]
            if None not in others:
                slowest = min(time for time in others if time is not None)
                rows[:] = [row for row in rows if slowest - row.time <= self.window]


def _covers(made: Combination) -> frozenset[str]:
    return frozenset(row.alias for row in made)
