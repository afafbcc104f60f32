"""From a syntax tree to a draft plan: SELECT by SELECT, innermost first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from godwit.ids import StreamId
from godwit.model.joins import How
from godwit.model.plan import ARRIVED, DELETED, LATE, VERSION, Stream
from godwit.sql.asof import Asof, refuse_table, table_of
from godwit.sql.batch_form import NOTE
from godwit.sql.checks import (
    check_join,
    refuse_aggregates,
    refuse_distinct,
    refuse_totals,
    refuse_twins,
    refuse_windows,
)
from godwit.sql.collected import in_one_order
from godwit.sql.count_window import CountWindow, count_window
from godwit.sql.draft import (
    ColumnNode,
    Draft,
    FilterNode,
    ProjectNode,
    ScanNode,
    UnionNode,
    column,
    conjuncts,
    filtered,
    flat,
)
from godwit.sql.fault import SqlFault, unknown
from godwit.sql.generators import exploded
from godwit.sql.grouping import Grouping, is_aggregated
from godwit.sql.keep import CHANGES, KEEP
from godwit.sql.kinds import kind_of
from godwit.sql.over import Overs, windows_in
from godwit.sql.ranking import Ranks, how_ranked
from godwit.sql.scope import NameScope, Relation, ScopeField, same
from godwit.sql.sources import FromItem, put_together, visible

#: meta key of a SELECT: the order in which to join what its FROM names (see `orders.py`)
ORDER = "godwit_join_order"


@dataclass(frozen=True, eq=False)
class Definition:
    """A WITH entry and the entries that it may use itself."""

    query: exp.Query
    known: Mapping[str, Definition]


@dataclass(frozen=True, eq=False)
class Result:
    """A query's draft and its columns."""

    draft: Draft
    fields: tuple[ScopeField, ...]
    #: the columns by which its rows replace each other; None: they do not
    key: tuple[str, ...] | None = None


