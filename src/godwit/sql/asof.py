"""As-of joins: `ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON ..`, and the join with a reference table.

`JOIN t ON a.k = t.id` means the version of t's row that holds at the time of a's row; it is an as-of join whose match
condition is `a.ts >= t.since`. For the oracle, versions become intervals: each holds until the next one of its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from godwit.model.plan import GONE, SEQUENCE, Stream
from godwit.sql.batch_form import FORM
from godwit.sql.draft import AsofNode, ColumnNode, Draft, ProjectNode, ScanNode, column, names
from godwit.sql.fault import SqlFault
from godwit.sql.kinds import kind_of
from godwit.sql.push import outputs
from godwit.sql.scope import NameScope, Relation, ScopeField

_UNTIL = "__until"


class Asof(NamedTuple):
    """How a relation is joined as of a time."""

    outer: bool
    #: MATCH_CONDITION, resolved; None: a table as of the row's time
    match: exp.Expr | None
    #: how long a row of the right is kept (microseconds); 0: for ever; None: it was not said
    keep_us: int | None
    #: of a reference table: its stream
    table: Stream | None
    join: exp.Join


@dataclass(frozen=True, eq=False)
class AsofForm:
    """The join as Spark can run it: with intervals instead of versions."""

    left_time: exp.Column
    right_time: exp.Column
    strict: bool
    keep_us: int
    keys: tuple[exp.Expr, ...]
    ties: tuple[exp.Expr, ...]
    deleted: bool

    def rewrite(self, join: exp.Join) -> None:
        source, name = join.this, join.this.alias_or_name
        order = [exp.Ordered(this=e.copy(), nulls_first=True) for e in (self.right_time, *self.ties)]
        until = exp.Window(
            this=exp.Anonymous(this="lead", expressions=[self.right_time.copy()]),
            partition_by=[key.copy() for key in self.keys],
            order=exp.Order(expressions=order),
            over="OVER",
        )
        inner = exp.Select(expressions=[exp.Star(), exp.alias_(until, _UNTIL)])
        inner.set("from_", exp.From(this=source.copy()))
        alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        join.set("this", exp.Subquery(this=inner, alias=alias))
        end = exp.column(_UNTIL, table=name, quoted=True)
        left, right = self.left_time, self.right_time
        after, before = (exp.GT, exp.LTE) if self.strict else (exp.GTE, exp.LT)
        said: list[exp.Expr] = [
            after(this=left.copy(), expression=right.copy()),
            exp.paren(
                exp.or_(exp.Is(this=end, expression=exp.null()), before(this=left.copy(), expression=end.copy()))
            ),
        ]
        if self.keep_us:
            us = [exp.Anonymous(this="unix_micros", expressions=[t.copy()]) for t in (left, right)]
            age = exp.Sub(this=us[0], expression=us[1])
            said.append(exp.LTE(this=age, expression=exp.Literal.number(self.keep_us)))
        if self.deleted:
            said.append(exp.Not(this=exp.column(GONE, table=name, quoted=True)))
        join.set("on", exp.and_(*filter(None, [join.args.get("on")]), *said))
        join.set("method", None)
        join.set("match_condition", None)


def table_of(relation: Relation) -> Stream | None:
    """The reference table that a relation is, if it is one."""
    draft = relation.draft
    return draft.stream if isinstance(draft, ScanNode) and draft.stream.key else None


def refuse_table(relation: Relation) -> None:
    """The first of a FROM must be a stream: its rows are answered."""
    table = table_of(relation)
    if table is not None:
        msg = f"'{table.id}' is a reference table: it has rows, but none that come"
        raise SqlFault(
            msg, relation.origin, f"begin with a stream: FROM s JOIN {table.id} ON s.key = {table.id}.{table.key[0]}"
        )


def join_asof(
    scope: NameScope, left: Draft, relation: Relation, how: Asof, on: tuple[exp.Expr, ...]
) -> tuple[Draft, NameScope]:
    """The relation joined to what is there, and the scope above."""
    maker = _Maker(scope, relation, how)
    return maker.run(left, on)


class _Maker:
    def __init__(self, scope: NameScope, relation: Relation, how: Asof) -> None:
        self._scope, self._relation, self._how = scope, relation, how
        self._theirs = {f.flat: f for f in relation.fields}
        self._mine = {f.flat: f for r in scope.relations for f in r.fields}

    def run(self, left: Draft, on: tuple[exp.Expr, ...]) -> tuple[Draft, NameScope]:
        how, relation = self._how, self._relation
        left_time, right_time, strict = self._match()
        if how.table is None and how.keep_us is None:
            msg = f"the newest row of '{relation.alias}' of each key would be kept for ever"
            raise SqlFault(msg, relation.origin, "say so, or for how long: SELECT /*+ keep('1 hour') */ ..")
        pairs = [(p, pair) for p in on if (pair := self._key(p)) is not None]
        if how.table is not None:
            wanted = {self._flat(name) for name in how.table.key}
            pairs = [(p, pair) for p, pair in pairs if isinstance(pair[1], exp.Column) and pair[1].name in wanted]
            if {pair[1].name for _, pair in pairs} != wanted:
                msg = f"the rows of table '{how.table.id}' are named by {', '.join(how.table.key)}"
                key = " AND ".join(f".. = {relation.alias}.{name}" for name in how.table.key)
                raise SqlFault(msg, relation.origin, f"join by all of it: ON {key}")
        if not pairs:
            msg = f"'{relation.alias}' is joined without an equality"
            raise SqlFault(
                msg, relation.origin, f"add one, e.g. ON {scope_alias(self._scope)}.key = {relation.alias}.key"
            )
        taken = {id(p) for p, _ in pairs}
        rest = tuple(p for p in on if id(p) not in taken)
        pushed = (
            () if how.table is not None else tuple(p for p in rest if names([p]) and names([p]) <= self._theirs.keys())
        )
        if pushed:
            msg = "a condition on the right of an ASOF JOIN alone would be asked before or after the newest is taken"
            raise SqlFault(msg, pushed[0], "say which: filter in a sub-query, or in WHERE")
        ties = [self._flat(SEQUENCE)] if how.table is not None else sorted(self._theirs)
        mine, theirs, keys = self._keys(left, relation.draft, [pair for _, pair in pairs])
        fields = {**self._mine, **self._theirs}
        made = AsofNode(
            mine,
            theirs,
            keys,
            left_time.flat,
            right_time.flat,
            tuple(ties),
            how.outer,
            strict,
            self._flat(GONE) if how.table is not None else None,
            rest,
            how.keep_us or 0,
            left_time.lag_us or 0,
            (right_time.lag_us or 0) + (how.table.disorder_us if how.table is not None else 0),
            {name: f.type for name, f in fields.items()},
            relation.origin,
        )
        how.join.meta[FORM] = self._form(made, on, taken)
        return made, self._above(made)

    def _above(self, made: AsofNode) -> NameScope:
        """Rows of the left come out when the watermark has passed them; the right's times say nothing."""
        wait = max(made.left_lag_us, made.right_lag_us)
        relations = []
        for relation in self._scope.relations:
            told = tuple(
                ScopeField(
                    f.name,
                    f.flat,
                    f.type,
                    max(f.lag_us, wait) if f.flat == made.left_time and f.lag_us is not None else None,
                )
                for f in relation.fields
            )
            relations.append(Relation(relation.alias, relation.draft, told, relation.origin))
        hidden = (SEQUENCE, GONE)
        theirs = tuple(ScopeField(f.name, f.flat, f.type) for f in self._relation.fields if f.name not in hidden)
        relations.append(Relation(self._relation.alias, self._relation.draft, theirs, self._relation.origin))
        return NameScope(tuple(relations))

    def _flat(self, name: str) -> str:
        return next(f.flat for f in self._relation.fields if f.name.lower() == name.lower())

    def _match(self) -> tuple[ScopeField, ScopeField, bool]:
        """(time of the left, time of the right, whether the right must be older)"""
        right = next((f for f in self._relation.fields if f.lag_us is not None), None)
        left = next((f for f in self._mine.values() if f.lag_us is not None), None)
        match = self._how.match
        if left is None or right is None:
            lacking = scope_alias(self._scope) if left is None else self._relation.alias
            msg = f"'{lacking}' has no time column, so nobody can tell what was newest"
            raise SqlFault(msg, self._relation.origin, "select its time column, as it is, in the sub-query")
        if match is None:
            return left, right, False
        match = match.this if isinstance(match, exp.Paren) else match
        if isinstance(match, exp.LTE | exp.LT):
            match = (exp.GTE if isinstance(match, exp.LTE) else exp.GT)(this=match.expression, expression=match.this)
        sides = (match.this, match.expression) if isinstance(match, exp.GTE | exp.GT) else (None, None)
        found = [
            known.get(side.name) if isinstance(side, exp.Column) else None
            for known, side in zip((self._mine, self._theirs), sides, strict=True)
        ]
        if found[0] is None or found[1] is None or found[0].lag_us is None or found[1].lag_us is None:
            msg = "MATCH_CONDITION compares the left's time with an earlier time of the right"
            mine, theirs = f"{scope_alias(self._scope)}.{left.name}", f"{self._relation.alias}.{right.name}"
            raise SqlFault(msg, self._how.match, f"write MATCH_CONDITION ({mine} >= {theirs})")
        return found[0], found[1], isinstance(match, exp.GT)

    def _key(self, part: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        if not isinstance(part, exp.EQ):
            return None
        read = [names([side]) for side in (part.left, part.right)]
        if not all(read):
            return None
        if read[0] <= self._mine.keys() and read[1] <= self._theirs.keys():
            return part.left, part.right
        return (part.right, part.left) if read[1] <= self._mine.keys() and read[0] <= self._theirs.keys() else None

    def _keys(
        self, left: Draft, right: Draft, pairs: list[tuple[exp.Expr, exp.Expr]]
    ) -> tuple[Draft, Draft, tuple[tuple[str, str], ...]]:
        """Keys as columns of one type: expressions are computed below."""
        known = {**self._mine, **self._theirs}

        def type_of(name: str) -> str | None:
            return known[name].type if name in known else None

        made: tuple[list[ColumnNode], list[ColumnNode]] = ([], [])
        keys = []
        for number, pair in enumerate(pairs):
            kinds = [kind_of(side, type_of) for side in pair]
            if None not in kinds and kinds[0] != kinds[1]:
                msg = f"the keys are of different types, {kinds[0]} and {kinds[1]}"
                raise SqlFault(msg, self._relation.origin, f"cast one: CAST(.. AS {kinds[1]})")
            here = []
            for side, value in enumerate(pair):
                if isinstance(value, exp.Column):
                    here.append(value.name)
                    continue
                name = f"{self._theirs and next(iter(self._theirs)).split('__', 1)[0]}__asof{number}_{side}"
                made[side].append(ColumnNode(name, value))
                here.append(name)
            keys.append((here[0], here[1]))
        return _with(left, made[0]), _with(right, made[1]), tuple(keys)

    def _form(self, made: AsofNode, on: tuple[exp.Expr, ...], keys: set[int]) -> AsofForm:
        """The same in the query's own words."""
        whole = NameScope((*self._scope.relations, self._relation))
        named = {f.flat: exp.column(f.name, table=r.alias, quoted=True) for r in whole.relations for f in r.fields}

        def spoken(value: exp.Expr) -> exp.Expr:
            return value.copy().transform(lambda n: named[n.name].copy() if isinstance(n, exp.Column) else n)

        theirs = [pair[1] for p in on if id(p) in keys and (pair := self._key(p)) is not None]
        ties = tuple(named[name] for name in made.ties)
        return AsofForm(
            named[made.left_time],
            named[made.right_time],
            made.strict,
            made.keep_us,
            tuple(spoken(key) for key in theirs),
            ties,
            made.deleted is not None,
        )


def _with(draft: Draft, more: list[ColumnNode]) -> Draft:
    if not more:
        return draft
    return ProjectNode(draft, (*(ColumnNode(name, column(name)) for name in sorted(outputs(draft))), *more))


def scope_alias(scope: NameScope) -> str:
    return scope.relations[0].alias
