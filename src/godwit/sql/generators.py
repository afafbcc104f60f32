"""explode and its kin: several rows of one, without state.

    SELECT sensor, explode(samples) AS v FROM temps
    SELECT sensor, v FROM temps LATERAL VIEW explode(samples) AS v     (or FROM temps, LATERAL explode(samples) AS t(v))

All become LATERAL VIEW. In the plan it is one more column, of whose values each makes a row of its own; what has two
(a position, or a map's key and value) is a struct at first.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from godwit.sql.draft import ColumnNode, Draft, ExplodeNode, ProjectNode, column
from godwit.sql.fault import SqlFault
from godwit.sql.functions import GENERATORS
from godwit.sql.scope import NameScope, ScopeField, same
from godwit.sql.sources import FromItem

_REMEDY = "write FROM stream LATERAL VIEW explode(column) t AS item"
_MADE = "__items"


def as_views(select: exp.Select) -> None:
    """Generators of the SELECT list, and of LATERAL and UNNEST in FROM, become LATERAL VIEWs."""
    views = list(select.args.get("laterals") or ())
    rest = []
    for join in select.args.get("joins") or ():
        made = _of_join(join)
        views += [made] if made else []
        rest += [] if made else [join]
    select.set("joins", rest)
    select.set("expressions", [_of_item(item, views) for item in select.expressions])
    select.set("laterals", views or None)
    names = {(view.alias.lower(), c.name.lower()) for view in views for c in view.args["alias"].columns}
    for node in select.find_all(exp.Column) if names else ():
        if (node.table.lower(), node.name.lower()) in names and len(node.parts) == 2:
            node.set("table", None)


def _of_join(join: exp.Join) -> exp.Lateral | None:
    source = join.this
    if isinstance(source, exp.Unnest) and len(source.expressions) == 1 and not source.args.get("offset"):
        call = exp.Anonymous(this="explode", expressions=[source.expressions[0].copy()])
        return exp.Lateral(this=call, view=True, alias=source.args.get("alias"))
    if isinstance(source, exp.Lateral) and isinstance(source.this, exp.Anonymous):
        source.set("view", True)
        return source
    return None


def _of_item(item: exp.Expr, views: list[exp.Expr]) -> exp.Expr:
    value = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
    if not is_generator(value):
        return item
    given = item.expressions if isinstance(item, exp.Aliases) else [item.args.get("alias") or exp.to_identifier("col")]
    if len(given) != 1:
        msg = f"{value.name.lower()} of the SELECT list has one name here"
        raise SqlFault(msg, item, f"{_REMEDY}; its two names go there")
    made = exp.to_identifier(f"{_MADE}{len(views)}")
    names = exp.TableAlias(this=exp.to_identifier(f"__view{len(views)}"), columns=[made])
    views.append(exp.Lateral(this=value.copy(), view=True, alias=names))
    return exp.alias_(exp.column(made.copy()), given[0].name, quoted=True)


def is_generator(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in GENERATORS


def exploded(select: exp.Select, sources: tuple[FromItem, ...]) -> tuple[FromItem, ...]:
    """What stands in FROM, with the columns of the SELECT's LATERAL VIEWs."""
    if not select.args.get("laterals"):
        return sources
    scope = _with_items(select, NameScope(tuple(source.relation for source in sources)))
    return (replace(sources[0], relation=scope.relations[0]),)


def _with_items(select: exp.Select, scope: NameScope) -> NameScope:
    for number, view in enumerate(select.args.get("laterals") or ()):
        if len(scope.relations) != 1:
            msg = "explode goes with one stream or sub-query in FROM"
            raise SqlFault(msg, view.this, "explode in a sub-query, and join that")
        (relation,) = scope.relations
        names = [c.name for c in view.args["alias"].columns] if view.args.get("alias") else []
        taken = next((n for n in names if any(same(n, f.name) for f in relation.fields)), None)
        if not is_generator(view.this) or len(view.this.expressions) != 1 or not names or taken:
            msg = f"there is a column '{taken}' already" if taken else "this is not how rows are exploded"
            raise SqlFault(msg, view.this, "name the items otherwise" if taken else _REMEDY)
        prefix = f"__exploded{number}" if relation.fields else ""
        fields = tuple(ScopeField(name, f"{relation.fields[0].flat.rpartition('__')[0]}__{name}") for name in names)
        call = view.this.copy()
        call.set("expressions", [scope.resolve(call.expressions[0])])
        draft = _draft(relation.draft, relation.fields, fields, call, bool(view.args.get("outer")), prefix)
        scope = NameScope((replace(relation, draft=draft, fields=(*relation.fields, *fields)),))
    return scope


def _draft(
    below: Draft,
    known: tuple[ScopeField, ...],
    fields: tuple[ScopeField, ...],
    call: exp.Anonymous,
    outer: bool,
    made: str,
) -> Draft:
    name, (value,) = call.name.lower(), call.expressions
    outer = outer or name.endswith("_outer")
    positions = name.startswith("posexplode")
    if len(fields) != 1 + positions and (positions or len(fields) != 2):
        msg = f"{name} gives {1 + positions} column{'s' if positions else ', or of a map two'}"
        raise SqlFault(msg, call, _REMEDY)
    explode = "explode_outer" if outer else "explode"
    if len(fields) == 1:
        return ExplodeNode(below, exp.Anonymous(this=explode, expressions=[value]), fields[0].flat)
    if positions:
        pair = exp.Anonymous(
            this="named_struct",
            expressions=[
                exp.Literal.string("key"), exp.to_identifier("i"), exp.Literal.string("value"), exp.to_identifier("x"),
            ],
        )  # fmt: skip
        each = exp.Lambda(this=pair, expressions=[exp.to_identifier("x"), exp.to_identifier("i")])
        value = exp.Anonymous(this="transform", expressions=[value, each])
    else:
        value = exp.Anonymous(this="map_entries", expressions=[value])
    node = ExplodeNode(below, exp.Anonymous(this=explode, expressions=[value]), made)
    parts = [exp.Dot(this=column(made), expression=exp.to_identifier(part)) for part in ("key", "value")]
    kept = [ColumnNode(f.flat, column(f.flat)) for f in known]
    return ProjectNode(node, (*kept, *(ColumnNode(f.flat, part) for f, part in zip(fields, parts, strict=True))))
