"""Queries built in Python. They are SQL in the end: `.sql()` is the text that `compile_query` takes, one way to a plan.

(stream("passengers")
    .where("boarded + alighted > 2")
    .group_by("train", tumbling("ts", "10 seconds"))
    .agg(delta="sum(boarded) - sum(alighted)", until="window.end")
    .having("delta > 0"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from godwit.errors import SqlError
from godwit.ids import QueryId, StreamId
from godwit.model.plan import Query, Stream
from godwit.sql.compile import compile_query
from godwit.sql.dialect import PlainSpark, text


def stream(name: str, alias: str | None = None) -> Builder:
    """A declared stream (or derived stream) to start from."""
    return Builder(_Source(exp.to_identifier(name), alias or name))


def tumbling(time: str, size: str) -> str:
    return f"window({time}, '{size}')"


def hopping(time: str, size: str, slide: str) -> str:
    return f"window({time}, '{size}', '{slide}')"


def session(time: str, gap: str) -> str:
    return f"session_window({time}, '{gap}')"


def counting(time: str, rows: int, slide: int | None = None) -> str:
    return f"count_window({time}, {rows})" if slide is None else f"count_window({time}, {rows}, {slide})"


@dataclass(frozen=True, eq=False)
class _Source:
    """Something to select from: a stream's name or a whole query."""

    what: exp.Identifier | exp.Query
    alias: str

    def node(self) -> exp.Expr:
        alias = exp.TableAlias(this=exp.to_identifier(self.alias))
        if isinstance(self.what, exp.Identifier):
            same = self.what.name == self.alias
            return exp.Table(this=self.what.copy(), alias=None if same else alias)
        return exp.Subquery(this=self.what.copy(), alias=alias)


@dataclass(frozen=True, eq=False)
class _Joined:
    source: _Source
    on: tuple[exp.Expr, ...]


@dataclass(frozen=True, eq=False)
class Builder:
    """A query so far. Every method returns a new one; nothing is checked before `compile`."""

    source: _Source
    joins: tuple[_Joined, ...] = ()
    filters: tuple[exp.Expr, ...] = ()
    keys: tuple[exp.Expr, ...] = ()
    outputs: tuple[exp.Expr, ...] = ()
    kept: tuple[exp.Expr, ...] = ()
    others: tuple[Builder, ...] = ()
    target: str | None = None
    kept_for: str | None = None

    def where(self, *conditions: str) -> Builder:
        """Keep the rows for which all conditions hold."""
        return replace(self, filters=self.filters + _all(conditions))

    def select(self, *columns: str, **named: str) -> Builder:
        """The result's columns: expressions as they are, or name=expression."""
        return replace(self, outputs=self.outputs + _all(columns) + _named(named))

    def group_by(self, *keys: str) -> Builder:
        """Keys and one window: `tumbling`, `hopping`, `session` or `counting`; without a window see `keep`. The plain
        keys become result columns."""
        parsed = _all(keys)
        shown = tuple(k.copy() for k in parsed if isinstance(k, exp.Column))
        return replace(self, keys=self.keys + parsed, outputs=self.outputs + shown)

    def agg(self, **named: str) -> Builder:
        """name=aggregate expression, e.g. delta="sum(boarded) - sum(alighted)", until="window.end"."""
        return replace(self, outputs=self.outputs + _named(named))

    def having(self, *conditions: str) -> Builder:
        return replace(self, kept=self.kept + _all(conditions))

    def keep(self, length: str) -> Builder:
        """Totals without a window: how long a key without rows is kept, "1 day" or "forever"."""
        return replace(self, kept_for=length)

    def join(
        self,
        other: Builder | str,
        *,
        on: Sequence[str],
        within: tuple[str, str] | None = None,
        times: tuple[str, str] = ("ts", "ts"),
        alias: str = "",
    ) -> Builder:
        """Pair with rows of another stream: `on` are conditions, or names of columns that both have.

        `within=("-10 seconds", "5 seconds")` is the band of the other's time minus ours; `times` names the two columns.
        """
        source = _source_of(other if isinstance(other, Builder) else stream(other), alias)
        mine = self.source.alias
        conditions = [_equality(c, mine, source.alias) for c in on]
        if within is not None:
            conditions.append(_parse(_band(f"{mine}.{times[0]}", f"{source.alias}.{times[1]}", within)))
        return replace(self, joins=(*self.joins, _Joined(source, tuple(conditions))))

    def union_all(self, *others: Builder) -> Builder:
        return replace(self, others=self.others + others)

    def alias(self, name: str) -> Builder:
        """The query so far as a sub-query, to select from."""
        return Builder(_Source(self.query(), name))

    def insert_into(self, target: str) -> Builder:
        """Make the results a derived stream that other queries can read."""
        return replace(self, target=target)

    def query(self) -> exp.Query:
        """The SELECT (with its UNION ALLs) as a syntax tree."""
        select = exp.Select(expressions=[e.copy() for e in self.outputs] or [exp.Star()])
        if self.kept_for is not None:
            call = exp.Anonymous(this="keep", expressions=[exp.Literal.string(self.kept_for)])
            select.set("hint", exp.Hint(expressions=[call]))
        select.set("from_", exp.From(this=self.source.node()))
        select.set("joins", [exp.Join(this=j.source.node(), on=_and(j.on)) for j in self.joins])
        if self.filters:
            select.set("where", exp.Where(this=_and(self.filters)))
        if self.keys:
            select.set("group", exp.Group(expressions=[k.copy() for k in self.keys]))
        if self.kept:
            select.set("having", exp.Having(this=_and(self.kept)))
        whole: exp.Query = select
        for other in self.others:
            whole = exp.Union(this=whole, expression=other.query(), distinct=False)
        return whole

    def sql(self) -> str:
        select = text(self.query(), pretty=True)
        return f"INSERT INTO {text(exp.to_identifier(self.target))}\n{select}" if self.target else select

    def compile(self, streams: Mapping[StreamId, Stream], query_id: QueryId) -> Query:
        return compile_query(self.sql(), streams, query_id)


def _source_of(builder: Builder, alias: str) -> _Source:
    """A builder that is no more than a stream stays one; anything else becomes a sub-query."""
    if not any((builder.joins, builder.filters, builder.keys, builder.outputs, builder.others)):
        return replace(builder.source, alias=alias or builder.source.alias)
    return _Source(builder.query(), alias or builder.source.alias)


def _equality(condition: str, mine: str, other: str) -> exp.Expr:
    parsed = _parse(condition)
    if not isinstance(parsed, exp.Column):
        return parsed
    return exp.EQ(this=exp.column(parsed.name, table=mine), expression=exp.column(parsed.name, table=other))


def _band(mine: str, other: str, within: tuple[str, str]) -> str:
    lower, upper = within
    return f"{other} BETWEEN {mine} + INTERVAL '{lower}' AND {mine} + INTERVAL '{upper}'"


def _parse(sql: str) -> exp.Expr:
    try:
        return parse_one(sql, dialect=PlainSpark)
    except SqlglotError as error:
        problem = f"'{sql}' is not an SQL expression"
        raise SqlError(problem, place=sql, remedy=str(error).splitlines()[0]) from None


def _all(texts: Iterable[str]) -> tuple[exp.Expr, ...]:
    return tuple(_parse(t) for t in texts)


def _named(named: Mapping[str, str]) -> tuple[exp.Expr, ...]:
    return tuple(exp.alias_(_parse(sql), name) for name, sql in named.items())


def _and(parts: Iterable[exp.Expr]) -> exp.Expr:
    return exp.and_(*[p.copy() for p in parts])
