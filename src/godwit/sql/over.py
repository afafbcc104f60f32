"""Window functions, f(x) OVER (PARTITION BY k ORDER BY ts ..): read, and put into the plan.

Rows are answered in one total order: by time, then (where rows are counted) by the device and by every column that the
SELECT reads. Rows that are equal in all of these are alike, so the answer is one, in the plan and in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from godwit.model.running import OverCall
from godwit.sql import aggregates
from godwit.sql.batch_form import LivesForm, OverForm
from godwit.sql.draft import ColumnNode, Draft, OverNode, ProjectNode, ScanNode, column, names
from godwit.sql.duration import interval
from godwit.sql.fault import SqlFault
from godwit.sql.functions import RANKING
from godwit.sql.scope import NameScope, Relation, ScopeField

#: aggregates over all rows of a key so far: the next answer can be made of the last one
_CARRIED = frozenset(("count", "sum", "min", "max", "avg"))
_FRAME = "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, or RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW"
_MADE = "__over"


def windows_in(node: exp.Expr) -> list[exp.Window]:
    return list(node.find_all(exp.Window))


def computed_below(
    expression: exp.Expr, scope: NameScope, call: Callable[[exp.Window], str], made: str, below: dict[str, exp.Expr]
) -> exp.Expr:
    """An expression over what window functions make, whose names begin with `made`: `call` names each; other columns
    are noted in `below`, for the operator to keep."""

    def named(node: exp.Expr) -> exp.Expr:
        return column(call(node)) if isinstance(node, exp.Window) else node

    replaced = expression.copy().transform(named, copy=False)
    resolved = scope.resolve(replaced, lambda c: c if c.name.startswith(made) else None)
    below.update({name: column(name) for name in names([resolved]) if not name.startswith(made)})
    return resolved


@dataclass(frozen=True, eq=False)
class _Frame:
    kind: Literal["rows", "range"]
    start: int | None
    end: int


class Overs:
    """The window functions of one SELECT. `over` takes its expressions; then `draft` is what computes them."""

    def __init__(self, scope: NameScope, keep_us: int = 0, distinct: bool = False) -> None:
        self._scope, self._keep_us = scope, keep_us
        #: whether count(DISTINCT ..) is allowed, which Spark's own OVER does not know
        self._distinct = distinct
        #: a call without its name -> the call
        self._calls: dict[OverCall, OverCall] = {}
        self._below: dict[str, exp.Expr] = {}
        self._order: tuple[tuple[exp.Expr, ...], ScopeField] | None = None
        #: the first one, as it is written
        self._first: exp.Window | None = None
        #: whether one looks at rows after its own: then the answers have no time
        self.looks_ahead = False

    def over(self, expression: exp.Expr) -> exp.Expr:
        """The expression in terms of the operator's output."""
        return computed_below(expression, self._scope, self._call, _MADE, self._below)

    def draft(self, source: Draft) -> OverNode:
        """To be called after `over` has seen every expression."""
        assert self._order is not None
        assert self._first is not None
        if self.looks_ahead:
            self._check_ahead(self._first)
        if self._keep_us:
            self._check_keep(self._first)
        partition, time = self._order
        self._below.setdefault(time.flat, column(time.flat))
        keys = tuple(dict.fromkeys(self._input(key, "__part") for key in partition))
        ties = [tie for tie, _ in self._ties()]
        for name in ties:
            self._below.setdefault(name, column(name))
        below = ProjectNode(source, tuple(ColumnNode(name, value) for name, value in self._below.items()))
        calls = tuple(self._calls.values())
        order = (keys, time.flat, tuple(ties))
        return OverNode(below, tuple(self._below), *order, calls, time.lag_us or 0, self._keep_us)

    def batch_form(self, items: list[tuple[str, exp.Expr]]) -> OverForm:
        """`items`: the SELECT list, without stars."""
        ties = tuple(reference for _, reference in self._ties())
        lives = None
        if self._keep_us:
            assert self._first is not None
            keys, time = self._first.args.get("partition_by") or (), self._first.args["order"].expressions[0].this
            lives = LivesForm(self._keep_us, time, tuple(keys), ties)
        return OverForm(ties, lives, tuple(items), max([0, *(-call.end for call in self._calls.values())]))

    def _check_keep(self, node: exp.Window) -> None:
        """Rows of a key that begin again: only where something is kept of a key, and by one relation's rows."""
        if len(self._scope.relations) > 1:
            msg = "keep does not go with a join in the same SELECT"
            raise SqlFault(msg, node, "join in a sub-query")
        if not any(call.kind == "rows" or call.start is None for call in self._calls.values()):
            msg = "these window functions keep rows as long as their frames are, and no longer"
            raise SqlFault(msg, node, "remove the hint /*+ keep(..) */")

    def _check_ahead(self, node: exp.Window) -> None:
        """Rows wait for those after them, by number: what goes by time, or by all rows so far, is another question."""
        if self._keep_us:
            msg = "a row that waits for the next of its key is kept until that comes"
            raise SqlFault(msg, node, "remove the hint /*+ keep(..) */")
        if any(call.start is None or call.kind == "range" for call in self._calls.values()):
            msg = "window functions that look ahead stand alone, or beside others that count rows"
            raise SqlFault(msg, node, "compute the others in a sub-query below it")

    def _ties(self) -> list[tuple[str, exp.Column]]:
        """What orders rows of one time, as flat name and as a reference in the query: the device, then every column
        that is read. Where no rows are counted, nothing need be."""
        counts = self._keep_us or any(call.kind == "rows" for call in self._calls.values())
        if self._order is None or not counts:
            return []
        partition, time = self._order
        read = names([*self._below.values(), *partition])
        fields = [(r, f) for r in self._scope.relations for f in r.fields]
        scans = [r for r in self._scope.relations if isinstance(r.draft, ScanNode)]
        devices = {(id(r), device.lower()) for r in scans if (device := _device(r))}
        first = [(r, f) for r, f in fields if (id(r), f.name.lower()) in devices]
        rest = sorted(((r, f) for r, f in fields if f.flat in read), key=lambda one: one[1].flat)
        found = {f.flat: self._scope.reference(r, f) for r, f in (*first, *rest)}
        return [(name, reference) for name, reference in found.items() if name != time.flat]

    def _call(self, node: exp.Window) -> str:
        if any(window is not node for window in windows_in(node)):
            msg = "a window function within a window function"
            raise SqlFault(msg, node, "compute the inner one in a sub-query")
        self._take_order(node)
        function = node.this
        call = self._ranking(node) if _name(function) in RANKING else self._aggregate(node, function)
        self.looks_ahead = self.looks_ahead or call.end < 0
        if call not in self._calls:
            self._calls[call] = replace(call, name=f"{_MADE}{len(self._calls)}")
        return self._calls[call].name

    def _take_order(self, node: exp.Window) -> None:
        """All window functions of a SELECT look at rows in one order, by one key."""
        partition = tuple(self._scope.resolve(key) for key in node.args.get("partition_by") or ())
        order = node.args.get("order")
        terms = order.expressions if order else []
        first = self._scope.resolve(terms[0].this) if len(terms) == 1 else None
        known = self._scope.field(first.name) if isinstance(first, exp.Column) else None
        if known is None or known.lag_us is None or terms[0].args.get("desc"):
            times = [f"{r.alias}.{f.name}" for r in self._scope.relations for f in r.fields if f.lag_us is not None]
            msg = "window functions follow time: ORDER BY one time column, ascending"
            raise SqlFault(
                msg, terms[0] if terms else node, f"write OVER (.. ORDER BY {times[0] if times else 'ts'} ..)"
            )
        if self._order is not None and (partition, known) != self._order:
            msg = "the window functions of a SELECT have different PARTITION BY or ORDER BY"
            raise SqlFault(msg, node, "use one of them in a sub-query")
        self._order = partition, known
        self._first = self._first or node

    def _ranking(self, node: exp.Window) -> OverCall:
        name, given = _name(node.this), node.this.expressions
        if node.args.get("spec"):
            msg = f"{name}() has no frame"
            raise SqlFault(msg, node, "leave ROWS or RANGE out")
        if name == "row_number":
            return OverCall("", name, None, "rows", None)
        offset = int(given[1].name) if len(given) > 1 and given[1].name.isdigit() else 1 if len(given) == 1 else 0
        if not 1 <= len(given) <= 3 or offset < 1 or (len(given) == 3 and not _is_constant(given[2])):
            msg = f"{name} takes a column, how many rows away it is (1 or more) and perhaps a constant for none"
            raise SqlFault(msg, node, f"write {name}(x), {name}(x, 2) or {name}(x, 2, 0)")
        constants = (given[2].sql("spark"),) if len(given) == 3 else ()
        offset = offset if name == "lag" else -offset
        return OverCall("", name, self._argument(given[0]), "rows", offset, offset, constants)

    def _aggregate(self, node: exp.Window, function: exp.Expr) -> OverCall:
        reading = aggregates.read(function)
        if reading is None:
            name = _name(function) or function.sql("spark")
            msg = f"{name} is no window function here"
            raise SqlFault(msg, node, "use an aggregate such as sum or avg, row_number() or lag(x)")
        if reading.function == "count_distinct" and not self._distinct:
            msg = "count(DISTINCT ..) cannot stand before OVER"
            raise SqlFault(msg, node, "count rows, or GROUP BY a window or count_window(ts, n)")
        frame = self._frame(node)
        if frame.start is None and (reading.function not in _CARRIED or frame.end):
            msg = f"{reading.function} over all rows so far would keep every row for ever"
            raise SqlFault(msg, node, f"give it a frame: {_FRAME}")
        argument = None if reading.argument is None else self._argument(reading.argument)
        return OverCall("", reading.function, argument, frame.kind, frame.start, frame.end, reading.constants)

    def _argument(self, argument: exp.Expr) -> str:
        return self._input(self._scope.resolve(argument), "__arg")

    def _input(self, value: exp.Expr, prefix: str) -> str:
        """The column below the operator that holds a value."""
        for name, known in self._below.items():
            if known == value:
                return name
        if isinstance(value, exp.Column):
            self._below[value.name] = value
            return value.name
        name = f"{prefix}{sum(n.startswith(prefix) for n in self._below)}"
        self._below[name] = value
        return name

    def _frame(self, node: exp.Window) -> _Frame:
        spec = node.args.get("spec")
        if spec is None:
            return _Frame("range", None, 0)  # as Spark has it: all rows up to and with those of the same time
        kind = str(spec.args.get("kind") or "").upper()
        sides = [str(spec.args.get(f"{which}_side") or "").upper() for which in ("start", "end")]
        bounds = [spec.args.get(which) for which in ("start", "end")]
        endless = "FOLLOWING" in sides and (kind == "RANGE" or str(bounds[1]).upper() == "UNBOUNDED")
        if kind not in ("ROWS", "RANGE") or endless or spec.args.get("exclude"):
            msg = "a frame looks back: of rows that have not come yet it can count some, and no more"
            raise SqlFault(msg, node, f"write {_FRAME}, or ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING")
        first, last = (_distance(bound, kind, node) for bound in bounds)
        first, last = (-d if d and side == "FOLLOWING" else d for d, side in zip((first, last), sides, strict=True))
        if last is None or (first is not None and first < last):
            msg = "the frame ends before it begins"
            raise SqlFault(msg, node, f"write {_FRAME}")
        return _Frame("rows" if kind == "ROWS" else "range", first, last)


def _distance(bound: exp.Expr | str | None, kind: str, node: exp.Window) -> int | None:
    """How far before the current row a bound lies; None: where the rows begin."""
    if bound is None or str(bound).upper() == "CURRENT ROW":
        return 0
    if str(bound).upper() == "UNBOUNDED":
        return None
    if isinstance(bound, exp.Expr):
        if kind == "ROWS" and isinstance(bound, exp.Literal) and bound.is_int:
            return int(bound.name)
        length = interval(bound) if kind == "RANGE" else None
        if length is not None and length >= 0:
            return length
    msg = "ROWS counts rows, RANGE over time takes an interval"
    raise SqlFault(msg, node, f"write {_FRAME}")


def _device(relation: Relation) -> str | None:
    return relation.draft.stream.device if isinstance(relation.draft, ScanNode) else None


def _name(function: exp.Expr) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else ""


def _is_constant(value: exp.Expr) -> bool:
    return value.find(exp.Column) is None
