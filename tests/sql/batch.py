"""Runs a logical plan as a Spark batch, operator by operator, as literally as can be: what the plan means.

Parameters are columns, as they are in the engine, so that a wrongly typed one shows.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.model import plan as p
from godwit.model.joins import AsofJoin, OuterJoin
from godwit.model.ranking import RankCall, Ranked, TopRows
from godwit.model.running import Over, OverCall, RunningAggregate

PAIRS = (
    "corr",
    "covar_pop",
    "covar_samp",
    *(f"regr_{f}" for f in ["avgx", "avgy", "count", "intercept", "r2", "slope", "sxx", "sxy", "syy"]),
)
AGGREGATES = {
    "count_distinct": "count(DISTINCT {x})",
    "percentile": "percentile({x}, {k})",
    "mode": "mode({x}, true)",
    **{name: f"{name}(({{x}}).y, ({{x}}).x)" for name in PAIRS},
}


def run(spark: SparkSession, query: p.Query) -> DataFrame:
    """The query's result over tables named like its streams."""
    types = [t for _, t in spark.range(1).select(*[F.expr(v) for v in query.parameters]).dtypes]
    assert types == [parameter.type for parameter in query.shape.parameters]
    frames: list[Any] = []
    for index, operator in enumerate(query.shape.plan.operators):
        below = [frames[i] for i in operator.inputs]
        frames.append(_evaluate(spark, query, index, operator, below))
    return frames[-1]


def _evaluate(spark: SparkSession, query: p.Query, index: int, operator: p.Operator, below: list[Any]) -> Any:
    match operator:
        case p.Scan():
            return _scan(spark, query, index, operator)
        case p.Filter():
            return _with_parameters(query, below[0], operator.predicate).where(operator.predicate)
        case p.Project():
            source = _with_parameters(query, below[0], *[c.sql for c in operator.columns])
            return source.select(*[F.expr(c.sql).alias(c.name) for c in operator.columns])
        case p.Union():
            first, *others = below
            for other in others:
                first = first.unionByName(other)
            return first
        case p.Partial():
            return _with_parameters(query, below[0], *[c.argument or "" for c in operator.aggregates])
        case p.Aggregate():
            partial = query.shape.plan.operators[operator.inputs[0]]
            assert isinstance(partial, p.Partial)
            assert (partial.window, partial.aggregates) == (operator.window, operator.aggregates)
            return _aggregate(below[0], partial)
        case RunningAggregate():
            partial = query.shape.plan.operators[operator.inputs[0]]
            assert isinstance(partial, p.Partial)
            return _totals(query, below[0], partial, operator)
        case Over():
            assert set(operator.columns) <= set(below[0].columns)
            rows = _lives(below[0], operator) if operator.keep_us else below[0]
            after = [OverCall("__after", "count", None, "rows", -1, -operator.ahead)] if operator.ahead else []
            calls = [_over(call, operator) for call in (*operator.calls, *after)]
            made = rows.selectExpr(*(f"`{c}`" for c in operator.columns), *calls)
            return made.where(f"__after = {operator.ahead}").drop("__after") if after else made
        case Ranked():
            return _ranked(below[0], operator.keys, operator.columns, operator.calls)
        case TopRows():
            call = RankCall(operator.place, "row_number()", operator.order)
            ranked = _ranked(below[0], operator.keys, operator.columns, (call,))
            best = ranked.where(f"{operator.place} <= {operator.limit}")
            return best.withColumn(p.VERSION, F.lit(0)).withColumn(p.DELETED, F.lit(False))
        case p.Join():
            return _join(query, operator, *below)
        case OuterJoin():
            return _outer(query, operator, *below)
        case AsofJoin():
            return _asof(query, operator, *below)
        case p.Sink():
            assert below[0].columns == list(operator.written)
            return below[0].select(*operator.columns)


def _ranked(rows: DataFrame, keys: tuple[str, ...], columns: tuple[str, ...], calls: tuple[RankCall, ...]) -> DataFrame:
    by = ", ".join(f"`{key}`" for key in keys)
    texts = []
    for call in calls:
        order = f"ORDER BY {', '.join(call.order)}" if call.order else ""
        texts.append(f"{call.function} OVER ({f'PARTITION BY {by}' if by else ''} {order}) AS {call.name}")
    return rows.selectExpr(*(f"`{c}`" for c in columns), *texts)


