"""IN and EXISTS over a reference table: whether there is a row of that key, as a join with the table.

    FROM v WHERE v.device IN (SELECT id FROM known WHERE zone = 'north')
    FROM (SELECT v.* FROM v JOIN known AS known_1 ON v.device = known_1.id AND known_1.zone = 'north') AS v

A key has one row at a time, so no row is doubled. NOT IN and NOT EXISTS become a LEFT JOIN that finds none. Done before
anything else looks at the query, so that plan and oracle read the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from godwit.ids import StreamId
from godwit.model.plan import Stream

_PLAIN = {"kind", "expressions", "from_", "where", "distinct"}


def filters_as_joins(tree: exp.Query, streams: Mapping[StreamId, Stream]) -> None:
    """Rewrite in place what can be; the rest is refused later, with a remedy."""
    tables = {str(name).lower(): stream for name, stream in streams.items() if stream.key}
    for number, select in enumerate(list(tree.find_all(exp.Select)) if tables else (), 1):
        where, source = select.args.get("where"), select.args.get("from_")
        if where is None or source is None or select.args.get("joins") or select.args.get("laterals"):
            continue
        parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        kept = [part for part in parts if not _joined(part, select, tables, number)]
        if len(kept) < len(parts):
            select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in kept))) if kept else None)


def _joined(part: exp.Expr, select: exp.Select, tables: Mapping[str, Stream], number: int) -> bool:
    """Whether a condition was made a join."""
    absent = isinstance(part, exp.Not)
    asks = (part.this if absent else part).unnest()
    inner = asks.args.get("query") if isinstance(asks, exp.In) else asks.this if isinstance(asks, exp.Exists) else None
    inner = inner.this if isinstance(inner, exp.Subquery) else inner
    if (
        not isinstance(inner, exp.Select)
        or {k for k, v in inner.args.items() if v} - _PLAIN
        or not inner.args.get("from_")
    ):
        return False
    named = inner.args["from_"].this
    table = tables.get(named.name.lower()) if isinstance(named, exp.Table) else None
    outer = select.args["from_"].this
    if table is None or not outer.alias_or_name:
        return False
    alias, known = f"{named.name}_{number}", {column.name.lower() for column in table.columns}
    where = inner.args.get("where")
    conditions = [where.this.copy()] if where is not None else []
    for condition in conditions:
        for column in condition.find_all(exp.Column):
            mine = column.table.lower() == named.alias_or_name.lower() or (
                not column.table and column.name.lower() in known
            )
            column.set("table", exp.to_identifier(alias if mine else column.table or outer.alias_or_name))
    key = exp.column(table.key[0], table=alias)
    if isinstance(asks, exp.In):
        chosen = inner.expressions[0].unalias() if len(inner.expressions) == 1 else None
        if not isinstance(chosen, exp.Column) or [chosen.name.lower()] != [name.lower() for name in table.key]:
            return False
        sought = asks.this.copy()
        for column in sought.find_all(exp.Column):
            column.set("table", column.args.get("table") or exp.to_identifier(outer.alias_or_name))
        conditions.insert(0, exp.EQ(this=sought, expression=key.copy()))
    if not conditions:
        return False
    _wrap(select, outer, exp.Table(this=named.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias))))
    join = select.args["from_"].this.this.args["joins"][0]
    join.set("on", exp.and_(*conditions))
    if absent:
        join.set("side", "LEFT")
        found = exp.Is(this=key.copy(), expression=exp.Null())
        # x NOT IN (..) of a NULL is not true
        known_x = [exp.Not(this=exp.Is(this=c.left.copy(), expression=exp.Null())) for c in conditions[:1]]
        select.args["from_"].this.this.where(found, *(known_x if isinstance(asks, exp.In) else ()), copy=False)
    return True


def _wrap(select: exp.Select, outer: exp.Expr, table: exp.Table) -> None:
    """FROM outer becomes FROM (SELECT outer.* FROM outer JOIN table) AS outer."""
    name = outer.alias_or_name
    everything = exp.Column(this=exp.Star(), table=exp.to_identifier(name))
    made = exp.Select(expressions=[everything], joins=[exp.Join(this=table)])
    made.set("from_", exp.From(this=outer.copy()))
    outer.replace(exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(name))))
