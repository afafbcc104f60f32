"""Window functions that do not follow time: ranks within final windows, and the best few rows of every key.

    row_number() OVER (PARTITION BY until ORDER BY n DESC)        `until` is a time column: answered when it has passed
    QUALIFY row_number() OVER (PARTITION BY train ORDER BY load DESC) <= 3              the best three as they are now

row_number follows one total order: rows that the query's ORDER BY leaves equal are told apart by every column that the
SELECT reads. Rows that are equal in all of these are alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sqlglot import exp

from godwit.model.ranking import RankCall
from godwit.sql import aggregates
from godwit.sql.batch_form import RankForm
from godwit.sql.dialect import text
from godwit.sql.draft import ColumnNode, Draft, ProjectNode, RankNode, TopNode, column, conjuncts, names
from godwit.sql.fault import SqlFault
from godwit.sql.functions import RANKS
from godwit.sql.over import computed_below
from godwit.sql.scope import NameScope, ScopeField

_MADE = "__rank"
_BEST = "QUALIFY row_number() OVER (PARTITION BY key ORDER BY x DESC) <= 3"


def how_ranked(windows: list[exp.Window], scope: NameScope) -> Literal["final", "endless"] | None:
    """How the window functions of a SELECT are answered; None: in the order of time (`over.py`)."""
    if any(_times(window, scope) for window in windows):
        return "final"
    return "endless" if any(_name(w) in RANKS and not _follows_time(w, scope) for w in windows) else None


def _times(window: exp.Window, scope: NameScope) -> list[ScopeField]:
    """The time columns it is parted by."""
    keys = [scope.resolve(key) for key in window.args.get("partition_by") or ()]
    found = [scope.field(key.name) for key in keys if isinstance(key, exp.Column)]
    return [field for field in found if field is not None and field.lag_us is not None]


def _follows_time(window: exp.Window, scope: NameScope) -> bool:
    terms = _terms(window)
    first = scope.resolve(terms[0].this) if terms else None
    known = scope.field(first.name) if isinstance(first, exp.Column) else None
    timely = known is not None and known.lag_us is not None and not terms[0].args.get("desc")
    return _name(window) == "row_number" and len(terms) == 1 and timely


class Ranks:
    """The window functions of one SELECT. `over` takes its expressions; then `final` or `endless` computes them."""

    def __init__(self, scope: NameScope) -> None:
        self._scope = scope
        self._calls: dict[RankCall, RankCall] = {}
        self._below: dict[str, exp.Expr] = {}
        self._partition: tuple[exp.Expr, ...] | None = None
        self._first: exp.Window | None = None

    def over(self, expression: exp.Expr) -> exp.Expr:
        """The expression in terms of the operator's output."""
        return computed_below(expression, self._scope, self._call, _MADE, self._below)

    @property
    def keys(self) -> tuple[str, ...]:
        assert self._partition is not None
        return tuple(dict.fromkeys(self._input(key) for key in self._partition))

    def final(self, source: Draft) -> RankNode:
        """Rows of one time are ranked when the watermark has passed it."""
        assert self._first is not None
        time = self.time
        keys = self.keys
        self._below.setdefault(time.flat, column(time.flat))
        calls = tuple(replace(call, order=self._total(call)) for call in self._calls.values())
        return RankNode(self._project(source), tuple(self._below), keys, time.flat, calls, time.lag_us or 0)

    @property
    def time(self) -> ScopeField:
        """The time column that is passed first."""
        assert self._first is not None
        return min(_times(self._first, self._scope), key=lambda field: field.lag_us or 0)

    def endless(self, source: Draft, condition: exp.Expr | None, keep_us: int | None) -> TopNode:
        """The first few rows of each key."""
        assert self._first is not None
        call, *more = self._calls.values()
        if more or call.function != "row_number()":
            msg = "of all rows so far only row_number() can rank, once in a SELECT"
            raise SqlFault(msg, self._first, f"write {_BEST}, or PARTITION BY the end of a window: window.end")
        limit = _limit(condition, call.name)
        if limit is None:
            msg = "a place among all rows so far is only known of the first few"
            raise SqlFault(msg, self._first, f"say how many: {_BEST}")
        if keep_us != 0:
            msg = "the best rows of every key are kept for ever"
            raise SqlFault(msg, self._first, "say so: SELECT /*+ keep('forever') */ .., or PARTITION BY a window's end")
        times = [f for r in self._scope.relations for f in r.fields if f.lag_us is not None]
        if not times:
            msg = "the rows have no time column, so nobody can tell how far the ranking has come"
            raise SqlFault(msg, self._first, "select a time column, as it is, in the sub-query")
        keys = self.keys
        self._below.setdefault(times[0].flat, column(times[0].flat))
        order = self._total(call)
        return TopNode(self._project(source), tuple(self._below), keys, order, limit, call.name, times[0].flat)

    def batch_form(self, items: list[tuple[str, exp.Expr]]) -> RankForm:
        """`items`: the SELECT list, without stars."""
        found = {f.flat: self._scope.reference(r, f) for r in self._scope.relations for f in r.fields}
        return RankForm(tuple(found[name] for name in self._ties() if name in found), tuple(items))

    def _project(self, source: Draft) -> ProjectNode:
        return ProjectNode(source, tuple(ColumnNode(name, value) for name, value in self._below.items()))

    def _ties(self) -> list[str]:
        """Every column that is read."""
        return sorted(names(self._below.values()))

    def _total(self, call: RankCall) -> tuple[str, ...]:
        if call.function != "row_number()":
            return call.order
        for name in self._ties():
            self._below.setdefault(name, column(name))
        return (*call.order, *(f"`{name}` ASC NULLS FIRST" for name in self._ties()))

    def _call(self, node: exp.Window) -> str:
        partition = tuple(self._scope.resolve(key) for key in node.args.get("partition_by") or ())
        if self._partition is not None and partition != self._partition:
            msg = "the window functions of a SELECT have different PARTITION BY"
            raise SqlFault(msg, node, "use one of them in a sub-query")
        self._partition, self._first = partition, self._first or node
        call = RankCall("", self._function(node), tuple(self._term(term) for term in _terms(node)))
        if call not in self._calls:
            self._calls[call] = replace(call, name=f"{_MADE}{len(self._calls)}")
        return self._calls[call].name

    def _function(self, node: exp.Window) -> str:
        name = _name(node)
        if node.args.get("spec"):
            msg = "within a window's rows there are no frames"
            raise SqlFault(msg, node, "leave ROWS or RANGE out")
        if name in RANKS:
            if not _terms(node):
                msg = f"{name}() needs an order"
                raise SqlFault(msg, node, "add ORDER BY")
            return f"{name}()"
        if aggregates.read(node.this) is None or _terms(node):
            msg = "over the rows of a window: row_number, rank, dense_rank by an order, or an aggregate without one"
            raise SqlFault(msg, node, "write e.g. max(n) OVER (PARTITION BY until)")
        function = self._scope.resolve(node.this)
        for read in names([function]):
            self._below[read] = column(read)
        return text(function)

    def _term(self, term: exp.Expr) -> str:
        way = "DESC" if term.args.get("desc") else "ASC"
        return f"`{self._input(self._scope.resolve(term.this))}` {way} NULLS " + (
            "FIRST" if term.args.get("nulls_first") else "LAST"
        )

    def _input(self, value: exp.Expr) -> str:
        """The column below the operator that holds a value."""
        for name, known in self._below.items():
            if known == value:
                return name
        name = value.name if isinstance(value, exp.Column) else f"__by{len(self._below)}"
        self._below[name] = value
        return name


def _limit(condition: exp.Expr | None, place: str) -> int | None:
    """How many rows a condition lets through; None: it says something else."""
    parts = conjuncts(condition)
    if len(parts) != 1:
        return None
    part = parts[0].this if isinstance(parts[0], exp.Paren) else parts[0]
    if isinstance(part, exp.GTE | exp.GT):
        part = (exp.LTE if isinstance(part, exp.GTE) else exp.LT)(this=part.right, expression=part.left)
    if not isinstance(part, exp.LTE | exp.LT | exp.EQ):
        return None
    left, right = (side.this if isinstance(side, exp.Paren) else side for side in (part.left, part.right))
    if not (isinstance(left, exp.Column) and left.name == place and isinstance(right, exp.Literal) and right.is_int):
        return None
    limit = int(right.name) - (1 if isinstance(part, exp.LT) else 0)
    return None if limit < 1 or (isinstance(part, exp.EQ) and limit != 1) else limit


def _terms(window: exp.Window) -> list[exp.Expr]:
    order = window.args.get("order")
    return list(order.expressions) if order else []


def _name(window: exp.Window) -> str:
    return window.this.name.lower() if isinstance(window.this, exp.Anonymous) else ""
