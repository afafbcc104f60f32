"""The box of joins in a plan: found, described as a tree, and rebuilt under another tree.

    Sink                       the box is the topmost join with all joins directly below it; what is above it (an
     │                         aggregate, a projection, the sink) and its leaves (scans with their filters, sub-queries)
    Join ◄── root              stay as they are when the order changes
     ├── Join
     │    ├── leaf a
     │    └── leaf b
     └── leaf c

Rebuilding reads the conditions of the old joins (`conditions.py`) and derives keys, band, lags and further conditions
of each join of the new tree from them. A join that the old plan has as well (same order below it) is kept word for
word, so that its state is found again under its signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from godwit.ids import StreamId
from godwit.model.joins import OuterJoin
from godwit.model.plan import Filter, Join, Operator, Plan, Project, Query, Scan, Shape, Stream, Union
from godwit.replan.conditions import BoxLeaf, JoinConditions
from godwit.replan.fault import fault
from godwit.replan.join_tree import JoinTree, parse, trees

Streams = Mapping[StreamId, Stream]
#: how many plans' boxes are kept
BOXES = 256


@dataclass(frozen=True)
class JoinBox:
    plan: Plan
    #: the operator number of the topmost join
    root: int
    tree: JoinTree
    conditions: JoinConditions

    @staticmethod
    def of(plan: Plan, streams: Streams) -> JoinBox:
        """The box of a plan; ConfigError where it has none that could be ordered in another way."""
        return _read(plan, tuple(sorted(_types(plan, streams).items())))

    @property
    def joins(self) -> tuple[int, ...]:
        """The operator numbers of its joins, inputs before outputs."""
        return _joins(self.plan, self.root)

    @cached_property
    def covers(self) -> dict[int, frozenset[str]]:
        """Join -> the aliases below it."""
        return {index: tree.covers for index, tree in zip(self.joins, self.tree.joins, strict=True)}

    @property
    def span_us(self) -> int:
        """How far apart in time two rows of one result can lie at most, and how far their times lag behind the
        clock."""
        leaves, bands = self.conditions.leaves, self.conditions.bands
        limits = [bands.limit(x.time, y.time) for x in leaves for y in leaves if x != y]
        apart = [limit for limit in limits if limit is not None]
        if len(apart) < len(limits):  # (as far as the joins, one after the other, allow)
            joins = (self.plan.operators[i] for i in self.joins)
            apart = [sum(max(abs(join.lower_us), abs(join.upper_us)) for join in joins if isinstance(join, Join))]
        return max(apart) + max(leaf.lag_us for leaf in leaves)

    def orders(self) -> Iterator[JoinTree]:
        """Every order of the box in which each join has a key and a band."""
        return trees(self.tree.aliases, self.conditions.joinable)

    def order(self, text: str) -> JoinTree:
        """The tree that a text says, checked: every leaf once, no join without a key and a band."""
        return self.checked(parse(text, self.tree.aliases))

    def checked(self, tree: JoinTree) -> JoinTree:
        """The tree with aliases as the plan spells them; ConfigError if the box cannot be joined like that."""
        spelled = {name.lower(): name for name in self.tree.aliases}
        if sorted(a.lower() for a in tree.aliases) != sorted(spelled):
            named = ", ".join(sorted(spelled.values()))
            msg = f"'{tree}' is no order of the query's streams"
            raise fault(msg, remedy=f"name each of {named} once")
        tree = _spelled(tree, spelled)
        for node in tree.joins:
            left, right = node.left.covers, node.right.covers
            if not self.conditions.joinable(left, right):
                lacking = "time band" if self.conditions.keys_between(left, right) else "equality"
                other = next(iter(self.orders()))
                msg = f"nothing joins {node.left} with {node.right}: there is no {lacking} between them"
                raise fault(msg, at=str(node), remedy=f"choose an order like {other}")
        return tree


@lru_cache(maxsize=BOXES)
def _read(plan: Plan, types: tuple[tuple[str, str], ...]) -> JoinBox:
    """Once a plan: its conditions are parsed, and a change asks for the boxes of a few plans again and again."""
    roots = _roots(plan)
    if not roots:
        msg = "the query joins nothing"
        raise fault(msg, remedy="only a query with a JOIN has an order that can be changed")
    root = max(roots, key=lambda index: len(_leaf_roots(plan, index)))
    leaves = tuple(_leaf(plan, index, join, side) for index, join, side in _leaf_roots(plan, root))
    joins = (plan.operators[i] for i in _joins(plan, root))
    read = JoinConditions.read((j for j in joins if isinstance(j, Join)), leaves, dict(types))
    _check_times(read)
    return JoinBox(plan, root, _tree(plan, root, {leaf.root: leaf for leaf in leaves}), read)


def reordered(query: Query, tree: JoinTree, streams: Streams) -> Query:
    """The query with its box joined as the tree says; its results stay the same."""
    box = JoinBox.of(query.shape.plan, streams)
    builder = _Builder(box)
    builder.above(len(box.plan.operators) - 1, box.checked(tree))
    plan = Plan(tuple(builder.operators))
    wanted = {builder.moved[old]: values for old, values in query.subscriptions.items()}
    # Who shared an operator under its old number no longer does: taps are found again for the new plan.
    return replace(query, shape=Shape(plan, query.shape.parameters), subscriptions=wanted, taps={})


class _Builder:
    """Writes operators in topological order, as `sql/emit.py` does: left before right before the join."""

    def __init__(self, box: JoinBox) -> None:
        self._box, self._conditions = box, box.conditions
        self._known = {(tree.canonical): index for index, tree in zip(box.joins, box.tree.joins, strict=True)}
        self.operators: list[Operator] = []
        #: old number -> new number
        self.moved: dict[int, int] = {}

    def above(self, index: int, tree: JoinTree) -> int:
        """An operator that stays, with what is below it."""
        if index == self._box.root:
            top, _ = self._joined(tree)
            self.moved[index] = top
            return top
        operator = self._box.plan.operators[index]
        below = tuple(self.above(child, tree) for child in operator.inputs)
        self.moved[index] = self._add(operator.reading(below))
        return self.moved[index]

    def _joined(self, tree: JoinTree) -> tuple[int, dict[str, int]]:
        """(the tree's operator, how far each time column lags above it)"""
        if tree.is_leaf:
            leaf = self._conditions.leaf[tree.alias]
            return self.above(leaf.root, tree), {leaf.time: leaf.lag_us}
        known = self._known.get(tree.canonical)
        if known is not None:
            # The old join word for word, left and right as they were there.
            old = self._box.plan.operators[known]
            assert isinstance(old, Join)
            first = self._box.covers.get(old.inputs[0]) or self._alias(old.inputs[0])
            tree = tree if tree.left.covers == first else JoinTree.join(tree.right, tree.left)
            (left, a), (right, b) = self._joined(tree.left), self._joined(tree.right)
            return self._add(old.reading((left, right))), self._aged(a, b)
        (left, a), (right, b) = self._joined(tree.left), self._joined(tree.right)
        return self._add(self._join(tree, left, right, a | b)), self._aged(a, b)

    def _alias(self, index: int) -> frozenset[str]:
        return frozenset(leaf.alias for leaf in self._conditions.leaves if leaf.root == index)

    def _join(self, tree: JoinTree, left: int, right: int, lags: Mapping[str, int]) -> Join:
        mine, theirs = tree.left.covers, tree.right.covers
        band = self._conditions.band_between(mine, theirs)
        assert band is not None, tree
        left_time, right_time, lower, upper = band
        rest = self._conditions.residuals_at(mine, theirs)
        return Join(
            (left, right),
            self._conditions.keys_between(mine, theirs),
            left_time,
            right_time,
            lower,
            upper,
            " AND ".join(rest) or None,
            lags[left_time],
            lags[right_time],
            (self._needed(tree.left), self._needed(tree.right)),
        )

    def _needed(self, tree: JoinTree) -> int:
        """For how long a leaf's rows can be part of new results, in whatever order: the next change finds them."""
        leaves = self._conditions.leaf
        if not tree.is_leaf or len(leaves) < 3:
            return 0
        return self._conditions.need_us(leaves[tree.alias].time, set(leaves) - {tree.alias})

    def _aged(self, left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
        """A pair appears when its later row does, so the time of its older row lags by up to the band more."""
        aged = {}
        for mine, others in ((left, right), (right, left)):
            for time, lag in mine.items():
                limits = [(self._conditions.bands.limit(o, time), behind) for o, behind in others.items()]
                reach = [limit + behind for limit, behind in limits if limit is not None]
                if reach:
                    aged[time] = max(0, lag, min(reach))
        return aged

    def _add(self, operator: Operator) -> int:
        self.operators.append(operator)
        return len(self.operators) - 1


def _check_times(conditions: JoinConditions) -> None:
    """Every two leaves must be near each other in time, directly or through others, or some order has no band."""
    first = conditions.leaves[0]
    for leaf in conditions.leaves[1:]:
        if conditions.bands.band(first.time, leaf.time) is None:
            msg = f"'{leaf.alias}' is paired by another time column here than with '{first.alias}'"
            raise fault(msg, remedy="the order of this query stays; use one time column per stream")


def _roots(plan: Plan) -> list[int]:
    """Joins that no join reads directly."""
    read = {child for op in plan.operators if isinstance(op, Join) for child in op.inputs}
    return [i for i, op in enumerate(plan.operators) if isinstance(op, Join) and i not in read]


def _joins(plan: Plan, index: int) -> tuple[int, ...]:
    operator = plan.operators[index]
    if not isinstance(operator, Join):
        return ()
    return (*_joins(plan, operator.inputs[0]), *_joins(plan, operator.inputs[1]), index)


def _leaf_roots(plan: Plan, index: int) -> list[tuple[int, Join, int]]:
    """(operator, the join that reads it, which side) of each leaf below a join"""
    join = plan.operators[index]
    assert isinstance(join, Join)
    found: list[tuple[int, Join, int]] = []
    for side, child in enumerate(join.inputs):
        if isinstance(plan.operators[child], Join):
            found += _leaf_roots(plan, child)
        else:
            found.append((child, join, side))
    return found


def _leaf(plan: Plan, index: int, join: Join, side: int) -> BoxLeaf:
    columns = _columns(plan, index)
    time, lag = ((join.left_time, join.left_lag_us), (join.right_time, join.right_lag_us))[side]
    prefixes = sorted({name.split("__")[0] for name in columns if not name.startswith("__")})
    return BoxLeaf("+".join(prefixes), index, time, lag, columns)


def _columns(plan: Plan, index: int) -> frozenset[str]:
    """The columns that a leaf hands on; those of operators with made-up names come out of a projection."""
    operator = plan.operators[index]
    match operator:
        case Scan():
            return frozenset(f"{operator.alias}__{c}" for c in operator.columns)
        case Project():
            return frozenset(c.name for c in operator.columns)
        case Filter() | Union():
            return _columns(plan, operator.inputs[0])
        case OuterJoin():
            sides = (operator.left,) if operator.how in ("semi", "anti") else (operator.left, operator.right)
            return frozenset(column.name for side in sides for column in side)
    msg = f"a {type(operator).__name__} feeds a join directly"
    raise fault(msg, remedy="the order of this query stays")


def _types(plan: Plan, streams: Streams) -> dict[str, str]:
    """Column -> type, of scans and of projections that pass them on as they are."""
    found: dict[str, str] = {}
    for operator in plan.operators:
        match operator:
            case Scan() if operator.stream in streams:
                declared = {c.name: c.type.lower() for c in streams[operator.stream].columns}
                found |= {f"{operator.alias}__{c}": declared[c] for c in operator.columns if c in declared}
            case Project():
                found |= {c.name: found[c.sql] for c in operator.columns if c.sql in found}
    return found


def _tree(plan: Plan, index: int, leaves: Mapping[int, BoxLeaf]) -> JoinTree:
    if index in leaves:
        return JoinTree.leaf(leaves[index].alias)
    left, right = plan.operators[index].inputs
    return JoinTree.join(_tree(plan, left, leaves), _tree(plan, right, leaves))


def _spelled(tree: JoinTree, names: Mapping[str, str]) -> JoinTree:
    if tree.is_leaf:
        return JoinTree.leaf(names[tree.alias.lower()])
    return JoinTree.join(_spelled(tree.left, names), _spelled(tree.right, names))
