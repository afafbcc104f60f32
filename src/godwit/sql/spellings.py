"""Other systems' spellings, put into Spark's before anything else looks at the query.

FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND))   window_start, window_end   (also HOP, SESSION)
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)    TUMBLE_START(..), TUMBLE_END(..)                  (also HOP, SESSION)
split_index(s, '/', 3)
timestampdiff(SECOND, a, b), dateadd(HOUR, 1, ts): the unit is a word, no column
first(x), last(x) of a window over ts          min_by(x, ts), max_by(x, ts)
max_by(x, y), min_by(x, y)                     max(CASE WHEN y IS NOT NULL THEN struct(y, x) END).x
percentile_cont(0.9) WITHIN GROUP (ORDER BY x) percentile(x, 0.9); mode() the same
PROCTIME()                                     _arrived
JOIN t FOR SYSTEM_TIME AS OF s.ts AS t ON ..   ASOF JOIN t MATCH_CONDITION (s.ts >= t.since) ON ..
"""

from __future__ import annotations

from sqlglot import exp

from godwit.model.plan import ARRIVED
from godwit.model.tables import SINCE
from godwit.sql.duration import interval
from godwit.sql.fault import SqlFault

_BY_UNIT = ("timestampdiff", "datediff", "date_diff", "timestampadd", "dateadd", "date_add")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_CUTS = ("window", "session_window", "tumble", "hop", "session")
_FIRST_OR_LAST = {"first": "min_by", "first_value": "min_by", "last": "max_by", "last_value": "max_by"}
_WINDOWS = ("tumble", "hop", "session")
_BOUNDS = {"window_start": "start", "window_end": "end"}
_TABLE_FORM = "FROM TABLE({name}(TABLE stream, DESCRIPTOR(ts), {lengths}))"
_LENGTHS = {
    "tumble": "INTERVAL '10' SECOND",
    "hop": "INTERVAL '2' SECOND, INTERVAL '10' SECOND",
    "session": "INTERVAL '10' SECOND",
}


def respell(tree: exp.Expr) -> exp.Expr:
    """The same tree, changed in place."""
    for join in list(tree.find_all(exp.Join)):
        _system_time(join)
    for select in list(tree.find_all(exp.Select)):
        _table_function(select)
    for select in list(tree.find_all(exp.Select)):
        _first_and_last(select)
    for ordered in list(tree.find_all(exp.WithinGroup)):
        _within_group(ordered)
    for call in list(tree.find_all(exp.Anonymous)):
        name = call.name.lower()
        if name in _BY_UNIT and len(call.expressions) == 3:
            _unit(call)
        elif name in ("max_by", "min_by") and len(call.expressions) == 2 and not isinstance(call.parent, exp.Window):
            _best(call, name.removesuffix("_by"))
        elif name in _WINDOWS:
            call.replace(_window(name, call.expressions[:1], call.expressions[1:], call))
        elif name.removesuffix("_start").removesuffix("_end") in _WINDOWS and "_" in name:
            kind, _, bound = name.rpartition("_")
            call.replace(_bound(kind, bound, call))
        elif name == "split_index" and len(call.expressions) == 3:
            _split_index(call)
        elif name == "proctime" and not call.expressions:
            made = exp.column(ARRIVED)
            made.this.meta.update(call.meta)
            call.replace(made)
    return tree


def _system_time(join: exp.Join) -> None:
    """A table as of a time: of the row's own, or of its processing. The latter is what a plain JOIN means here: the
    version that holds when the row happens, and a change that is made now holds from now on."""
    version = join.this.args.get("version") if isinstance(join.this, exp.Table) else None
    time = version.expression if version is not None and version.args.get("kind") == "AS OF" else None
    select = join.parent
    if version is None or not isinstance(time, exp.Column) or not isinstance(select, exp.Select):
        return
    join.this.set("version", None)
    if not _is_processing_time(time, select):
        since = exp.column(SINCE, table=join.this.alias_or_name)
        join.set("method", "ASOF")
        join.set("match_condition", exp.paren(exp.GTE(this=time.copy(), expression=since)))


