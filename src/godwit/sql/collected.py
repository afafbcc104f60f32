"""Aggregates whose answer depends on an order that SQL leaves open: written so that there is one answer.

    collect_list(x), array_agg(x)              by time, then by value       transform(sort_array(collect_list(..)), ..)
    array_agg(x ORDER BY y)                    by y, then by value
    collect_set(x), array_agg(DISTINCT x)      by value                     sort_array(collect_set(x))
    listagg(x, ', '), string_agg(x, ', ')      the same lists, as one text
    percentile_approx(x, 0.9), percentile_disc exactly: a value of x, the first that 90 % are not above
    mode(x)                                    of several, the least        mode(x, true)
    any_value(x)                               the least                    min(x)

What is written here goes into the plan and to the oracle alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from godwit.sql.fault import SqlFault
from godwit.sql.functions import COUNT_WINDOW
from godwit.sql.keep import KEEP
from godwit.sql.normalise import is_window
from godwit.sql.scope import NameScope

_LISTS = ("collect_list", "array_agg")
_TEXTS = ("listagg", "string_agg")
_RANKED = ("percentile_approx", "approx_percentile", "percentile_disc")
_NAMES = frozenset((*_LISTS, *_TEXTS, *_RANKED, "collect_set", "mode", "any_value"))


def in_one_order(select: exp.Select, scope: NameScope) -> None:
    """The aggregates of a SELECT list, of HAVING and of QUALIFY, changed in place."""
    clauses = [select.args[name] for name in ("having", "qualify") if select.args.get(name)]
    parts = [*select.expressions, *clauses]
    for call in [node for part in parts for node in part.find_all(exp.Anonymous) if node.name.lower() in _NAMES]:
        whole = call.parent if isinstance(call.parent, exp.Filter) else call
        whole = whole.parent if isinstance(whole.parent, exp.Window) else whole
        name = call.name.lower()
        if isinstance(whole, exp.Window):
            order = whole.args.get("order")
            time = order.expressions[0].this if order else None
        else:
            time = _time(select, scope)
            if time is None and KEEP in select.meta and name in (*_LISTS, *_TEXTS):
                msg = f"{name} of a total would keep every row of its key, and write them all anew with each"
                raise SqlFault(msg, call, "add a window: GROUP BY .., window(ts, '10 seconds'); or use collect_set")
        made = _Call(call, whole, time).written()
        if made is not whole:
            whole.replace(made)


def _time(select: exp.Select, scope: NameScope) -> exp.Expr | None:
    """The time column that the SELECT groups by."""
    group = select.args.get("group")
    named = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    items = [item for item in group.expressions if isinstance(item, exp.Expr)] if group else []
    for item in items:
        if isinstance(item, exp.Literal) and item.is_int and 1 <= int(item.name) <= len(select.expressions):
            item = select.expressions[int(item.name) - 1].unalias()
        elif isinstance(item, exp.Column) and scope.find(item) is None:
            item = named.get(item.name.lower(), item)
        counted = isinstance(item, exp.Anonymous) and item.name.lower() == COUNT_WINDOW
        if (is_window(item) or counted) and item.expressions:
            time: exp.Expr = item.expressions[0]
            return time
        for column in item.find_all(exp.Column):
            found = scope.find(column)
            known = scope.field(found.name) if isinstance(found, exp.Column) else None
            if known is not None and known.lag_us is not None:
                return column
    return None


@dataclass(frozen=True, eq=False)
class _Call:
    node: exp.Anonymous
    #: with its FILTER and OVER
    whole: exp.Expr
    time: exp.Expr | None

    def written(self) -> exp.Expr:
        name = self.node.name.lower()
        given = list(self.node.expressions)
        by = given.pop() if given and isinstance(given[-1], exp.Ordered) else None
        if given and isinstance(given[0], exp.Order):
            by = given[0].expressions[0] if len(given[0].expressions) == 1 else self._wrong("takes one ORDER BY")
            given[0] = given[0].this
        distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if distinct:
            given = [*given[0].expressions, *given[1:]]
        if not given or any(isinstance(value, exp.Star) for value in given):
            self._wrong("takes a column")
        if name in _RANKED:
            return self._percentile(given, by)
        if name in ("mode", "any_value"):
            if distinct or len(given) > (1 if name == "mode" else 2):
                self._wrong("takes one argument")
            more = [exp.true()] if name == "mode" else []
            return self._aggregate("mode" if name == "mode" else "min", given[0], *more)
        texts = name in _TEXTS
        if len(given) > 1 + texts or (len(given) == 2 and not _is_text(given[1])):
            self._wrong("takes a column and a text between its values" if texts else "takes one argument")
        if by is not None and (distinct or name == "collect_set") and by.this != given[0]:
            self._wrong("of DISTINCT values is ordered by the values themselves")
        values = self._set(given[0], by) if distinct or name == "collect_set" else self._list(given[0], by)
        return values if not texts else self._text(values, given)

    def _list(self, x: exp.Expr, by: exp.Ordered | None) -> exp.Expr:
        """The values in their order: each is kept with what orders it."""
        first = by.this if by is not None else self.time
        if first is None:
            return _call("sort_array", self._aggregate("collect_list", x))
        pair = exp.Struct(expressions=[exp.alias_(first.copy(), "t"), exp.alias_(x.copy(), "x")])
        there = exp.Not(this=exp.Is(this=x.copy(), expression=exp.Null()))
        kept = self._aggregate("collect_list", exp.Case(ifs=[exp.If(this=there, true=pair)]))
        each = exp.to_identifier("e")
        value = exp.Lambda(this=exp.Dot(this=each, expression=exp.to_identifier("x")), expressions=[each.copy()])
        return _call("transform", self._sorted(kept, by), value)

    def _set(self, x: exp.Expr, by: exp.Ordered | None) -> exp.Expr:
        return self._sorted(self._aggregate("collect_set", x), by)

    @staticmethod
    def _sorted(values: exp.Expr, by: exp.Ordered | None) -> exp.Expr:
        more = [exp.false()] if by is not None and by.args.get("desc") else []
        return _call("sort_array", values, *more)

    def _text(self, values: exp.Expr, given: list[exp.Expr]) -> exp.Expr:
        """As Spark has it: NULL of no values."""
        mark = given[1].copy() if len(given) == 2 else exp.Literal.string("")
        some = exp.GT(this=self._aggregate("count", given[0]), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=_call("array_join", values, mark))])

    def _percentile(self, given: list[exp.Expr], by: exp.Ordered | None) -> exp.Expr:
        name = self.node.name.lower()
        if name == "percentile_disc" and (by is None or len(given) != 1):
            self._wrong("is written percentile_disc(0.95) WITHIN GROUP (ORDER BY x)")
        x, fractions = (by.this, given[0]) if by is not None else (given[0], given[1] if len(given) > 1 else None)
        if isinstance(fractions, exp.Array) and fractions.expressions:
            each = [self._at(x, fraction, by) for fraction in fractions.expressions]
            some = exp.GT(this=self._aggregate("count", x), expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=some, true=exp.Array(expressions=each))])
        found = self._at(x, fractions, by)
        # as Spark has it: percentile_disc is a double
        return exp.Cast(this=found, to=exp.DataType.build("double")) if name == "percentile_disc" else found

    def _at(self, x: exp.Expr, fraction: exp.Expr | None, by: exp.Ordered | None) -> exp.Expr:
        """The value at a place among all, which is counted as Spark counts it."""
        if not isinstance(fraction, exp.Literal) or fraction.is_string or not 0 <= float(fraction.name) <= 1:
            msg = f"{self.node.name.lower()} needs fractions between 0 and 1, written out"
            raise SqlFault(msg, self.node, "write e.g. percentile_approx(x, 0.95), or with array(0.5, 0.95)")
        share = exp.Cast(this=fraction.copy(), to=exp.DataType.build("double"))
        place = _call("ceil", exp.Mul(this=share, expression=self._aggregate("count", x)))
        place = _call("greatest", _call("int", place), exp.Literal.number(1))
        return _call("try_element_at", self._sorted(self._aggregate("collect_list", x), by), place)

    def _aggregate(self, name: str, *arguments: exp.Expr) -> exp.Expr:
        """An aggregate that goes by what stands around this one: FILTER, OVER."""
        given = [argument.copy() for argument in arguments]
        made: exp.Expr = exp.Count(this=given[0], big_int=True) if name == "count" else _call(name, *given)
        made.meta.update(self.node.meta)
        if self.whole is self.node:
            return made
        around = self.whole.copy()
        inner = next(node for node in around.walk() if node == self.node)
        inner.replace(made)
        return around

    def _wrong(self, why: str) -> exp.Ordered:
        name = self.node.name.lower()
        msg = f"{name} {why}"
        raise SqlFault(msg, self.node, _FORMS[name].format(name=name))


_FORMS = {
    **dict.fromkeys(("collect_list", "collect_set", "mode", "any_value"), "write e.g. {name}(note)"),
    "array_agg": "write e.g. array_agg(note), array_agg(DISTINCT note) or array_agg(note ORDER BY ts DESC)",
    **dict.fromkeys(_TEXTS, "write e.g. listagg(note, ', ') or listagg(DISTINCT note, ', ')"),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), "write e.g. percentile_approx(x, 0.95)"),
    "percentile_disc": "write e.g. percentile_disc(0.95) WITHIN GROUP (ORDER BY x)",
}


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string