def _scan(spark: SparkSession, query: p.Query, index: int, scan: p.Scan) -> DataFrame:
    table = spark.table(p.arrival_view(scan.stream, scan.late) if scan.arrival else str(scan.stream))
    if scan.subscribe is not None:
        table = table.where(f"`{scan.subscribe}` IN ({', '.join(query.subscriptions[index])})")
    return table.select(*[F.col(c).alias(f"{scan.alias}__{c}") for c in scan.columns])


def _with_parameters(query: p.Query, frame: DataFrame, *readers: str) -> DataFrame:
    """The frame with the parameters that the expressions read, in columns that Spark cannot see through."""
    read = {word for sql in readers for word in re.findall(r"__p\d+", sql)}
    for parameter, value in zip(query.shape.parameters, query.parameters, strict=True):
        if parameter.name in read:
            frame = frame.withColumn(parameter.name, F.expr(f"element_at(array({value}), 1 + int(rand(7) * 0))"))
    return frame


def _aggregate(rows: DataFrame, partial: p.Partial) -> DataFrame:
    window = partial.window
    if window.kind == "session":
        cut = F.session_window(window.time, f"{window.gap_us} microseconds")
    elif window.kind == "calendar":
        local = f"unix_micros(from_utc_timestamp(`{window.time}`, '{window.zone}'))"
        first = f"{local} - pmod({local} - {window.offset_us}, {window.size_us})"
        ends = (f"to_utc_timestamp(timestamp_micros({first} + {n}), '{window.zone}')" for n in (0, window.size_us))
        cut = F.expr("named_struct('start', {}, 'end', {})".format(*ends))
    else:
        lengths = (f"{us} microseconds" for us in (window.size_us, window.slide_us, window.offset_us))
        cut = F.window(window.time, *lengths)
    calls = [_call(c) for c in partial.aggregates]
    grouped = rows.groupBy(*[F.expr(k.sql).alias(k.name) for k in partial.keys], cut.alias("__w")).agg(*calls)
    bounds = [F.col("__w.start").alias(p.WINDOW_START), F.col("__w.end").alias(p.WINDOW_END)]
    names = [k.name for k in partial.keys] + [c.name for c in partial.aggregates]
    return grouped.select(*[F.col(f"`{n}`") for n in names], *bounds)


def _totals(query: p.Query, rows: DataFrame, partial: p.Partial, running: RunningAggregate) -> DataFrame:
    """Of each key the totals since the last gap that is long enough, if the condition holds for them."""
    if partial.window.kind not in ("session", "unbounded"):
        early = _aggregate(rows, partial)
        if running.having:
            early = _with_parameters(query, early, running.having).where(running.having)
        return early.withColumn(p.VERSION, F.lit(0)).withColumn(p.DELETED, F.lit(False))
    session = partial.window.kind == "session"
    cut = [F.session_window(partial.window.time, f"{partial.window.gap_us} microseconds")] if session else []
    keys = [F.expr(k.sql).alias(k.name) for k in partial.keys]
    newest = F.max(partial.window.time).alias("__newest")
    totals = rows.groupBy(*keys, *cut).agg(newest, *[_call(c) for c in partial.aggregates])
    by = ", ".join(f"`{key}`" for key in running.keys) or "1"
    last = totals.withColumn("__place", F.expr(f"row_number() OVER (PARTITION BY {by} ORDER BY __newest DESC)"))
    last = last.where("__place = 1 AND __newest IS NOT NULL")
    if running.having:
        last = _with_parameters(query, last, running.having).where(running.having)
    return last.withColumn(p.VERSION, F.lit(0)).withColumn(p.DELETED, F.lit(False))


def _lives(rows: DataFrame, over: Over) -> DataFrame:
    """Of each row the time of the last one of its key before it, or its own, that came too long after another."""
    by = ", ".join(f"`{key}`" for key in over.keys) or "1"
    near = f"RANGE BETWEEN INTERVAL {over.keep_us} MICROSECONDS PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING"
    alone = f"count(*) OVER (PARTITION BY {by} ORDER BY `{over.time}` {near}) = 0"
    marked = rows.withColumn("__first", F.expr(f"CASE WHEN {alone} THEN `{over.time}` END"))
    return marked.withColumn("__life", F.expr(f"max(__first) OVER (PARTITION BY {by} ORDER BY `{over.time}`)"))


