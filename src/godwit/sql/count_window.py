"""GROUP BY key, count_window(ts, n[, slide]): windows of n rows of a key, in the order of time.

It is a window function that is answered at every slide-th row only: the aggregates over the last n rows, from the n-th
row on. So it needs no operator of its own. Windows that are not full yet give no row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from godwit.sql import aggregates
from godwit.sql.batch_form import CountForm, OverForm
from godwit.sql.fault import SqlFault
from godwit.sql.functions import COUNT_WINDOW
from godwit.sql.grouping_sets import has_sets
from godwit.sql.scope import NameScope

_REMEDY = "write GROUP BY key, count_window(ts, 10) or count_window(ts, 10, 2)"


@dataclass(frozen=True, eq=False)
class CountWindow:
    """A SELECT over count windows, and the SELECT with window functions that means the same."""

    size: int
    slide: int
    time: exp.Expr
    keys: tuple[exp.Expr, ...]
    select: exp.Select

    def batch_form(self, form: OverForm) -> CountForm:
        return CountForm(self.size, self.slide, self.time, self.keys, form.ties, form.lives)


def count_window(node: exp.Select, scope: NameScope) -> CountWindow | None:
    """The SELECT's count window; None: it has none."""
    items: list[exp.Expr] = node.args["group"].expressions if node.args.get("group") else []
    calls = [item for item in items if _is_call(item)]
    stray = next(
        (c for c in node.find_all(exp.Anonymous) if _is_call(c) and not any(c is call for call in calls)), None
    )
    if stray is not None and stray.find_ancestor(exp.Select) is node:
        msg = "count_window stands in GROUP BY"
        raise SqlFault(msg, stray, f"{_REMEDY}; count_window.start and count_window.end are its bounds")
    if not calls:
        return None
    if has_sets(node):
        msg = "a count window goes with one grouping"
        raise SqlFault(msg, calls[0], "write one query for each grouping, or use a window of time")
    size, slide = _lengths(calls[0])
    if len(calls) > 1 or len(scope.relations) > 1 or not isinstance(calls[0].expressions[0], exp.Column):
        msg = "a count window cuts the rows of one stream or sub-query by its time column, once"
        raise SqlFault(msg, calls[-1], f"join in a sub-query; {_REMEDY}")
    time = scope.resolve(calls[0].expressions[0])
    known = scope.field(time.name) if isinstance(time, exp.Column) else None
    if known is None or known.lag_us is None:
        msg = f"'{calls[0].expressions[0].name}' is no time column, and a count window takes rows by their time"
        raise SqlFault(msg, calls[0], _REMEDY)
    keys = tuple(_key(item, node, scope) for item in items if not _is_call(item))
    return _Reading(size, slide, calls[0].expressions[0], keys, scope).of(node)


def _is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == COUNT_WINDOW


def _lengths(call: exp.Expr) -> tuple[int, int]:
    given = call.expressions[1:]
    if not 1 <= len(given) <= 2 or not all(isinstance(g, exp.Literal) and g.is_int for g in given):
        msg = "count_window takes a time column and one or two numbers of rows"
        raise SqlFault(msg, call, _REMEDY)
    size, slide = int(given[0].name), int(given[-1].name)
    if not 1 <= slide <= size:
        msg = "a count window has at least one row, and its slide is not longer than it"
        raise SqlFault(msg, call, _REMEDY)
    return size, slide


def _key(item: exp.Expr, node: exp.Select, scope: NameScope) -> exp.Expr:
    """GROUP BY 1 and GROUP BY alias mean an expression of the SELECT list."""
    if isinstance(item, exp.Literal) and item.is_int and 1 <= int(item.name) <= len(node.expressions):
        chosen: exp.Expr = node.expressions[int(item.name) - 1].unalias()
        return chosen
    aliases: dict[str, exp.Expr] = {e.alias.lower(): e.this for e in node.expressions if isinstance(e, exp.Alias)}
    if isinstance(item, exp.Column) and len(item.parts) == 1 and item.name.lower() in aliases:
        return aliases[item.name.lower()] if scope.find(item) is None else item
    return item


