"""Rewrites that mean the same to Spark: done once, before planning, so that plan and oracle read the same query."""

from __future__ import annotations

from sqlglot import exp

from godwit.errors import UnknownNameError
from godwit.sql.bands import SAME_WINDOW
from godwit.sql.duration import microseconds
from godwit.sql.fault import SqlFault
from godwit.sql.functions import RANKS, WINDOWS
from godwit.sql.generators import as_views
from godwit.sql.grouping_sets import has_sets, ids_as_sums


def normalise(tree: exp.Query) -> exp.Query:
    """A copy in which windows are compared by arithmetic and every result column has a name."""
    tree = tree.copy()
    for equality in list(tree.find_all(exp.EQ)):
        _compare_windows(equality)
    # exact: distinct values are kept, so a sketch would gain nothing
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() == "approx_count_distinct" and call.expressions:
            exact = exp.Count(this=exp.Distinct(expressions=call.expressions[:1]), big_int=True)
            exact.meta.update(call.meta)
            call.replace(exact)
    for select in tree.find_all(exp.Select):
        _name_windows(select)
        _qualify_inside(select)
        as_views(select)
        if has_sets(select):
            ids_as_sums(select)
        select.set("expressions", _named(select.expressions))
    return tree


def _name_windows(select: exp.Select) -> None:
    """f(x) OVER w means what WINDOW w AS (..) says."""
    known = {window.name.lower(): window for window in select.args.get("windows") or ()}
    parts = [*select.expressions, *filter(None, [select.args.get("qualify")])]
    for node in [window for part in parts for window in part.find_all(exp.Window)]:
        alias = node.args.get("alias")
        if alias is None:
            continue
        if alias.name.lower() not in known:
            msg = f"there is no window '{alias.name}'"
            raise SqlFault(msg, node, f"add WINDOW {alias.name} AS (PARTITION BY .. ORDER BY ts)", UnknownNameError)
        for arg in ("partition_by", "order", "spec"):
            value = known[alias.name.lower()].args.get(arg)
            node.set(arg, [v.copy() for v in value] if isinstance(value, list) else value and value.copy())
        node.set("alias", None)
    select.set("windows", None)


def _qualify_inside(select: exp.Select) -> None:
    """WHERE n <= 3 around a sub-query whose n is a rank: its QUALIFY, so that it knows how many it needs."""
    source = select.args["from_"].this if select.args.get("from_") else None
    where, inner = select.args.get("where"), source.this if isinstance(source, exp.Subquery) else None
    if where is None or not isinstance(inner, exp.Select) or select.args.get("joins"):
        return
    ranks = {
        item.alias.lower()
        for item in inner.expressions
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Window) and _is_rank(item.this)
    }
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    moved = [p for p in parts if {c.name.lower() for c in p.find_all(exp.Column)} <= ranks and p.find(exp.Column)]
    if not moved:
        return
    rest = [part for part in parts if not any(part is other for other in moved)]
    select.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    for part in moved:
        for node in part.find_all(exp.Column):
            node.set("table", None)
    known = inner.args.get("qualify")
    inner.set("qualify", exp.Qualify(this=exp.and_(*([known.this] if known else []), *moved)))


def _is_rank(window: exp.Window) -> bool:
    return isinstance(window.this, exp.Anonymous) and window.this.name.lower() in RANKS


def is_window(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in WINDOWS


def _compare_windows(node: exp.EQ) -> None:
    """window(a.ts, '10 seconds') = window(b.ts, '10 seconds') compares when the two windows begin."""
    if not (is_window(node.left) and is_window(node.right)):
        return
    sizes = {_tumbling(side) for side in (node.left, node.right)}
    if len(sizes) != 1:
        msg = "the two windows have different sizes"
        raise SqlFault(msg, node, "compare windows of one size")
    (size,) = sizes
    for side in (node.left, node.right):
        side.replace(_begin(side.expressions[0], size))
    node.meta[SAME_WINDOW] = size


def _tumbling(call: exp.Expr) -> int:
    arguments = call.expressions
    if call.name.lower() != "window" or len(arguments) != 2 or not isinstance(arguments[0], exp.Column):
        msg = "only tumbling windows over a time column can be compared"
        raise SqlFault(msg, call, "write window(a.ts, '10 seconds') = window(b.ts, '10 seconds')")
    return microseconds(arguments[1].name, arguments[1])


def _begin(time: exp.Expr, size: int) -> exp.Expr:
    def us() -> exp.Expr:
        return exp.Anonymous(this="unix_micros", expressions=[time.copy()])

    rest = exp.Anonymous(this="pmod", expressions=[us(), exp.Literal.number(size)])
    return exp.Sub(this=us(), expression=rest)


def _named(expressions: list[exp.Expr]) -> list[exp.Expr]:
    """Every expression gets a name; Spark's own, such as `sum(a)`, would have the literals in it."""
    taken = {e.alias_or_name.lower() for e in expressions if isinstance(e, exp.Alias | exp.Column)}
    named: list[exp.Expr] = []
    for node in expressions:
        if isinstance(node, exp.Alias | exp.Star | exp.Column):
            named.append(node)
            continue
        base = node.expression.name if isinstance(node, exp.Dot) else "_".join(_words(node)) or "value"
        name, n = base, 2
        while name.lower() in taken:
            name, n = f"{base}_{n}", n + 1
        taken.add(name.lower())
        named.append(exp.alias_(node, name, copy=False))
    return named


def _words(node: exp.Expr) -> list[str]:
    words = []
    for n in node.walk(bfs=False):
        if isinstance(n, exp.Anonymous):
            words.append(n.name.lower())
        elif isinstance(n, exp.Func) and not isinstance(n, exp.Connector):
            words.append(n.sql_name().lower())
        elif isinstance(n, exp.Column):
            words.append(n.name)
    return words
