"""The query as Spark can run it over tables: what the oracle computes. Only what is not Spark's own is rewritten.

- `keep('1 day')` becomes: group by sessions with that gap, and of each key take the newest.
- Window functions that count rows get an order in which no two different rows are equal; with `keep`, the rows of a key
  are parted where they are too far apart.
- Joins as of a time become joins by the interval in which a row is the newest.
- Where a query goes by arrival, streams are read with that column (`arrival_view`).
- `count_window(ts, n, slide)` becomes: number the rows of each key, and group by the windows that a number belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp, parse_one

from godwit.model.plan import arrival_view
from godwit.sql.dialect import PlainSpark
from godwit.sql.functions import RANKING

#: meta key of a Join: the same (`asof.py`)
FORM = "godwit_asof"
#: meta key of a SELECT: what compiling has learned of it that its batch form needs
NOTE = "godwit_batch_form"
_RANK, _HOLDS = "__rank", "__holds"
_NUMBER, _WINDOW = "__number", "__count_window"
_BEGINS, LIFE = "__begins", "__life"


@dataclass(frozen=True, eq=False)
class KeptForm:
    """A SELECT with totals per key; its parts as the user wrote them, aliases and positions replaced."""

    #: how long a key without rows is kept (microseconds); 0: for ever
    length_us: int
    time: exp.Expr
    keys: tuple[exp.Expr, ...]
    having: exp.Expr | None

    def rewritten(self, select: exp.Select) -> exp.Select:
        return self._newest(select) if self.length_us else self._forever(select)

    def _forever(self, select: exp.Select) -> exp.Select:
        """Spark has a row for no rows at all; a total begins with its first row."""
        if not self.keys:
            some = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(0))
            select.set("having", exp.Having(this=some if self.having is None else exp.and_(some, self.having)))
        return select

    def _newest(self, select: exp.Select) -> exp.Select:
        gap = exp.Literal.string(f"{self.length_us} microseconds")
        session = exp.Anonymous(this="session_window", expressions=[self.time.copy(), gap])
        last = exp.Anonymous(this="max", expressions=[self.time.copy()])
        rank = exp.Window(
            this=exp.Anonymous(this="row_number"),
            partition_by=[key.copy() for key in self.keys],
            order=exp.Order(expressions=[exp.Ordered(this=last, desc=True, nulls_first=False)]),
            over="OVER",
        )
        names = [item.alias_or_name for item in select.expressions]
        holds = exp.true() if self.having is None else self.having.copy()
        select.set("having", None)
        select.set("group", exp.Group(expressions=[*(key.copy() for key in self.keys), session]))
        select.set("expressions", [*select.expressions, exp.alias_(rank, _RANK), exp.alias_(holds, _HOLDS)])
        return _chosen(
            names,
            select,
            exp.and_(exp.EQ(this=exp.column(_RANK), expression=exp.Literal.number(1)), exp.column(_HOLDS)),
        )


@dataclass(frozen=True, eq=False)
class LivesForm:
    """Rows of a key that come longer than `keep_us` after the one before them belong to another life of the key."""

    keep_us: int
    time: exp.Expr
    keys: tuple[exp.Expr, ...]
    ties: tuple[exp.Expr, ...]

    def number(self, select: exp.Select) -> None:
        """The SELECT's rows have the number of their life in a column."""
        us = exp.Anonymous(this="unix_micros", expressions=[self.time.copy()])
        before = self._over(exp.Anonymous(this="lag", expressions=[us.copy()]))
        gap = exp.GT(this=exp.Sub(this=us, expression=before), expression=exp.Literal.number(self.keep_us))
        begins = exp.Case(ifs=[exp.If(this=gap, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        life = self._over(exp.Anonymous(this="sum", expressions=[exp.column(_BEGINS)]))
        life.set("spec", exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"))
        nest(select, exp.alias_(begins, _BEGINS), exp.alias_(life, LIFE))

    def _over(self, function: exp.Expr) -> exp.Window:
        order = exp.Order(expressions=_ordered((self.time, *self.ties)))
        return exp.Window(this=function, partition_by=[key.copy() for key in self.keys], order=order, over="OVER")


@dataclass(frozen=True, eq=False)
class OverForm:
    """A SELECT with window functions, and the columns that order rows of one time."""

    ties: tuple[exp.Expr, ...]
    lives: LivesForm | None
    #: the SELECT list without stars
    items: tuple[tuple[str, exp.Expr], ...]
    #: number of later rows of the same key that must arrive before a row is answered
    ahead: int = 0

    def rewritten(self, select: exp.Select) -> exp.Select:
        if self.lives is not None:
            select.set("expressions", [exp.alias_(value.copy(), name, quoted=True) for name, value in self.items])
            self.lives.number(select)
        parts = [*select.expressions, *filter(None, [select.args.get("qualify")])]
        for window in [found for part in parts for found in part.find_all(exp.Window)]:
            spec = window.args.get("spec")
            ranking = isinstance(window.this, exp.Anonymous) and window.this.name.lower() in RANKING
            if ranking or (spec is not None and spec.args.get("kind") == "ROWS"):
                window.args["order"].set("expressions", [*window.args["order"].expressions, *_ordered(self.ties)])
            if self.lives is not None:
                window.set("partition_by", [*(window.args.get("partition_by") or ()), exp.column(LIFE)])
        return self._answered(select, parts) if self.ahead else select

    def _answered(self, select: exp.Select, parts: list[exp.Expr]) -> exp.Select:
        """Without the rows that still wait for those after them."""
        window = next(found for part in parts for found in part.find_all(exp.Window))
        after = f"count(*) OVER (ORDER BY x ROWS BETWEEN 1 FOLLOWING AND {self.ahead} FOLLOWING) = {self.ahead}"
        there = parse_one(after, dialect=PlainSpark)
        made = there.find(exp.Window)
        assert made is not None
        for name in ("partition_by", "order"):
            given = window.args.get(name)
            made.set(name, [key.copy() for key in given] if isinstance(given, list) else given and given.copy())
        qualify = select.args.get("qualify")
        select.set("qualify", exp.Qualify(this=exp.and_(qualify.this, there) if qualify else there))
        return select


@dataclass(frozen=True, eq=False)
class RankForm:
    """A SELECT that ranks rows, and the columns that tell apart those that its order leaves equal."""

    ties: tuple[exp.Expr, ...]
    #: the SELECT list without stars
    items: tuple[tuple[str, exp.Expr], ...]

    def rewritten(self, select: exp.Select) -> exp.Select:
        select.set("expressions", [exp.alias_(value.copy(), name, quoted=True) for name, value in self.items])
        parts = [*select.expressions, *filter(None, [select.args.get("qualify")])]
        for window in [found for part in parts for found in part.find_all(exp.Window)]:
            if isinstance(window.this, exp.Anonymous) and window.this.name.lower() == "row_number":
                window.args["order"].set("expressions", [*window.args["order"].expressions, *_ordered(self.ties)])
        return select


@dataclass(frozen=True, eq=False)
class CountForm:
    """A SELECT with GROUP BY keys, count_window(time, size, slide) over one relation."""

    size: int
    slide: int
    time: exp.Expr
    keys: tuple[exp.Expr, ...]
    ties: tuple[exp.Expr, ...]
    lives: LivesForm | None

    def rewritten(self, select: exp.Select) -> exp.Select:
        self._bounds(select)
        keys = list(self.keys)
        if self.lives is not None:
            self.lives.number(select)
            keys.append(exp.column(LIFE))
        number = exp.Window(
            this=exp.Anonymous(this="row_number"),
            partition_by=[key.copy() for key in keys],
            order=exp.Order(expressions=_ordered((self.time, *self.ties))),
            over="OVER",
        )
        # Window j (from 0 on) has the rows j * slide + 1 .. j * slide + size.
        first = f"greatest(0, ceil(({_NUMBER} - {self.size}) / {self.slide}))"
        windows = parse_one(f"explode(sequence({first}, ({_NUMBER} - 1) DIV {self.slide}))", dialect=PlainSpark)
        nest(select, exp.alias_(number, _NUMBER), exp.alias_(windows, _WINDOW))
        select.set("group", exp.Group(expressions=[*(key.copy() for key in keys), exp.column(_WINDOW)]))
        count = exp.Count(this=exp.Star(), big_int=True)
        full: exp.Expr = exp.EQ(this=count, expression=exp.Literal.number(self.size))
        having = select.args.get("having")
        select.set("having", exp.Having(this=full if having is None else exp.and_(full, having.this)))
        return select

    def _bounds(self, select: exp.Select) -> None:
        """count_window.start and .end are the times of its first and its last row."""
        functions = {"start": "min", "end": "max"}
        for node in list(select.find_all(exp.Column)):
            if node.table.lower() == "count_window" and node.name.lower() in functions:
                called = exp.Anonymous(this=functions[node.name.lower()], expressions=[self.time.copy()])
                named = node.parent is select
                node.replace(exp.alias_(called, node.name) if named else called)


def _ordered(columns: tuple[exp.Expr, ...]) -> list[exp.Expr]:
    return [exp.Ordered(this=column.copy(), nulls_first=True) for column in columns]


def nest(select: exp.Select, *columns: exp.Expr) -> None:
    """What the SELECT reads (of one relation) becomes a sub-query with one column more, for each of the columns."""
    source = select.args["from_"].this
    name = exp.TableAlias(this=exp.to_identifier(source.alias_or_name or "subquery", quoted=True))
    for column in columns:
        inner = exp.Select(expressions=[exp.Star(), column])
        for clause in ("from_", "where"):
            inner.set(clause, select.args.get(clause))
            select.set(clause, None)
        select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=name.copy())))


def batch_form(tree: exp.Query, arrival: bool = False) -> exp.Query:
    """A copy for Spark; `tree` has been compiled. `arrival`: it reads streams with the column `ARRIVED`."""
    tree = tree.copy()
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)) if arrival else ():
        if table.db or table.name.lower() not in named:
            alias = table.alias_or_name
            view = arrival_view(table.name, late=bool(table.db))
            table.set("this", exp.to_identifier(view, quoted=True))
            table.set("db", None)
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    for join in list(tree.find_all(exp.Join)):
        if FORM in join.meta:
            join.meta[FORM].rewrite(join)
    for select in reversed(list(tree.find_all(exp.Select))):  # inner ones first: outer ones take them in as they are
        note = select.meta.get(NOTE)
        if note is not None:
            plain = exp.Select(**{arg: value for arg, value in select.copy().args.items() if value})
            made = note.rewritten(plain)
            for arg in list(select.args):
                select.set(arg, None)
            for arg, value in made.args.items():
                select.set(arg, value)
    return tree


def _chosen(names: list[str], select: exp.Select, condition: exp.Expr) -> exp.Select:
    """These columns of the rows of a sub-query for which a condition holds. A WITH stays outside."""
    with_ = select.args.get("with_")
    select.set("with_", None)
    outer = exp.Select(expressions=[exp.column(name, quoted=True) for name in names])
    outer.set("with_", with_)
    inner = exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier("__inner")))
    outer.set("from_", exp.From(this=inner))
    outer.set("where", exp.Where(this=condition))
    return outer