@dataclass(frozen=True, eq=False)
class _Reading:
    size: int
    slide: int
    time: exp.Expr
    keys: tuple[exp.Expr, ...]
    scope: NameScope

    def of(self, node: exp.Select) -> CountWindow:
        made = node.copy()
        made.set("group", None)
        made.set("expressions", [self._item(item) for item in made.expressions])
        number = self._over(exp.Anonymous(this="row_number"), frame=False)
        since = exp.Sub(this=number, expression=exp.Literal.number(self.size))
        due: exp.Expr = exp.GTE(this=number.copy(), expression=exp.Literal.number(self.size))
        if self.slide > 1:
            rest = exp.Mod(this=exp.Paren(this=since), expression=exp.Literal.number(self.slide))
            due = exp.and_(due, exp.EQ(this=rest, expression=exp.Literal.number(0)))
        having = made.args.get("having")
        made.set("having", None)
        made.set("qualify", exp.Qualify(this=due if having is None else exp.and_(due, self._of_windows(having.this))))
        return CountWindow(self.size, self.slide, self.time, self.keys, made)

    def _item(self, item: exp.Expr) -> exp.Expr:
        value = self._of_windows(item.unalias())
        return exp.alias_(value, item.alias_or_name or item.output_name, quoted=True)

    def _of_windows(self, expression: exp.Expr) -> exp.Expr:
        """Aggregates over the window's rows; what is no aggregate must be a key."""

        def swap(node: exp.Expr) -> exp.Expr:
            if any(node == key for key in self.keys) or self._is_alias(node):
                return node.copy()
            if isinstance(node, exp.Column) and node.parts[0].name.lower() == COUNT_WINDOW:
                return self._bound(node)
            if isinstance(node, exp.Filter) or aggregates.name_of(node):
                return self._over(node)
            if isinstance(node, exp.Column):
                msg = f"column '{node.name}' is neither a key nor inside an aggregate"
                raise SqlFault(msg, node, "add it to GROUP BY, or take min, max, .. of it")
            return node

        return _outermost(expression.copy(), swap)

    def _is_alias(self, node: exp.Expr) -> bool:
        """In HAVING: a name of the SELECT list, which QUALIFY replaces."""
        return isinstance(node, exp.Column) and len(node.parts) == 1 and self.scope.find(node) is None

    def _bound(self, node: exp.Column) -> exp.Expr:
        if node.name.lower() not in ("start", "end") or len(node.parts) != 2:
            msg = f"a count window has no '{node.name}'"
            raise SqlFault(msg, node, "it has count_window.start and count_window.end")
        if node.name.lower() == "end":
            return self.time.copy()
        return self._over(exp.Anonymous(this="min", expressions=[self.time.copy()]))

    def _over(self, function: exp.Expr, frame: bool = True) -> exp.Window:
        back = exp.Literal.number(self.size - 1)
        spec = exp.WindowSpec(kind="ROWS", start=back, start_side="PRECEDING", end="CURRENT ROW")
        order = exp.Order(expressions=[exp.Ordered(this=self.time.copy(), nulls_first=True)])
        keys = [key.copy() for key in self.keys]
        made = exp.Window(this=function.copy(), partition_by=keys, order=order, over="OVER")
        if frame:
            made.set("spec", spec)
        return made


def _outermost(node: exp.Expr, swap: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace from above; what was replaced is not looked into."""
    made = swap(node)
    if made is not node:
        return made
    if isinstance(node, exp.Column):
        return node
    for arg, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(arg, _outermost(value, swap))
        elif isinstance(value, list):
            node.set(arg, [_outermost(v, swap) if isinstance(v, exp.Expr) else v for v in value])
    return node
