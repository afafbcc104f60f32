"""ORDER BY n DESC LIMIT 3 BY until: the first three of every window, as a ranking.

    SELECT * FROM (SELECT ..) QUALIFY row_number() OVER (PARTITION BY until ORDER BY n DESC) <= 3

LIMIT alone means the first of all rows there will ever be, so it is refused, with the words that say "of every window".
"""

from __future__ import annotations

from sqlglot import exp

from godwit.sql.fault import SqlFault
from godwit.sql.normalise import is_window


def limits_as_ranks(tree: exp.Expr) -> None:
    """The SELECTs of a tree, changed in place."""
    for select in list(tree.find_all(exp.Select)):
        limit, order = select.args.get("limit"), select.args.get("order")
        if not isinstance(limit, exp.Limit) or not select.args.get("from_"):
            continue
        if limit.expressions:
            _rank(select, limit, order)
        elif order is not None and _end(select):
            count, terms = limit.expression.sql("spark"), ", ".join(_plain(term) for term in order.expressions)
            msg = "LIMIT takes the first of all rows there will ever be"
            raise SqlFault(msg, limit.expression, f"of every window: ORDER BY {terms} LIMIT {count} BY {_end(select)}")


def _rank(select: exp.Select, limit: exp.Limit, order: exp.Order | None) -> None:
    count = limit.expression
    if order is None or not (isinstance(count, exp.Literal) and count.is_int and int(count.name) > 0):
        msg = "LIMIT .. BY takes a number above 0, and an order"
        raise SqlFault(msg, limit, "write e.g. ORDER BY n DESC LIMIT 3 BY until")
    by = [_named(one, select) for one in limit.expressions]
    terms = [term.copy() for term in order.expressions]
    for term, origin in zip(terms, order.expressions, strict=True):
        term.set("this", _named(origin.this, select))
    place = exp.Window(
        this=exp.Anonymous(this="row_number"), partition_by=by, order=exp.Order(expressions=terms), over="OVER"
    )
    place.this.meta.update(count.meta)
    outer = ("with_", "order", "limit")
    inner = exp.Select(**{arg: value for arg, value in select.args.items() if value and arg not in outer})
    if select.args.get("group"):  # (else what is kept is the ranking's)
        inner.meta.update(select.meta)
        select.meta.clear()
    with_ = select.args.get("with_")
    for arg in list(select.args):
        select.set(arg, None)
    select.set("with_", with_)
    select.set("expressions", [exp.Star()])
    select.set("from_", exp.From(this=exp.Subquery(this=inner)))
    select.set("qualify", exp.Qualify(this=exp.LTE(this=place, expression=count.copy())))


def _named(value: exp.Expr, select: exp.Select) -> exp.Expr:
    """What is meant by a position, or by an expression that the SELECT list has under a name."""
    if isinstance(value, exp.Literal) and value.is_int and 1 <= int(value.name) <= len(select.expressions):
        found = select.expressions[int(value.name) - 1]
    else:
        found = next((item for item in select.expressions if item.unalias() == value), None)
    if found is None or not found.alias_or_name:
        return value.copy()
    made = exp.column(found.alias_or_name)
    made.this.meta.update(value.this.meta if isinstance(value, exp.Column) else value.meta)
    return made


def _end(select: exp.Select) -> str:
    """What a window's end is called; nothing, if there is no window."""
    group = select.args.get("group")
    cut = [item.name for item in group.expressions if is_window(item)] if group else []
    for item in select.expressions if cut else ():
        value = item.unalias()
        if isinstance(value, exp.Column) and value.table.lower() == cut[0].lower() and value.name.lower() == "end":
            return str(item.alias_or_name)
    return "until, with window.end AS until in the SELECT list" if cut else ""


def _plain(term: exp.Expr) -> str:
    return f"{term.this.sql('spark')}{' DESC' if term.args.get('desc') else ''}"