class Compiler:
    def __init__(self, streams: Mapping[StreamId, Stream], arrival: bool = False) -> None:
        """`arrival`: the time columns are those of arrival, not the streams' own."""
        self._streams = {str(name).lower(): stream for name, stream in streams.items()}
        self._arrival = arrival
        self._taken: set[str] = set()

    def query(self, node: exp.Expr, known: Mapping[str, Definition], alias: str | None = None) -> Result:
        """Compile a SELECT or UNION ALL; its columns are named for `alias`, or bare at the top."""
        known = _definitions(node, known)
        if isinstance(node, exp.Union):
            return self._union(node, known, alias)
        if isinstance(node, exp.Select):
            return self._select(node, known, alias)
        # parentheses
        return self.query(node.this, known, alias)

    def _union(self, node: exp.Union, known: Mapping[str, Definition], alias: str | None) -> Result:
        left, right = self.query(node.this, known, alias), self.query(node.expression, known, alias)
        for side, made in ((node.this, left), (node.expression, right)):
            refuse_totals(made.key, side)
        if len(left.fields) != len(right.fields):
            msg = f"UNION ALL of {len(left.fields)} and {len(right.fields)} columns"
            raise SqlFault(msg, node.expression, "select the same number of columns on both sides")
        pairs = list(zip(left.fields, right.fields, strict=True))
        columns = tuple(ColumnNode(a.flat, column(b.flat)) for a, b in pairs)
        renamed = right.draft if all(a.flat == b.flat for a, b in pairs) else ProjectNode(right.draft, columns)
        branches = (*(left.draft.inputs if isinstance(left.draft, UnionNode) else (left.draft,)), renamed)
        fields = tuple(
            replace(a, type=a.type if a.type == b.type else None, lag_us=_later(a.lag_us, b.lag_us)) for a, b in pairs
        )
        return Result(UnionNode(branches), fields)

    def _select(self, node: exp.Select, known: Mapping[str, Definition], alias: str | None) -> Result:
        sources = exploded(node, self._sources(node, known))
        scope, where = visible(sources), node.args.get("where")
        if any(item.find(exp.Star) for item in node.expressions) and not is_aggregated(node):
            self._write_out(node, scope)
        asked = tuple(scope.resolve(p) for p in conjuncts(where.this if where else None))
        parts = (*(p for source in sources for p in source.on), *asked)
        refuse_windows(
            [*parts, *filter(None, map(node.args.get, ("group", "having")))], "WHERE, ON, GROUP BY or HAVING"
        )
        for part in parts:
            refuse_aggregates(part, "WHERE and ON see single rows", "filter aggregates with HAVING")
        replaced = next((r for r in scope.relations if r.key is not None), None)
        if replaced is not None:
            return self._newest(node, scope, replaced, alias)
        draft, scope = put_together(sources, asked, node.meta.get(ORDER, ()))
        in_one_order(node, scope)
        qualify = node.args.get("qualify")
        overs = [w for part in (*node.expressions, qualify) if part for w in windows_in(part)]
        if qualify and not overs:
            msg = "QUALIFY filters by window functions, and there is none"
            raise SqlFault(msg, qualify.this, "use HAVING" if is_aggregated(node) else "use WHERE")
        if overs and is_aggregated(node):
            msg = "window functions (OVER) do not go with aggregates without OVER in one SELECT"
            raise SqlFault(msg, overs[0], "aggregate in a sub-query, and select from it")
        if node.args.get("distinct"):
            overs = self._distinct(node, scope, bool(overs))
        counted = count_window(node, scope)
        if counted is not None:
            return self._over(node, counted.select, draft, scope, alias, counted)
        if is_aggregated(node):
            return self._aggregated(node, draft, scope, alias)
        if overs and how_ranked(overs, scope) is not None:
            return self._ranked(node, draft, scope, alias)
        if overs:
            return self._over(node, node, draft, scope, alias)
        if CHANGES in node.meta:
            msg = "emit('changes') is for windows: GROUP BY .., window(ts, '10 seconds')"
            raise SqlFault(msg, node.expressions[0], "remove the hint /*+ emit('changes') */")
        if KEEP in node.meta and not any(isinstance(source.how, Asof) for source in sources):
            msg = "keep is for totals (GROUP BY without a window) and window functions"
            raise SqlFault(msg, node.expressions[0], "remove the hint /*+ keep(..) */")
        columns, fields = [], []
        for name, value in self._select_list(node, scope):
            resolved = scope.resolve(value)
            refuse_aggregates(resolved, "window() needs GROUP BY", "add GROUP BY window(ts, '10 seconds')")
            source = scope.field(resolved.name) if isinstance(resolved, exp.Column) else None
            columns.append(ColumnNode(_flat(alias, name), resolved))
            made = source or ScopeField(name, "", kind_of(resolved, lambda flat: _type(scope, flat)))
            fields.append(replace(made, name=name, flat=_flat(alias, name)))
        refuse_twins(node, fields)
        return Result(ProjectNode(draft, tuple(columns)), tuple(fields))

    def _write_out(self, node: exp.Select, scope: NameScope) -> None:
        """What * stands for is fixed here: the stream may get columns more, and the oracle has some of its own."""
        items = self._select_list(node, scope)
        node.set("expressions", [exp.alias_(value.copy(), name, quoted=True) for name, value in items])

    def _over(
        self,
        origin: exp.Select,
        node: exp.Select,
        draft: Draft,
        scope: NameScope,
        alias: str | None,
        counted: CountWindow | None = None,
    ) -> Result:
        """A SELECT with window functions; `counted`: that stand for a count window of `origin`."""
        overs = Overs(scope, origin.meta.get(KEEP, 0), distinct=counted is not None)
        items = self._select_list(node, scope)
        values = [overs.over(value) for _, value in items]
        qualify = node.args.get("qualify")
        condition = overs.over(_without_aliases(qualify.this, items, scope)) if qualify else None
        for value in (*values, *filter(None, [condition])):
            refuse_aggregates(value, "an aggregate beside window functions needs OVER, too", "aggregate in a sub-query")
        columns, fields = [], []
        for (name, _), value in zip(items, values, strict=True):
            source = scope.field(value.name) if isinstance(value, exp.Column) else None
            if source is not None and overs.looks_ahead:
                source = replace(source, lag_us=None)
            columns.append(ColumnNode(_flat(alias, name), value))
            fields.append(replace(source or ScopeField(name, ""), name=name, flat=_flat(alias, name)))
        refuse_twins(node, fields)
        over = overs.draft(draft)
        form = overs.batch_form(items)
        origin.meta[NOTE] = form if counted is None else counted.batch_form(form)
        return Result(ProjectNode(filtered(over, conjuncts(condition)), tuple(columns)), tuple(fields))

    def _distinct(self, node: exp.Select, scope: NameScope, ranked: bool) -> list[exp.Window]:
        """The SELECT without DISTINCT: grouped by its columns, if time is one; else the first of all that are alike."""
        if ranked or is_aggregated(node):
            msg = "DISTINCT does not go with aggregates and window functions in one SELECT"
            raise SqlFault(msg, node.expressions[0], "use a sub-query")
        items = self._select_list(node, scope)
        node.set("expressions", [exp.alias_(value.copy(), name, quoted=True) for name, value in items])
        node.set("distinct", None)
        read = [scope.resolve(value) for _, value in items]
        fields = [scope.field(value.name) for value in read if isinstance(value, exp.Column)]
        if KEEP not in node.meta:
            if all(field is None or field.lag_us is None for field in fields):
                refuse_distinct(node.expressions[0])
            node.set("group", exp.Group(expressions=[value.copy() for _, value in items]))
            return []
        time = next(((r, f) for r in scope.relations for f in r.fields if f.lag_us is not None), None)
        if time is None:
            refuse_distinct(node.expressions[0])
            raise AssertionError
        order = exp.Order(expressions=[exp.Ordered(this=scope.reference(*time), nulls_first=True)])
        first = exp.Window(
            this=exp.Anonymous(this="row_number"),
            partition_by=[value.copy() for _, value in items],
            order=order,
            over="OVER",
        )
        node.set("qualify", exp.Qualify(this=exp.EQ(this=first, expression=exp.Literal.number(1))))
        return [first]

    def _ranked(self, node: exp.Select, draft: Draft, scope: NameScope, alias: str | None) -> Result:
        """A SELECT with window functions that do not follow time."""
        ranks, items = Ranks(scope), self._select_list(node, scope)
        windows = [w for part in (*node.expressions, node.args.get("qualify")) if part for w in windows_in(part)]
        endless = how_ranked(windows, scope) == "endless"
        values = [ranks.over(value) for _, value in items]
        qualify = node.args.get("qualify")
        condition = ranks.over(_without_aliases(qualify.this, items, scope)) if qualify else None
        for value in (*values, *filter(None, [condition])):
            refuse_aggregates(value, "an aggregate beside window functions needs OVER, too", "aggregate in a sub-query")
        columns = [ColumnNode(_flat(alias, name), value) for (name, _), value in zip(items, values, strict=True)]
        fields = []
        for (name, _), value in zip(items, values, strict=True):
            source = scope.field(value.name) if isinstance(value, exp.Column) else None
            if source is not None and (endless or not _tied(source, ranks.time)):
                source = replace(source, lag_us=None)
            fields.append(replace(source or ScopeField(name, ""), name=name, flat=_flat(alias, name)))
        refuse_twins(node, fields)
        if not endless:
            ranked: Draft = filtered(ranks.final(draft), conjuncts(condition))
            node.meta[NOTE] = ranks.batch_form(items)
            return Result(ProjectNode(ranked, tuple(columns)), tuple(fields))
        top = ranks.endless(draft, condition, node.meta.get(KEEP))
        node.meta[NOTE] = ranks.batch_form(items)
        wanted = [*top.keys, *([top.place] if top.limit > 1 else [])]
        return _with_key(node, top, columns, fields, wanted)

    def _newest(self, node: exp.Select, scope: NameScope, replaced: Relation, alias: str | None) -> Result:
        """A SELECT of rows that replace each other: their columns, and nothing that would have to be taken back."""
        clauses = [clause for clause, value in node.args.items() if value and clause not in ("expressions", "from_")]
        if len(scope.relations) > 1 or clauses or any(item.find(exp.Window) for item in node.expressions):
            refuse_totals(replaced.key, replaced.origin or node)
        items = self._select_list(node, scope)
        columns = [ColumnNode(_flat(alias, name), scope.resolve(value)) for name, value in items]
        for made in columns:
            refuse_aggregates(made.value, "rows that replace each other cannot be aggregated", "aggregate in a window")
        fields = [ScopeField(name, _flat(alias, name)) for name, _ in items]
        refuse_twins(node, fields)
        key = [f.flat for f in replaced.fields if f.name in (replaced.key or ())]
        return _with_key(node, replaced.draft, columns, fields, key)

    def _aggregated(self, node: exp.Select, draft: Draft, scope: NameScope, alias: str | None) -> Result:
        grouping = Grouping(node, scope)
        columns, fields = [], []
        for item in node.expressions:
            if item.find(exp.Star) and not item.find(exp.Count):
                msg = "SELECT * does not go with GROUP BY"
                raise SqlFault(msg, item, "list the keys and aggregates")
            value = grouping.over(item.unalias())
            name = item.alias_or_name
            columns.append(ColumnNode(_flat(alias, name), value))
            fields.append(grouping.field(name, _flat(alias, name), value))
        having = node.args.get("having")
        refuse_twins(node, fields)
        if grouping.running:
            return self._totals(node, grouping, draft, columns, fields)
        kept = conjuncts(grouping.having(having.this)) if having else ()
        aggregate: Draft = grouping.draft(draft)
        return Result(ProjectNode(FilterNode(aggregate, kept) if kept else aggregate, tuple(columns)), tuple(fields))

    @staticmethod
    def _totals(
        node: exp.Select, grouping: Grouping, draft: Draft, columns: list[ColumnNode], fields: list[ScopeField]
    ) -> Result:
        """Rows that replace each other carry their key, and which of two is newer."""
        having = node.args["having"].this if node.args.get("having") else None
        running = grouping.running_draft(draft, having)
        node.meta[NOTE] = grouping.batch_form(having)
        return _with_key(node, running, columns, fields, grouping.replaced_by({c.bare for c in columns}))

    @staticmethod
    def _select_list(node: exp.Select, scope: NameScope) -> list[tuple[str, exp.Expr]]:
        """(name, expression) of every result column, with stars expanded."""
        items: list[tuple[str, exp.Expr]] = []
        for item in node.expressions:
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if not isinstance(star, exp.Star):
                named = item.alias_or_name or (item.expression.name if item.expression else "")
                if not named:
                    msg = "the name of a column is empty"
                    raise SqlFault(msg, item, "name what is selected: expression AS name")
                items.append((named, item.unalias()))
                continue
            if any(star.args.values()):
                msg = "* EXCEPT, REPLACE and RENAME are not supported"
                raise SqlFault(msg, item, "list the columns")
            items += [(f.name, scope.reference(r, f)) for f, r in scope.expand(item)]
        return items

    def _sources(self, node: exp.Select, known: Mapping[str, Definition]) -> tuple[FromItem, ...]:
        """What FROM and JOIN name, how it is joined and under which conditions."""
        start = node.args.get("from_")
        if start is None or not node.expressions:
            msg = "there is no FROM" if start is None else "nothing is selected"
            raise SqlFault(msg, node, "write SELECT columns FROM a declared stream")
        joins = node.args.get("joins") or []
        relations = [self._relation(source, known) for source in (start.this, *(j.this for j in joins))]
        refuse_table(relations[0])
        for i, relation in enumerate(relations):
            if any(same(relation.alias, earlier.alias) for earlier in relations[:i]):
                msg = f"'{relation.alias}' stands twice in this FROM"
                raise SqlFault(msg, relation.origin, f"give one an alias: {relation.alias} AS other")
        found, hidden = [FromItem(relations[0])], set[int]()
        for i, join in enumerate(joins, 1):
            how: How | Asof | None = check_join(join)
            table = table_of(relations[i])
            if table is not None or join.args.get("match_condition"):
                how = self._asof(join, how, relations[: i + 1], table, node.meta.get(KEEP))
            # An inner join's ON may speak of what is joined later; one of an outer join, of what is there.
            there = relations if how is None else relations[: i + 1]
            scope = NameScope(tuple(r for k, r in enumerate(there) if k not in hidden))
            found.append(FromItem(relations[i], how, tuple(map(scope.resolve, conjuncts(join.args.get("on"))))))
            hidden |= {i} if how in ("semi", "anti") else set()
        return tuple(found)

    @staticmethod
    def _asof(
        join: exp.Join, how: How | Asof | None, there: list[Relation], table: Stream | None, keep: int | None
    ) -> Asof:
        """A join with the newest row, or with a version of a table's."""
        if how not in (None, "left"):
            msg = "of the joins as of a time there are JOIN and LEFT JOIN"
            raise SqlFault(msg, join.this, "write ASOF JOIN, ASOF LEFT JOIN, or (LEFT) JOIN with the table")
        match = join.args.get("match_condition")
        resolved = None if match is None else NameScope(tuple(there)).resolve(match)
        return Asof(how == "left", resolved, keep, table, join)

    def _relation(self, source: exp.Expr, known: Mapping[str, Definition]) -> Relation:
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Query):
            name = source.alias or "subquery"
            return self._nested(name, source.this, known, source)
        if not isinstance(source, exp.Table) or source.args.get("joins"):
            msg = "joins in parentheses are not supported"
            raise SqlFault(msg, source, "write the joins one after the other")
        late = same(source.db, LATE) and not source.catalog
        if source.args.get("db") and not late:
            msg = f"'{source.sql('spark')}' is a table or a file, not a stream"
            raise SqlFault(msg, source, f"name a declared stream: {', '.join(sorted(self._streams)[:8])}")
        definition = known.get(source.name.lower()) if not late else None
        if definition is not None:
            return self._nested(source.alias_or_name, definition.query, definition.known, source)
        return self._scan(source, late)

    def _nested(self, name: str, query: exp.Expr, known: Mapping[str, Definition], origin: exp.Expr) -> Relation:
        result = self.query(query, known, self._take(name))
        return Relation(name, result.draft, result.fields, origin, result.key)

    def _scan(self, source: exp.Table, late: bool) -> Relation:
        stream = self._streams.get(source.name.lower())
        if stream is None:
            msg = f"there is no stream '{source.name}'"
            raise unknown(msg, source, source.name, (str(s.id) for s in self._streams.values()))
        alias = self._take(source.alias or str(stream.id))
        time = ARRIVED if self._arrival else stream.time
        fields = [
            ScopeField(c.name, flat(alias, c.name), c.type.lower(), 0 if same(c.name, time) else None)
            for c in stream.columns
        ]
        columns = [c.name for c in stream.columns]
        if self._arrival:
            if stream.key:
                msg = f"'{stream.id}' is a reference table: its rows hold by event time, and this query goes by arrival"
                raise SqlFault(msg, source, f"join by the time column, or without {ARRIVED} and PROCTIME()")
            fields.append(ScopeField(ARRIVED, flat(alias, ARRIVED), "timestamp", 0, hidden=True))
            columns.append(ARRIVED)
        scan = ScanNode(stream, alias, tuple(columns), arrival=self._arrival, late=late)
        return Relation(source.alias_or_name, scan, tuple(fields), source)

    def _take(self, alias: str) -> str:
        """A name for the plan's columns that no other part of the plan has; `__` keeps its meaning."""
        base = "_".join(part for part in alias.split("_") if part) or "s"
        name, n = base, 2
        while name.lower() in self._taken:
            name, n = f"{base}_{n}", n + 1
        self._taken.add(name.lower())
        return name