def _is_processing_time(time: exp.Column, select: exp.Select) -> bool:
    """Whether a column is PROCTIME() of a sub-query in FROM. One that nobody else reads is taken out of there."""
    sources = [select.args["from_"].this, *(j.this for j in select.args.get("joins") or ())]
    named = {source.alias_or_name.lower(): source.this for source in sources if isinstance(source, exp.Subquery)}
    inner = named.get(time.table.lower()) if time.table else next(iter(named.values()), None)
    for item in inner.expressions if isinstance(inner, exp.Select) else ():
        call = item.unalias()
        if item.alias_or_name.lower() == time.name.lower() and isinstance(call, exp.Anonymous):
            if call.name.lower() != "proctime":
                return False
            read = [c for c in select.find_all(exp.Column) if c.name.lower() == time.name.lower()]
            if not read and not any(isinstance(i, exp.Star) for i in select.expressions):
                item.pop()
            return True
    return False


def _table_function(select: exp.Select) -> None:
    """A window table function in FROM becomes the stream, and the window goes into GROUP BY."""
    source = select.args["from_"].this if select.args.get("from_") else None
    call = source.this if isinstance(source, exp.Table) else None
    if isinstance(call, exp.Anonymous) and call.name.lower() == "table" and len(call.expressions) == 1:
        call = call.expressions[0]
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _WINDOWS:
        return
    name = call.name.lower()
    given, form = call.expressions, _TABLE_FORM.format(name=name.upper(), lengths=_LENGTHS[name])
    if len(given) < 3 or not isinstance(given[0], exp.Column):
        msg = f"{name.upper()} in FROM takes a stream, its time column and lengths of time"
        raise SqlFault(msg, call, f"write {form}")
    group = select.args.get("group")
    keys = [key for key in group.expressions if not _is_bound(key)] if group else []
    if group is None or len(keys) == len(group.expressions) or select.args.get("joins"):
        msg = f"the rows of {name.upper()} are grouped by window_start, window_end, and not joined, in the same SELECT"
        raise SqlFault(msg, call, "write GROUP BY .., window_start, window_end; join in a query around it")
    time = given[1].expressions[0] if isinstance(given[1], exp.Anonymous) and given[1].expressions else given[1]
    assert source is not None
    source.set("this", given[0].this)
    window = _window(name, [time], given[2:], call)
    group.set("expressions", [*keys, window])
    for item in select.expressions:
        if _is_bound(item):
            item.replace(exp.alias_(_field(name, _BOUNDS[item.name.lower()], item), item.name))
    for part in (*select.expressions, *filter(None, map(select.args.get, ("having", "qualify")))):
        for node in list(part.find_all(exp.Column)):
            if _is_bound(node):
                node.replace(_field(name, _BOUNDS[node.name.lower()], node))