def _over(call: OverCall, over: Over) -> str:
    keys = [*over.keys, *(["__life"] if over.keep_us else [])]
    by = f"PARTITION BY {', '.join(f'`{key}`' for key in keys)} " if keys else ""
    ties = over.ties if call.kind == "rows" else ()
    order = f"{by}ORDER BY {', '.join(f'`{name}`' for name in (over.time, *ties))}"
    x = "1" if call.argument is None else f"`{call.argument}`"
    if call.function == "row_number":
        return f"row_number() OVER ({order}) AS {call.name}"
    if call.function in ("lag", "lead"):
        given = ", ".join([x, str(abs(call.end)), *call.constants])
        return f"{call.function}({given}) OVER ({order}) AS {call.name}"

    def bound(distance: int | None) -> str:
        size = f"INTERVAL {distance} MICROSECONDS" if call.kind == "range" else distance
        if distance is not None and distance < 0:
            return f"{-distance} FOLLOWING"
        return "UNBOUNDED PRECEDING" if distance is None else f"{size} PRECEDING" if distance else "CURRENT ROW"

    window = f"OVER ({order} {call.kind} BETWEEN {bound(call.start)} AND {bound(call.end)})"
    if call.function == "count_distinct":
        return f"bigint(size(collect_set({x}) {window})) AS {call.name}"
    more = ["true"] if call.function == "mode" else []
    constants = "".join(f", {constant}" for constant in (*call.constants, *more))
    return f"{call.function}({x}{constants}) {window} AS {call.name}"


def _call(call: p.AggregateCall) -> Any:
    template = AGGREGATES.get(call.function, f"{call.function}({{x}})")
    constant = call.constants[0] if call.constants else ""
    return F.expr(template.format(x=call.argument or "*", k=constant)).alias(call.name)


def _asof(query: p.Query, join: AsofJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """All pairs, of each row of the left the one with the newest of the right; then what is asked of it."""
    left = left.withColumn("__l", F.monotonically_increasing_id()).cache()
    keys = [f"`{a}` = `{b}`" for a, b in join.keys]
    when = f"`{join.left_time}` {'>' if join.strict else '>='} `{join.right_time}`"
    pairs = left.crossJoin(right).where(" AND ".join([*keys, when]))
    order = ", ".join(f"`{name}` DESC" for name in (join.right_time, *join.ties))
    pairs = pairs.withColumn("__place", F.expr(f"row_number() OVER (PARTITION BY __l ORDER BY {order})"))
    rest = [f"({join.residual})"] if join.residual else []
    rest += [f"NOT `{join.deleted}`"] if join.deleted else []
    age = f"unix_micros(`{join.left_time}`) - unix_micros(`{join.right_time}`)"
    rest += [f"{age} <= {join.keep_us}"] if join.keep_us else []
    pairs = _with_parameters(query, pairs, *rest).where(" AND ".join(["__place = 1", *rest])).cache()
    columns = [[c.name for c in side] for side in (join.left, join.right)]
    made = pairs.select(*columns[0], *columns[1])
    if not join.outer:
        return made
    nothing = [F.lit(None).cast(c.type).alias(c.name) for c in join.right]
    return made.unionByName(left.join(pairs, "__l", "left_anti").select(*columns[0], *nothing))


def _outer(query: p.Query, join: OuterJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """By numbers: the pairs, then who is in none of them. `left` and `right` of the node are what comes out."""
    left, right = (f.withColumn(n, F.monotonically_increasing_id()) for f, n in ((left, "__l"), (right, "__r")))
    pairs = _join(query, join.inner, left.cache(), right.cache()).cache()
    alone = [left.join(pairs, "__l", "left_anti"), right.join(pairs, "__r", "left_anti")]
    columns = [[c.name for c in side] for side in (join.left, join.right)]
    if join.how in ("semi", "anti"):
        chosen = alone[0] if join.how == "anti" else left.join(pairs, "__l", "left_semi")
        return chosen.select(*columns[0])
    made = pairs.select(*columns[0], *columns[1])
    for side in join.answers_for:
        others = [F.lit(None).cast(c.type).alias(c.name) for c in (join.right, join.left)[side]]
        made = made.unionByName(alone[side].select(*columns[side], *others))
    return made


def _join(query: p.Query, join: p.Join, left: DataFrame, right: DataFrame) -> DataFrame:
    left, right = (side.drop(*[parameter.name for parameter in query.shape.parameters]) for side in (left, right))
    assert not set(left.columns) & set(right.columns)
    apart = f"unix_micros(`{join.right_time}`) - unix_micros(`{join.left_time}`)"
    conditions = [f"({a}) = ({b})" for a, b in join.keys] + [f"{apart} BETWEEN {join.lower_us} AND {join.upper_us}"]
    joined = left.crossJoin(right).where(" AND ".join(conditions))
    return _with_parameters(query, joined, join.residual).where(join.residual) if join.residual else joined
