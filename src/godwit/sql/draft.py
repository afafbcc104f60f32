"""The plan while it is being made: a tree of operators whose expressions are still syntax trees.

Every column in an expression is one flat name, unique in the plan (`scope.py` makes them). Passes rewrite the tree;
`emit.py` turns it into the flat, textual `godwit.model.plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from godwit.model.joins import How
from godwit.model.plan import Stream, Window
from godwit.model.ranking import RankCall
from godwit.model.running import OverCall


@dataclass(frozen=True, eq=False)
class ColumnNode:
    """A named expression."""

    name: str
    value: exp.Expr

    @property
    def bare(self) -> str | None:
        """The input column that is passed on as it is, if the expression is no more than that."""
        return self.value.name if isinstance(self.value, exp.Column) else None


@dataclass(frozen=True, eq=False)
class CallNode:
    """An aggregate call in the engine's terms; see `aggregates.py`."""

    name: str
    function: str
    argument: exp.Expr | None
    constants: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ScanNode:
    stream: Stream
    alias: str
    columns: tuple[str, ...]
    subscribe: str | None = None
    values: tuple[str, ...] = ()
    #: by the time of arrival
    arrival: bool = False
    #: only those that came too late
    late: bool = False


@dataclass(frozen=True, eq=False)
class FilterNode:
    input: Draft
    conjuncts: tuple[exp.Expr, ...]


@dataclass(frozen=True, eq=False)
class ProjectNode:
    input: Draft
    columns: tuple[ColumnNode, ...]


@dataclass(frozen=True, eq=False)
class ExplodeNode:
    """All columns, and one more that each value of a generator makes a row for."""

    input: Draft
    value: exp.Expr
    name: str


@dataclass(frozen=True, eq=False)
class UnionNode:
    inputs: tuple[Draft, ...]


@dataclass(frozen=True, eq=False)
class AggregateNode:
    """Partial and Aggregate in one; `emit.py` splits them."""

    input: Draft
    window: Window
    keys: tuple[ColumnNode, ...]
    calls: tuple[CallNode, ...]
    lag_us: int


@dataclass(frozen=True, eq=False)
class RunningNode:
    """Partial and RunningAggregate in one. `having` is part of it: a key for which it no longer holds loses its row."""

    input: Draft
    window: Window
    keys: tuple[ColumnNode, ...]
    calls: tuple[CallNode, ...]
    #: the call that counts the rows
    count: str
    having: tuple[exp.Expr, ...]
    lag_us: int


@dataclass(frozen=True, eq=False)
class OverNode:
    """Window functions over rows of these columns."""

    input: Draft
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    time: str
    ties: tuple[str, ...]
    calls: tuple[OverCall, ...]
    lag_us: int
    keep_us: int


@dataclass(frozen=True, eq=False)
class RankNode:
    """Functions over the rows of one key and time."""

    input: Draft
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    time: str
    calls: tuple[RankCall, ...]
    lag_us: int


@dataclass(frozen=True, eq=False)
class TopNode:
    """The first few rows of each key."""

    input: Draft
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    order: tuple[str, ...]
    limit: int
    place: str
    time: str


@dataclass(frozen=True, eq=False)
class JoinNode:
    left: Draft
    right: Draft
    keys: tuple[tuple[exp.Expr, exp.Expr], ...]
    left_time: str
    right_time: str
    lower_us: int
    upper_us: int
    left_lag_us: int
    right_lag_us: int
    residual: tuple[exp.Expr, ...] = ()
    #: rows of each side stay at least for so long (`model.plan.Join`)
    keep_us: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class OuterNode(JoinNode):
    """A join in which rows without a partner count; of semi and anti only the left's columns come out."""

    how: How = "left"
    #: flat name -> type, where it is known: what is missing is NULL of that type
    types: Mapping[str, str | None] = field(default_factory=dict)
    origin: exp.Expr | None = None


@dataclass(frozen=True, eq=False)
class AsofNode:
    """With each row of the left the newest of the right; keys are columns."""

    left: Draft
    right: Draft
    keys: tuple[tuple[str, str], ...]
    left_time: str
    right_time: str
    ties: tuple[str, ...]
    outer: bool
    strict: bool
    deleted: str | None
    residual: tuple[exp.Expr, ...]
    keep_us: int
    left_lag_us: int
    right_lag_us: int
    types: Mapping[str, str | None]
    origin: exp.Expr | None


Draft = (
    ScanNode
    | FilterNode
    | ProjectNode
    | ExplodeNode
    | UnionNode
    | AggregateNode
    | RunningNode
    | OverNode
    | RankNode
    | TopNode
    | JoinNode
    | OuterNode
    | AsofNode
)


def flat(alias: str, column: str) -> str:
    return f"{alias}__{column}"


def column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name))


def names(expressions: Iterable[exp.Expr | None]) -> frozenset[str]:
    """The columns that the expressions read."""
    return frozenset(c.name for e in expressions if e is not None for c in e.find_all(exp.Column))


def substitute(expression: exp.Expr, values: Callable[[str], exp.Expr | None]) -> exp.Expr:
    """The expression with columns replaced; operators are wrapped in parentheses so that precedence stays."""

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        value = values(node.name)
        if value is None:
            return node
        return exp.paren(value.copy(), copy=False) if isinstance(value, exp.Binary | exp.Unary) else value.copy()

    return expression.copy().transform(swap, copy=False)


def conjuncts(predicate: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """The parts of a predicate that must all hold."""
    if predicate is None:
        return ()
    if isinstance(predicate, exp.And):
        return conjuncts(predicate.left) + conjuncts(predicate.right)
    if isinstance(predicate, exp.Paren) and isinstance(predicate.this, exp.And | exp.Paren):
        return conjuncts(predicate.this)
    return (predicate,)


def filtered(draft: Draft, parts: Iterable[exp.Expr]) -> Draft:
    parts = tuple(parts)
    return FilterNode(draft, parts) if parts else draft


def inputs(draft: Draft) -> tuple[Draft, ...]:
    match draft:
        case ScanNode():
            return ()
        case UnionNode():
            return draft.inputs
        case JoinNode() | AsofNode():
            return (draft.left, draft.right)
        case _:
            return (draft.input,)


def with_inputs(draft: Draft, new: tuple[Draft, ...]) -> Draft:
    match draft:
        case ScanNode():
            return draft
        case UnionNode():
            return UnionNode(new)
        case JoinNode() | AsofNode():
            return replace(draft, left=new[0], right=new[1])
        case _:
            return replace(draft, input=new[0])