def _is_bound(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() in _BOUNDS


def _window(name: str, time: list[exp.Expr], lengths: list[exp.Expr], call: exp.Expr) -> exp.Expr:
    """window(ts, size, slide, offset) or session_window(ts, gap)"""
    found = [interval(length) for length in lengths]
    if not time or not found or None in found or len(found) > (1 if name == "session" else 3 if name == "hop" else 2):
        msg = f"{name.upper()} takes a time column and lengths of time"
        raise SqlFault(msg, call, f"write {name.upper()}(ts, {_LENGTHS[name]}); of HOP the slide comes first")
    sizes = [length or 0 for length in found]
    if name == "hop":
        if len(sizes) < 2:
            msg = "HOP takes the slide and then the size"
            raise SqlFault(msg, call, f"write HOP(ts, {_LENGTHS['hop']})")
        sizes[:2] = sizes[1], sizes[0]
    elif name == "tumble" and len(sizes) == 2:
        sizes = [sizes[0], *sizes]
    texts = [exp.Literal.string(f"{size} microseconds") for size in sizes]
    made = exp.Anonymous(this="session_window" if name == "session" else "window", expressions=[time[0].copy(), *texts])
    made.meta.update(call.meta)
    return made


def _bound(name: str, bound: str, call: exp.Expr) -> exp.Expr:
    """TUMBLE_START(ts, ..) is window.start"""
    if bound not in _BOUNDS.values():
        msg = f"there is no {name.upper()}_{bound.upper()}"
        raise SqlFault(msg, call, f"use {name.upper()}_START or {name.upper()}_END")
    return _field(name, bound, call)


def _field(name: str, bound: str, origin: exp.Expr) -> exp.Column:
    made = exp.column(bound, table="session_window" if name == "session" else "window")
    made.this.meta.update(origin.this.meta if isinstance(origin, exp.Column) else origin.meta)
    return made


def _unit(call: exp.Anonymous) -> None:
    """The unit that a difference is counted in looks like a column."""
    unit = call.expressions[0]
    if isinstance(unit, exp.Column) and not unit.table and unit.name.upper() in _UNITS:
        unit.replace(exp.Var(this=unit.name.upper()))


def _best(call: exp.Anonymous, function: str) -> None:
    """The x of the row with the greatest (least) y; of several, the greatest (least) x: so there is one answer."""
    _name(call)
    x, y = call.expressions
    fields = [exp.alias_(y.copy(), "y"), exp.alias_(x.copy(), "x")]
    there = exp.Not(this=exp.Is(this=y.copy(), expression=exp.Null()))
    pair = exp.Case(ifs=[exp.If(this=there, true=exp.Struct(expressions=fields))])
    made = exp.Anonymous(this=function, expressions=[pair])
    made.meta.update(call.meta)
    whole = call.parent if isinstance(call.parent, exp.Filter) else call
    found = exp.Filter(this=made, expression=whole.expression.copy()) if isinstance(whole, exp.Filter) else made
    whole.replace(exp.Dot(this=found, expression=exp.to_identifier("x")))


def _first_and_last(select: exp.Select) -> None:
    """By the time that the window cuts; of rows of one time, the one with the least (greatest) value."""
    group = select.args.get("group")
    cut = [item for item in group.expressions if isinstance(item, exp.Anonymous)] if group else []
    times = [item.expressions[0] for item in cut if item.name.lower() in _CUTS and item.expressions]
    parts = [*select.expressions, *filter(None, [select.args.get("having")])] if len(times) == 1 else []
    for call in [node for part in parts for node in part.find_all(exp.Anonymous)]:
        name = call.name.lower()
        if name in _FIRST_OR_LAST and len(call.expressions) == 1 and not isinstance(call.parent, exp.Window):
            _name(call)
            call.set("this", _FIRST_OR_LAST[name])
            call.append("expressions", times[0].copy())


def _name(call: exp.Anonymous) -> None:
    """An item of the SELECT list without a name is called by what was written."""
    whole = call.parent if isinstance(call.parent, exp.Filter) else call
    if isinstance(whole.parent, exp.Select):
        columns = (column.name for argument in call.expressions for column in argument.find_all(exp.Column))
        named = exp.Alias(alias=exp.to_identifier("_".join([call.name.lower(), *columns])))
        whole.replace(named)
        named.set("this", whole)


def _within_group(ordered: exp.WithinGroup) -> None:
    """Spark's percentile is the continuous one. Others take the order along, as the last argument (`collected.py`)."""
    call, order = ordered.this, ordered.expression
    by = order.expressions[0] if isinstance(order, exp.Order) and len(order.expressions) == 1 else None
    if not isinstance(call, exp.Anonymous) or not isinstance(by, exp.Ordered):
        return
    name, given = call.name.lower(), [value.copy() for value in call.expressions]
    if name == "percentile_cont" and len(given) == 1 and not by.args.get("desc"):
        made = exp.Anonymous(this="percentile", expressions=[by.this.copy(), *given])
    elif name == "mode" and not given and not by.args.get("desc"):
        made = exp.Anonymous(this="mode", expressions=[by.this.copy()])
    elif name in ("listagg", "string_agg", "percentile_disc"):
        made = exp.Anonymous(this=name, expressions=[*given, by.copy()])
    else:
        return
    made.meta.update(call.meta)
    ordered.replace(made)


def _split_index(call: exp.Anonymous) -> None:
    """Parts are counted from 0, and what is not there is NULL. Spark splits by a pattern."""
    text, mark, index = call.expressions
    if not (isinstance(mark, exp.Literal) and mark.is_string) or set(mark.name) & set("^[]\\"):
        msg = "split_index is split at a text that is written out"
        raise SqlFault(msg, call, "write split_index(url, '/', 3), or use split_part(url, mark, 4)")
    pattern = exp.Literal.string("".join(c if c.isalnum() else f"[{c}]" for c in mark.name))
    split = exp.Anonymous(this="split", expressions=[text.copy(), pattern])
    made = exp.Anonymous(this="get", expressions=[split, index.copy()])
    made.meta.update(call.meta)
    call.replace(made)