def _definitions(node: exp.Expr, known: Mapping[str, Definition]) -> Mapping[str, Definition]:
    clause = node.args.get("with_")
    for cte in clause.expressions if clause else ():
        if not isinstance(cte.this, exp.Query):
            msg = "WITH can only name a SELECT"
            raise SqlFault(msg, cte, "write WITH name AS (SELECT ..)")
        known = {**known, cte.alias.lower(): Definition(cte.this, known)}
    return known


def _without_aliases(condition: exp.Expr, items: list[tuple[str, exp.Expr]], scope: NameScope) -> exp.Expr:
    """QUALIFY may use the SELECT list's aliases."""
    known = {name.lower(): value for name, value in items}

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or len(node.parts) > 1 or scope.find(node) is not None:
            return node
        value = known.get(node.name.lower())
        return node if value is None else exp.paren(value.copy(), copy=False)

    return condition.copy().transform(swap, copy=False)


def _with_key(
    node: exp.Select, draft: Draft, columns: list[ColumnNode], fields: list[ScopeField], keys: list[str]
) -> Result:
    """Rows that replace each other carry their key, and which of two is newer."""
    selected = {c.bare: field.name for c, field in zip(columns, fields, strict=True)}
    if any(key not in selected for key in keys):
        msg = "a key is not selected, so nobody could tell whose row a new one replaces"
        remedy = "select all of GROUP BY or PARTITION BY, and the place of a row where there are several"
        raise SqlFault(msg, node.expressions[0], remedy)
    hidden = [ColumnNode(name, column(name)) for name in (VERSION, DELETED)]
    return Result(ProjectNode(draft, (*columns, *hidden)), tuple(fields), tuple(selected[key] for key in keys))


def _tied(field: ScopeField, time: ScopeField) -> bool:
    """Whether a column lies at a fixed distance from a time."""
    return field == time or (field.tied is not None and time.tied is not None and field.tied[0] == time.tied[0])


def _type(scope: NameScope, flat: str) -> str | None:
    known = scope.field(flat)
    return known.type if known else None


def _flat(alias: str | None, name: str) -> str:
    return flat(alias, name) if alias else name


def _later(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
