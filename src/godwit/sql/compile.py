"""The front end's door: SQL text in, a checked `Query` out.

parse -> guard -> normalise -> draft plan -> push filters, merge projections, drop columns -> subscribe, lift -> emit
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from godwit.errors import SqlError, UnsupportedError
from godwit.ids import QueryId, StreamId
from godwit.model.plan import ARRIVED, DELETED, LATE, VERSION, Query, Shape, Stream
from godwit.names import fault, reserved
from godwit.sql.batch_form import batch_form
from godwit.sql.dialect import parse, text, tokens
from godwit.sql.emit import Emitter
from godwit.sql.fault import SqlFault, located, point
from godwit.sql.guard import guard
from godwit.sql.keep import UNORDERED, take_hints
from godwit.sql.limit_by import limits_as_ranks
from godwit.sql.normalise import normalise
from godwit.sql.push import merge_projections, prune, push_filters
from godwit.sql.select import ORDER, Compiler, Result
from godwit.sql.shape import Lifter, subscribe
from godwit.sql.spellings import respell
from godwit.sql.syntax import syntax_error, unreadable
from godwit.sql.table_filters import filters_as_joins

_ONLY_QUERIES = "submit a SELECT, or INSERT INTO stream SELECT ..; streams are declared apart (fleet.stream)"
_MAY_GIVE_DECIMALS = frozenset(
    ("decimal", "to_number", "try_to_number", "date_part", "datepart", "from_json", "from_csv", "variant_get")
)
_BEGINNINGS = ("SELECT", "WITH", "INSERT", "FROM", "(")


def compile_query(
    sql: str,
    streams: Mapping[StreamId, Stream],
    query_id: QueryId,
    order: tuple[int, ...] = (),
    declared: Collection[str] = (),
) -> Query:
    """The query's plan, or an SqlError that says where it is wrong and what would help.

    `order`: how to join what its widest FROM names, by position; without it, as written. `declared`: functions that the
    program brings with it.
    """
    with located(sql):
        select, target = _target(_parse(sql))
        take_hints(select)
        ordered = not any(one.meta.get(UNORDERED) for one in select.find_all(exp.Select))
        respell(select)
        limits_as_ranks(select)
        filters_as_joins(select, streams)
        for tree in (target, select):
            if tree is not None:
                guard(tree, sql, declared)
        select = normalise(select)
        if order:
            widest(select).meta[ORDER] = order
        result = Compiler(streams, _goes_by_arrival(select, streams)).query(select, {})
        _check_target(target, result, select)
        decimals = _computes_with_decimals(select, streams)
        return _query(sql, query_id, select, target, result, decimals, ordered)


def width(sql: str) -> int:
    """How many relations the widest FROM of a query names."""
    return _relations(widest(_target(_parse(sql))[0]))


def widest(query: exp.Query) -> exp.Select:
    """The SELECT whose FROM names most; of equals the outermost."""
    return max(query.find_all(exp.Select), key=_relations)


def _relations(select: exp.Select) -> int:
    return 1 + len(select.args.get("joins") or ())


def _query(
    sql: str,
    query_id: QueryId,
    select: exp.Query,
    target: exp.Table | None,
    result: Result,
    decimals: bool,
    ordered: bool,
) -> Query:
    draft = merge_projections(push_filters(result.draft))
    hidden = () if result.key is None else (VERSION, DELETED)
    draft = subscribe(prune(draft, frozenset([*(f.flat for f in result.fields), *hidden])))
    lifter = Lifter(decimals)
    emitter = Emitter(lifter)
    plan = emitter.sink(draft, result.fields, result.key, ordered)
    return Query(
        id=query_id,
        sql=sql,
        shape=Shape(plan, tuple(lifter.parameters)),
        parameters=tuple(lifter.values),
        subscriptions=emitter.subscriptions,
        target=StreamId(target.name) if target else None,
        oracle_sql=text(batch_form(select, any(scan.arrival for _, scan in plan.scans))),
        output=tuple(f.name for f in result.fields),
    )


def _goes_by_arrival(select: exp.Query, streams: Mapping[StreamId, Stream]) -> bool:
    """Whether a query reads when rows arrived; a stream's own column of that name is one like any other."""
    if any(table.db.lower() == LATE for table in select.find_all(exp.Table)):
        return True
    if not any(column.name.lower() == ARRIVED for column in select.find_all(exp.Column)):
        return False
    read = {table.name.lower() for table in select.find_all(exp.Table)}
    return not any(
        column.name.lower() == ARRIVED
        for name, stream in streams.items()
        if str(name).lower() in read
        for column in stream.columns
    )


def _check_start(sql: str) -> None:
    """sqlglot would take an unknown first word for a command, or for a column."""
    first = next(iter(tokens(sql)), None)
    if first is not None and first.text.upper() not in _BEGINNINGS:
        problem = f"'{first.text}' does not begin a query"
        raise UnsupportedError(problem, place=point(sql, first.start, first.end + 1), remedy=_ONLY_QUERIES)


def _parse(sql: str) -> exp.Expr:
    try:
        _check_start(sql)
        statements = [s for s in parse(sql) if s is not None]
    except ParseError as error:
        raise syntax_error(sql, error) from None
    except TokenError as error:
        raise unreadable(sql, error) from None
    if len(statements) != 1:
        msg = f"there are {len(statements)} statements" if statements else "there is no statement"
        raise SqlFault(
            msg, statements[1] if statements else None, "submit one SELECT or INSERT INTO at a time", SqlError
        )
    return statements[0]


def _target(statement: exp.Expr) -> tuple[exp.Query, exp.Table | None]:
    """The SELECT, and the derived stream of INSERT INTO."""
    if isinstance(statement, exp.Query):
        return statement, None
    if not isinstance(statement, exp.Insert):
        msg = f"{statement.key.upper()} is not a query"
        raise SqlFault(msg, statement, _ONLY_QUERIES)
    table, select = statement.this, statement.expression
    options = [k for k, v in statement.args.items() if v and k not in ("this", "expression", "with_")]
    if options or not isinstance(table, exp.Table) or table.args.get("db") or not isinstance(select, exp.Query):
        msg = "of INSERT only INSERT INTO stream SELECT .. can run continuously"
        raise SqlFault(msg, table, "name one derived stream, without OVERWRITE, column list, partitions or VALUES")
    if statement.args.get("with_"):
        select.set("with_", statement.args["with_"].pop())
    select.pop()
    return select, table


def _check_target(target: exp.Table | None, result: Result, select: exp.Query) -> None:
    if target is None:
        return
    problem = fault("stream", target.name) or reserved("stream", target.name)
    if problem is not None:
        raise SqlFault(problem, target, "name the derived stream with letters, digits and _")
    for field in result.fields:
        if fault("column", field.name) is not None:
            msg = f"column '{field.name}' of '{target.name}' could not be read by another query"
            raise SqlFault(msg, target, "name it: SELECT .. AS name, with letters, digits and _")
    if any(table.name.lower() == target.name.lower() for table in select.find_all(exp.Table)):
        msg = f"'{target.name}' would read what it writes"
        raise SqlFault(msg, target, "insert into another derived stream")
    if result.key is not None:
        msg = f"the rows of '{target.name}' would replace each other, and a stream only grows"
        raise SqlFault(msg, target, "aggregate in a window: GROUP BY .., window(ts, '10 seconds')")
    if all(field.lag_us is None for field in result.fields):
        msg = f"the rows of '{target.name}' would have no time column"
        remedy = "select a time column as it is: the stream's own, or window.end of the aggregate"
        raise SqlFault(msg, target, remedy)


def _computes_with_decimals(select: exp.Query, streams: Mapping[StreamId, Stream]) -> bool:
    """Whether any value in the query can be a decimal (declared, written, cast or returned by a function)."""
    read = {table.name.lower() for table in select.find_all(exp.Table)}
    declared = (c.type.lower() for s in streams.values() if str(s.id).lower() in read for c in s.columns)
    return (
        any("decimal" in kind or "numeric" in kind for kind in declared)
        or any(not n.is_string and "." in n.name and "e" not in n.name.lower() for n in select.find_all(exp.Literal))
        or any(kind.this == exp.DType.DECIMAL for kind in select.find_all(exp.DataType))
        or any(True for _ in select.find_all(exp.Extract))
        or any(call.name.lower() in _MAY_GIVE_DECIMALS for call in select.find_all(exp.Anonymous))
    )
